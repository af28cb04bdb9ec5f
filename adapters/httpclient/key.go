package httpclient

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/oncekey/oncekey/core"
)

type callName struct{}

// WithCall names a call among those that one outer request makes to one URL, so
// that each has a key of its own. The name must be the same whenever the outer
// request is repeated: take it from the data ("line-3"), not from a counter or a
// clock. A name given later replaces an earlier one; outside a guarded request it
// changes nothing, because there every call has a key of its own anyway.
func WithCall(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, callName{}, name)
}

// newKey is derived from the outer request's key where there is one: its handler
// may run again, and must then not do again what it did.
func newKey(request *http.Request) string {
	ctx := request.Context()
	name, _ := ctx.Value(callName{}).(string)
	if derived := core.DeriveKey(ctx, subject(request)+"\n"+name); derived != "" {
		return derived
	}
	return uuid.NewString()
}

// givenKey returns the key that the request has already: the caller's own, or the
// one that it was sent with before a redirect. It is empty for a new operation.
//
// http.Client copies the caller's header to every redirect, and tells by Response
// where it comes from.
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

// keyIn returns the key in a header, and "" where it has none or an empty one. It
// also finds a name that was put into the map as it was spelled.
func keyIn(header http.Header, name string) string {
	for field, values := range header {
		if !strings.EqualFold(field, name) {
			continue
		}
		for _, value := range values {
			if value = strings.Trim(value, " \t"); value != "" { // as net/http sends it
				return value
			}
		}
	}
	return ""
}

// firstOf returns the request that a chain of redirects began with.
func firstOf(request *http.Request) *http.Request {
	for request.Response != nil && request.Response.Request != nil {
		request = request.Response.Request
	}
	return request
}

// isSameOperation reports whether a redirect asks for the operation again that the
// request before it asked for, with its method and its body. RFC 9110, section
// 15.4, has 307 and 308 for that; 301, 302 and 303 drop the body.
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

// subject is "METHOD host/path". A path cannot contain a line break: it is escaped.
func subject(request *http.Request) string {
	host := cmp.Or(request.Host, request.URL.Host)
	path := cmp.Or(request.URL.Opaque, request.URL.EscapedPath(), "/")
	return request.Method + " " + strings.ToLower(host) + path
}
