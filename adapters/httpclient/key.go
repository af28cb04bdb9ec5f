package httpclient

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/oncekey/oncekey/adapters/internal/outgoing"
)

// WithCall names a call, so that several calls of one outer request to one URL get
// different keys. The name must be the same in every repetition of the outer request:
// take the name from the data ("line-3"), not from a counter or a clock. A later name
// replaces an earlier name. Outside a guarded request the name has no effect, because
// every call there has its own key.
func WithCall(ctx context.Context, name string) context.Context {
	return outgoing.WithCall(ctx, name)
}

// givenKey returns the request's existing key: the caller's own key, or the key from
// before a redirect. It returns "" for a new operation.
//
// http.Client copies the caller's header to every redirect, and sets Response to the
// response that caused the redirect.
func (t *Transport) givenKey(request *http.Request) string {
	own := keyIn(request.Header, t.header)
	if request.Response == nil || request.Response.Request == nil {
		return own
	}
	if own != "" && own != keyIn(firstOf(request).Header, t.header) {
		return own // set by CheckRedirect
	}
	if isSameOperation(request) {
		return keyIn(request.Response.Request.Header, t.header)
	}
	return ""
}

// sentBefore returns the time of the key that a redirect repeats, or "". An attempt with the
// caller's own key ignores it.
func sentBefore(redirect *http.Request) string {
	if redirect.Response == nil || redirect.Response.Request == nil {
		return ""
	}
	return redirect.Response.Request.Header.Get(outgoing.FirstSentHeader)
}

// keyIn returns the key in a header, or "" for a missing or empty key. It also finds a
// name with another spelling than the canonical spelling.
func keyIn(header http.Header, name string) string {
	for field, values := range header {
		if !strings.EqualFold(field, name) {
			continue
		}
		for _, value := range values {
			if value = strings.Trim(value, " \t"); value != "" { // net/http trims values too
				return value
			}
		}
	}
	return ""
}

// firstOf returns the first request of a chain of redirects.
func firstOf(request *http.Request) *http.Request {
	for request.Response != nil && request.Response.Request != nil {
		request = request.Response.Request
	}
	return request
}

// isSameOperation reports whether a redirect repeats the previous request's operation,
// with the same method and body. By RFC 9110, section 15.4, 307 and 308 do; 301, 302 and
// 303 drop the body.
func isSameOperation(redirect *http.Request) bool {
	before := redirect.Response.Request
	if redirect.Method != before.Method {
		return false
	}
	switch redirect.Response.StatusCode {
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return isEmpty(before.Body)
}

// operationOf returns "METHOD host/path". An escaped path cannot contain a line break.
func operationOf(request *http.Request) string {
	host := cmp.Or(request.Host, request.URL.Host)
	path := cmp.Or(request.URL.Opaque, request.URL.EscapedPath(), "/")
	return request.Method + " " + strings.ToLower(host) + path
}
