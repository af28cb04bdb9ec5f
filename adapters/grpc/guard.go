package idemgrpc

import (
	"context"
	"fmt"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/oncekey/oncekey/adapters/internal/calls"
	"github.com/oncekey/oncekey/adapters/internal/rpc"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/internal/callers"
	"github.com/oncekey/oncekey/policy"
)

// Guard guards the procedures of a table. It is immutable and safe for concurrent use.
type Guard struct{ guard *rpc.Guard }

// New returns a guard of the table's procedures. A row is POST and the full method name,
// as in "POST /shop.v1.Payments/Pay". The error joins all faults of the table: a service
// or a method that the generated code of the program does not have, a stream, a method
// with the idempotency_level NO_SIDE_EFFECTS, an unknown KeyField, RedactFields, and each
// policy that the engine refuses. policy.NewTable has refused repeated rows.
func New(engine *core.Engine, table *policy.Table) (*Guard, error) {
	guard, err := rpc.NewGuard(engine, callers.Place(), table)
	if err != nil {
		return nil, fmt.Errorf("idemgrpc: %w", err)
	}
	return &Guard{guard}, nil
}

// ScopeBy makes a core.Scope of a function of the call's context, which has the peer,
// the metadata and the values of outer interceptors. The Scope serves HTTP requests too,
// with the context of the request.
func ScopeBy(principal func(context.Context) (string, error)) core.Scope {
	return func(r *http.Request) (string, error) { return principal(r.Context()) }
}

// Intercept is the grpc.UnaryServerInterceptor of the guard. Chain it inside of
// recovering and authenticating interceptors. A panic of a handler is settled and
// continues.
func (g *Guard) Intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	method := g.guard.Method(info.FullMethod)
	if method == nil {
		return handler(ctx, request)
	}
	message, is := request.(proto.Message)
	if !is {
		return nil, status.Errorf(codes.Internal, "idemgrpc: the request of %s is a %T: the guard needs a proto.Message", info.FullMethod, request)
	}
	call := newCall(ctx)
	call.Method, call.Message = method, message
	var response any
	var failed error
	stream := grpc.ServerTransportStreamFromContext(ctx)
	call.Handle = func(ctx context.Context) rpc.Result {
		held := &heldStream{ServerTransportStream: stream}
		var marked error
		response, marked = handler(grpc.NewContextWithServerTransportStream(ctx, held), request)
		failed = calls.Unmarked(marked)
		result := held.result(response, failed)
		result.Err = marked
		return result
	}
	reply := g.guard.Serve(ctx, call)
	send(stream, &reply)
	switch {
	case reply.Own:
		return response, failed
	case reply.Message != nil:
		return reply.Message, nil
	default:
		return nil, status.ErrorProto(reply.Status)
	}
}

// Audit compares the table with the procedures of a server. Call it after all services
// are registered. A row without a procedure is an error. A unary procedure that is not
// guarded is a warning, unless its idempotency_level says that it may be repeated, or it
// is gRPC's own, such as a health check.
func (g *Guard) Audit(server interface {
	GetServiceInfo() map[string]grpc.ServiceInfo
},
) policy.Report {
	var unary []string
	for service, info := range server.GetServiceInfo() {
		for _, method := range info.Methods {
			if !method.IsClientStream && !method.IsServerStream {
				unary = append(unary, "/"+service+"/"+method.Name)
			}
		}
	}
	return g.guard.Audit(unary)
}

// Recovered returns the response of a policy.RecoverFunc, which found out how the
// abandoned attempt ended: a message, or an error with a status.
//
//	return idemgrpc.Recovered(payment, nil)
func Recovered(message proto.Message, err error) (*policy.Response, error) {
	return rpc.Recovered(message, statusOf(err))
}
