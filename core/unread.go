package core

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/oncekey/oncekey/core/problem"
)

// refusedBytes bounds how much of a refused request's body is read.
const refusedBytes = 1 << 20

// dispose takes care of the body of a request that is refused before the body
// was read. A server that closes a connection with unread bytes on it resets it,
// and the reset can overtake the response (RFC 9112, section 9.6). net/http
// guards against that only on connections that it meant to keep.
//
// A body of up to 1 MiB is read, so that the connection stays usable. Anything
// longer stays unread: net/http is told to close the connection gently.
func dispose(w http.ResponseWriter, r *http.Request, refusal *problem.Problem) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	known := r.ContentLength >= 0 || refusal.Code != problem.BodyTooLarge // or it has been read to the limit
	awaited := r.Header.Get("Expect") != ""                               // reading would ask the client to send it
	if known && !awaited && r.ContentLength <= refusedBytes {
		if _, err := io.CopyN(io.Discard, r.Body, refusedBytes+1); errors.Is(err, io.EOF) {
			return
		}
	}
	closeGently(w)
}

// closeGently makes net/http end the connection as it does after a body that is
// too large: it stops sending, waits, and closes then. The only way to ask for it
// is a MaxBytesReader that meets its limit at the connection's own writer.
func closeGently(w http.ResponseWriter) {
	beyond := http.MaxBytesReader(connectionOf(w), io.NopCloser(strings.NewReader(".")), 0)
	_, _ = beyond.Read(make([]byte, 1))
}

// connectionOf returns the writer that all others wrap.
func connectionOf(w http.ResponseWriter) http.ResponseWriter {
	for {
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = wrapper.Unwrap()
	}
}
