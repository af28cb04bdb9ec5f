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

// subject is "METHOD host/path". A path cannot contain a line break: it is escaped.
func subject(request *http.Request) string {
	host := cmp.Or(request.Host, request.URL.Host)
	path := cmp.Or(request.URL.Opaque, request.URL.EscapedPath(), "/")
	return request.Method + " " + strings.ToLower(host) + path
}
