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
	own, before := keyIn(request.Header, t.header), redirectedFrom(request)
	switch {
	case before == nil:
		return own
	case own != "" && own != keyIn(firstOf(before).Header, t.header):
		return own // set by CheckRedirect
	case isSameOperation(request, before):
		return keyIn(before.Header, t.header)
	default:
		return ""
	}
}

// redirectedFrom returns the request whose response has caused this one, or nil.
func redirectedFrom(request *http.Request) *http.Request {
	if request.Response == nil {
		return nil
	}
	return request.Response.Request
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
	for before := redirectedFrom(request); before != nil; before = redirectedFrom(request) {
		request = before
	}
	return request
}

// isSameOperation reports whether a redirect repeats the previous request's operation,
// with the same method and body. By RFC 9110, section 15.4, 307 and 308 do; 301, 302 and
// 303 drop the body.
func isSameOperation(redirect, before *http.Request) bool {
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
