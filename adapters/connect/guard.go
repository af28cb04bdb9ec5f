package idemconnect

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/oncekey/oncekey/adapters/internal/rpc"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/internal/callers"
	"github.com/oncekey/oncekey/policy"
)

// Guard is an interceptor of handlers that guards the procedures of a table. It is
// immutable and safe for concurrent use. Client calls and streams pass.
type Guard struct{ guard *rpc.Guard }

var _ connect.Interceptor = (*Guard)(nil)

// New returns a guard of the table's procedures. A row is POST and the procedure, as in
// "POST /shop.v1.Payments/Pay". The error joins all faults of the table: a service or a
// method that the generated code of the program does not have, a stream, a method with
// the idempotency_level NO_SIDE_EFFECTS, an unknown KeyField, RedactFields, and each
// policy that the engine refuses. policy.NewTable has refused repeated rows.
func New(engine *core.Engine, table *policy.Table) (*Guard, error) {
	guard, err := rpc.NewGuard(engine, callers.Place(), table)
	if err != nil {
		return nil, fmt.Errorf("idemconnect: %w", err)
	}
	return &Guard{guard}, nil
}

// ScopeBy makes a core.Scope of a function of the call's context, which has the values of
// outer interceptors and of HTTP middleware. The Scope serves HTTP requests too, with the
// context of the request.
func ScopeBy(principal func(context.Context) (string, error)) core.Scope {
	return func(r *http.Request) (string, error) { return principal(r.Context()) }
}

// Audit compares the table with the procedures that the program serves, such as
// "/shop.v1.Payments/Pay". A row without a procedure is an error. A procedure that is not
// guarded is a warning, unless its idempotency_level says that it may be repeated.
func (g *Guard) Audit(procedures ...string) policy.Report {
	return g.guard.Audit(slices.Clone(procedures))
}

// Recovered returns the response of a policy.RecoverFunc, which found out how the
// abandoned attempt ended: a message, or an error.
//
//	return idemconnect.Recovered(payment, nil)
func Recovered(message proto.Message, err error) (*policy.Response, error) {
	return rpc.Recovered(message, statusOf(err))
}

// WrapUnary implements connect.Interceptor. A panic of a handler is settled and
// continues.
func (g *Guard) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		method := g.guard.Method(request.Spec().Procedure)
		if method == nil || request.Spec().IsClient || request.HTTPMethod() == http.MethodGet {
			return next(ctx, request)
		}
		message, is := request.Any().(proto.Message)
		if !is {
			return nil, connect.NewError(connect.CodeInternal, fmt.Errorf("idemconnect: the request of %s is a %T: the guard needs a proto.Message", request.Spec().Procedure, request.Any()))
		}
		return g.serve(ctx, request, message, method, next)
	}
}

func (g *Guard) serve(ctx context.Context, request connect.AnyRequest, message proto.Message, method *rpc.Method, next connect.UnaryFunc) (connect.AnyResponse, error) {
	var response connect.AnyResponse
	var failed error
	outer := noteInfo(ctx)
	call := &rpc.Call{Method: method, Header: maps.Clone(request.Header()), Peer: request.Peer().Addr, Message: message}
	call.Handle = func(ctx context.Context) rpc.Result {
		response, failed = next(ctx, request)
		return outer.result(response, failed)
	}
	reply := g.guard.Serve(ctx, call)
	if !reply.Own {
		outer.header.restore(reply.Header)
		outer.trailer.restore(reply.Trailer)
		if reply.Message == nil {
			failed := errorOf(&reply)
			maps.Copy(outer.header.now, reply.Header) // gRPC sends Meta as trailers, which cannot be Www-Authenticate or Cache-Control
			return nil, failed
		}
		replayed := &stored{connect.NewResponse(new(struct{})), reply.Message}
		maps.Copy(replayed.Header(), reply.Header)
		maps.Copy(replayed.Trailer(), reply.Trailer)
		return replayed, nil
	}
	outer.header.retain(reply.Header)
	outer.trailer.retain(reply.Trailer)
	if failed != nil {
		return nil, withoutMark(failed)
	}
	noted{now: response.Header()}.retain(reply.Header)
	noted{now: response.Trailer()}.retain(reply.Trailer)
	outer.header.addMissing(response.Header(), reply.Header)
	return response, nil
}

// stored is a replay. connect.Response is generic, and the type of the message is known
// only when the program runs.
type stored struct {
	connect.AnyResponse
	message proto.Message
}

// Any implements connect.AnyResponse.
func (s *stored) Any() any { return s.message }

// WrapStreamingClient implements connect.Interceptor.
func (g *Guard) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor.
func (g *Guard) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}
