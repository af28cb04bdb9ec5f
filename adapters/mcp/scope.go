package idemmcp

import (
	"context"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// CallFrom returns the call of a guarded tool, or nil for any other context. A core.Scope
// reads the call from the context of its request: the token's claims in Extra.TokenInfo,
// or an account in Params.Arguments. Do not scope by the session: a retry comes on a new
// one.
func CallFrom(ctx context.Context) *mcp.CallToolRequest {
	if s := servingOf(ctx); s != nil {
		return s.call
	}
	return nil
}

// TokenScope is a core.Scope: the principal is the UserID of the verified bearer token
// (auth.RequireBearerToken), of a tool's call or of an HTTP request. A call without one is
// refused with principal_missing.
func TokenScope(r *http.Request) (string, error) {
	token := auth.TokenInfoFromContext(r.Context())
	if call := CallFrom(r.Context()); call != nil {
		token = nil
		if call.Extra != nil {
			token = call.Extra.TokenInfo
		}
	}
	if token == nil {
		return "", nil
	}
	return token.UserID, nil
}
