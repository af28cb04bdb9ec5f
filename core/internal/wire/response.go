package wire

import (
	"net/http"
	"strings"
)

// WriteResponse sends a status and a body. A failed write is the client's disconnect,
// which needs no error. A body without a type goes without its status if the first Write
// implies it: middleware outside may look for the type there.
func WriteResponse(w http.ResponseWriter, status int, body []byte) {
	if len(body) == 0 || len(w.Header()["Content-Type"]) > 0 || status != impliedStatus(w) {
		w.WriteHeader(status)
	}
	if len(body) > 0 {
		w.Write(body) //nolint:errcheck // a disconnected client needs no error
	}
}

// impliedStatus is the status of a response that begins with its body. A gin.ResponseWriter
// has that of its route, which is 404 in NoRoute.
func impliedStatus(w http.ResponseWriter) int {
	for {
		if set, has := w.(interface{ Status() int }); has && set.Status() != 0 {
			return set.Status()
		}
		wrapper, wraps := w.(interface{ Unwrap() http.ResponseWriter })
		if !wraps {
			return http.StatusOK
		}
		w = wrapper.Unwrap()
	}
}

// BodyAllowed reports whether a response of this status has a body (RFC 9110, section
// 6.4.1).
func BodyAllowed(status int) bool {
	return status >= http.StatusOK && status != http.StatusNoContent && status != http.StatusNotModified
}

// EndsShort reports whether a response with a body has less than its Content-Length,
// of which net/http then cuts the connection.
func EndsShort(r *http.Request, status int, length, written int64) bool {
	return length > written && BodyAllowed(status) && r.Method != http.MethodHead
}

// StreamsByType reports whether clients read a response of this media type as a stream.
func StreamsByType(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	switch strings.ToLower(strings.TrimSpace(media)) {
	case "text/event-stream", "application/x-ndjson", "application/ndjson", "application/jsonl",
		"application/json-seq", "multipart/x-mixed-replace":
		return true
	default:
		return false
	}
}

// Supports reports whether the innermost writer implements T, because a wrapper with
// T's methods may wrap a writer without them. Callers check before the run is recorded
// as unreplayable.
func Supports[T any](w http.ResponseWriter) bool {
	_, ok := connectionOf(w).(T)
	return ok
}

// CloseNotify returns the channel of the innermost writer for the end of its connection, or nil.
func CloseNotify(w http.ResponseWriter) <-chan bool {
	if connection, ok := connectionOf(w).(http.CloseNotifier); ok { //nolint:staticcheck // gin still asks for it
		return connection.CloseNotify()
	}
	return nil
}

// connectionOf returns the innermost writer.
func connectionOf(w http.ResponseWriter) http.ResponseWriter {
	for {
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = wrapper.Unwrap()
	}
}
