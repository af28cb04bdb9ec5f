package idemconnect_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	idemconnect "github.com/oncekey/oncekey/adapters/connect"
	"github.com/oncekey/oncekey/adapters/internal/rpc/rpctest"
	"github.com/oncekey/oncekey/adapters/internal/rpc/shop"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	request  = connect.Request[shop.PayRequest]
	response = connect.Response[shop.Payment]
	payFunc  = func(context.Context, *request) (*response, error)
	// simpleFunc is a handler of connect's simple API.
	simpleFunc = func(context.Context, *shop.PayRequest) (*shop.Payment, error)
)

// serve starts a server over HTTP/1.1 and HTTP/2 without TLS. The guard is inside of a
// recovering interceptor.
func serve(t *testing.T, newHandler func(procedure string, opts ...connect.HandlerOption) http.Handler, interceptors ...connect.Interceptor) *httptest.Server {
	t.Helper()
	recovering := connect.WithRecover(func(context.Context, connect.Spec, http.Header, any) error {
		return connect.NewError(connect.CodeInternal, errors.New("recovered"))
	})
	mux := http.NewServeMux()
	for _, procedure := range []string{rpctest.Pay, rpctest.Refund, rpctest.Find} {
		opts := []connect.HandlerOption{recovering, connect.WithInterceptors(interceptors...)}
		if procedure == rpctest.Find {
			opts = append(opts, connect.WithIdempotency(connect.IdempotencyNoSideEffects))
		}
		mux.Handle(procedure, newHandler(procedure, opts...))
	}
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	return server
}

func simple(handle simpleFunc) func(string, ...connect.HandlerOption) http.Handler {
	return func(procedure string, opts ...connect.HandlerOption) http.Handler {
		return connect.NewUnaryHandlerSimple(procedure, handle, opts...)
	}
}

func unary(handle payFunc) func(string, ...connect.HandlerOption) http.Handler {
	return func(procedure string, opts ...connect.HandlerOption) http.Handler {
		return connect.NewUnaryHandler(procedure, handle, opts...)
	}
}

func mustGuard(t *testing.T, engine *core.Engine, rows ...policy.TableRow) *idemconnect.Guard {
	t.Helper()
	table, err := policy.NewTable(rows...)
	testkit.Must(t, err)
	guard, err := idemconnect.New(engine, table)
	testkit.Must(t, err)
	return guard
}

// newClient returns a client of one procedure.
func newClient(t *testing.T, server *httptest.Server, procedure string, opts ...connect.ClientOption) *connect.Client[shop.PayRequest, shop.Payment] {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return connect.NewClient[shop.PayRequest, shop.Payment](&http.Client{Transport: transport}, server.URL+procedure, opts...)
}

// clientOf returns a client of the suite.
func clientOf(t *testing.T, server *httptest.Server, opts ...connect.ClientOption) rpctest.Client {
	t.Helper()
	clients := make(map[string]*connect.Client[shop.PayRequest, shop.Payment])
	for _, procedure := range []string{rpctest.Pay, rpctest.Refund, rpctest.Find} {
		clients[procedure] = newClient(t, server, procedure, opts...)
	}
	return func(ctx context.Context, procedure string, header http.Header, message *shop.PayRequest) rpctest.Response {
		call := connect.NewRequest(message)
		maps.Copy(call.Header(), header)
		got, err := clients[procedure].CallUnary(ctx, call)
		if err != nil {
			return failedResponse(err)
		}
		metadata := got.Header().Clone()
		maps.Copy(metadata, got.Trailer())
		return rpctest.Response{Payment: got.Msg, Metadata: metadata}
	}
}

func failedResponse(err error) rpctest.Response {
	failed := new(connect.Error)
	if !errors.As(err, &failed) {
		failed = connect.NewError(connect.CodeUnknown, err)
	}
	s := &status.Status{Code: int32(failed.Code()), Message: failed.Message()}
	for _, detail := range failed.Details() {
		s.Details = append(s.Details, &anypb.Any{TypeUrl: "type.googleapis.com/" + detail.Type(), Value: detail.Bytes()})
	}
	return rpctest.Response{Status: s, Metadata: failed.Meta()}
}

func errorOf(s *status.Status) error {
	failed := connect.NewError(connect.Code(s.GetCode()), errors.New(s.GetMessage()))
	for _, detail := range s.GetDetails() {
		if packed, err := connect.NewErrorDetail(detail); err == nil {
			failed.AddDetail(packed)
		}
	}
	return failed
}

// setMetadata sets the metadata of the simple API, which are headers and trailers of
// errors too.
func setMetadata(ctx context.Context, header, trailer http.Header) {
	info, _ := connect.CallInfoForHandlerContext(ctx)
	maps.Copy(info.ResponseHeader(), header)
	maps.Copy(info.ResponseTrailer(), trailer)
}

// Every rule, over real servers and real clients of each protocol.
func TestSuite(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]connect.ClientOption{
		"Connect": nil, "JSON": {connect.WithProtoJSON()}, "gRPC": {connect.WithGRPC()}, "gRPC-Web": {connect.WithGRPCWeb()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rpctest.Run(t, rpctest.Adapter{
				Serve: func(t *testing.T, engine *core.Engine, table *policy.Table, handle rpctest.Handler) rpctest.Client {
					t.Helper()
					guard, err := idemconnect.New(engine, table)
					testkit.Must(t, err)
					return clientOf(t, serve(t, simple(simpleFunc(handle)), guard), opts...)
				},
				OnlyKnown: name == "JSON", Error: errorOf, SetMetadata: setMetadata,
				New: func(engine *core.Engine, table *policy.Table) error {
					_, err := idemconnect.New(engine, table)
					return err
				},
				ScopeBy: idemconnect.ScopeBy, Recovered: idemconnect.Recovered,
			})
		})
	}
}
