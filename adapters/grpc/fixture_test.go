package idemgrpc_test

import (
	"context"
	"encoding/base64"
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"go.uber.org/goleak"

	idemgrpc "github.com/oncekey/oncekey/adapters/grpc"
	"github.com/oncekey/oncekey/adapters/internal/rpc/rpctest"
	"github.com/oncekey/oncekey/adapters/internal/rpc/shop"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// paymentsServer is the interface of the service, as protoc-gen-go-grpc makes it.
type paymentsServer interface {
	Pay(ctx context.Context, request *shop.PayRequest) (*shop.Payment, error)
}

// Pay makes a handler the server of all procedures.
type payFunc func(context.Context, *shop.PayRequest) (*shop.Payment, error)

func (f payFunc) Pay(ctx context.Context, request *shop.PayRequest) (*shop.Payment, error) {
	return f(ctx, request)
}

// registerPayments registers the service, as the generated function does.
func registerPayments(server grpc.ServiceRegistrar, payments paymentsServer) {
	service := grpc.ServiceDesc{ServiceName: "oncekey.shop.v1.Payments", HandlerType: (*paymentsServer)(nil)}
	for _, name := range []string{"Pay", "Refund", "Find"} {
		service.Methods = append(service.Methods, grpc.MethodDesc{MethodName: name, Handler: func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			request := new(shop.PayRequest)
			if err := decode(request); err != nil {
				return nil, err
			}
			handle := func(ctx context.Context, request any) (any, error) {
				return srv.(paymentsServer).Pay(ctx, request.(*shop.PayRequest))
			}
			return interceptor(ctx, request, &grpc.UnaryServerInfo{Server: srv, FullMethod: "/" + service.ServiceName + "/" + name}, handle)
		}})
	}
	watch := func(any, grpc.ServerStream) error { return nil }
	service.Streams = []grpc.StreamDesc{{StreamName: "Watch", Handler: watch, ServerStreams: true}}
	server.RegisterService(&service, payments)
}

// serve starts a server with a recovering interceptor outside, and returns a connection to it.
func serve(t *testing.T, handle payFunc, interceptors []grpc.UnaryServerInterceptor, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(append([]grpc.UnaryServerInterceptor{recovering}, interceptors...)...))
	registerPayments(server, handle)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	connection, err := grpc.NewClient(listener.Addr().String(), append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

// recovering turns panics into errors, as interceptors outside of the guard do.
func recovering(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (response any, err error) {
	defer func() {
		if recover() != nil {
			err = status.Error(codes.Internal, "recovered")
		}
	}()
	return handler(ctx, request)
}

func mustGuard(t *testing.T, engine *core.Engine, table *policy.Table) *idemgrpc.Guard {
	t.Helper()
	guard, err := idemgrpc.New(engine, table)
	testkit.Must(t, err)
	return guard
}

// clientOf returns a client of the suite.
func clientOf(connection *grpc.ClientConn) rpctest.Client {
	return func(ctx context.Context, procedure string, header http.Header, request *shop.PayRequest) rpctest.Response {
		payment, gotHeader, gotTrailer := new(shop.Payment), metadata.MD{}, metadata.MD{}
		ctx = metadata.NewOutgoingContext(ctx, metadataOf(header))
		err := connection.Invoke(ctx, procedure, request, payment, grpc.Header(&gotHeader), grpc.Trailer(&gotTrailer))
		r := rpctest.Response{Payment: payment, Metadata: headerOf(metadata.Join(gotHeader, gotTrailer))}
		if err != nil {
			r.Payment, r.Status = nil, status.Convert(err).Proto()
		}
		return r
	}
}

func metadataOf(header http.Header) metadata.MD {
	md := metadata.MD{}
	for name, values := range header {
		for _, value := range values {
			if strings.HasSuffix(name, "-Bin") {
				raw, _ := base64.RawStdEncoding.DecodeString(value)
				value = string(raw)
			}
			md.Append(name, value)
		}
	}
	return md
}

func headerOf(md metadata.MD) http.Header {
	header := http.Header{}
	for name, values := range md {
		for _, value := range values {
			if strings.HasSuffix(name, "-bin") {
				value = base64.RawStdEncoding.EncodeToString([]byte(value))
			}
			header.Add(name, value)
		}
	}
	return header
}

// Every rule, over a real server and a real client.
func TestSuite(t *testing.T) {
	t.Parallel()
	rpctest.Run(t, rpctest.Adapter{
		Serve: func(t *testing.T, engine *core.Engine, table *policy.Table, handle rpctest.Handler) rpctest.Client {
			t.Helper()
			guard := mustGuard(t, engine, table)
			return clientOf(serve(t, payFunc(handle), []grpc.UnaryServerInterceptor{guard.Intercept}))
		},
		Error: status.ErrorProto,
		SetMetadata: func(ctx context.Context, header, trailer http.Header) {
			if grpc.SetHeader(ctx, metadataOf(header)) != nil || grpc.SetTrailer(ctx, metadataOf(trailer)) != nil {
				t.Error("the metadata was refused")
			}
		},
		New: func(engine *core.Engine, table *policy.Table) error {
			_, err := idemgrpc.New(engine, table)
			return err
		},
		ScopeBy: idemgrpc.ScopeBy, Recovered: idemgrpc.Recovered,
	})
}

// serveAgain returns another connection to the same server, without interceptors.
func serveAgain(t *testing.T, connection *grpc.ClientConn) *grpc.ClientConn {
	t.Helper()
	plain, err := grpc.NewClient(connection.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	testkit.Must(t, err)
	t.Cleanup(func() { _ = plain.Close() })
	return plain
}
