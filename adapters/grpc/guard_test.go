package idemgrpc_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/oncekey/oncekey/adapters/internal/rpc/rpctest"
	"github.com/oncekey/oncekey/adapters/internal/rpc/shop"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

func mustTable(t *testing.T, rows ...policy.TableRow) *policy.Table {
	t.Helper()
	table, err := policy.NewTable(rows...)
	testkit.Must(t, err)
	return table
}

func TestAudit(t *testing.T) {
	t.Parallel()
	engine := rpctest.NewEngine(t, memstore.New(), core.SharedScope)
	guard := mustGuard(t, engine, mustTable(t, policy.Row("POST "+rpctest.Pay)))
	if got := engine.Routes()[0].DeclaredAt(); !strings.HasPrefix(got, "grpc/fixture_test.go:") && !strings.HasPrefix(got, "grpc/guard_test.go:") {
		t.Errorf("the policy is declared at %s, want the call of New", got)
	}
	server := grpc.NewServer()
	if report := guard.Audit(server); report.Err() == nil || !strings.Contains(report.Err().Error(), "row 1: POST "+rpctest.Pay) {
		t.Errorf("without the service: %v", report.Err())
	}
	registerPayments(server, payFunc(nil))
	healthpb.RegisterHealthServer(server, health.NewServer())
	report := guard.Audit(server)
	if report.Err() != nil || len(report.Warnings) != 1 || !strings.HasPrefix(report.Warnings[0], rpctest.Refund+" is not guarded") {
		t.Errorf("got the errors %v and the warnings %q, want a warning about Refund", report.Err(), report.Warnings)
	}
}

// The header of a handler waits for the store, also after SendHeader, and later changes
// fail as they do without a guard.
func TestSendHeader(t *testing.T) {
	t.Parallel()
	engine := rpctest.NewEngine(t, memstore.New(), core.SharedScope)
	guard := mustGuard(t, engine, mustTable(t, policy.Row("POST "+rpctest.Pay)))
	contexts := make(chan context.Context, 2)
	call := clientOf(serve(t, func(ctx context.Context, _ *shop.PayRequest) (*shop.Payment, error) {
		contexts <- ctx
		if method, known := grpc.Method(ctx); !known || method != rpctest.Pay {
			t.Errorf("the method is %q", method)
		}
		if err := grpc.SendHeader(ctx, metadata.Pairs("x-header", "1")); err != nil {
			t.Error(err)
		}
		testkit.Equal(t, status.Code(grpc.SetHeader(ctx, metadata.Pairs("x-header", "2"))), codes.Internal, "SetHeader after SendHeader")
		if core.KeyFrom(ctx) == "released" {
			return nil, failure.Retryable(status.Error(codes.NotFound, "no"))
		}
		return &shop.Payment{}, nil
	}, []grpc.UnaryServerInterceptor{guard.Intercept}))
	for _, replayed := range []bool{false, true} {
		r := call(t.Context(), rpctest.Pay, rpctest.Key("k"), &shop.PayRequest{})
		if r.Status != nil || !slices.Equal(r.Metadata["X-Header"], []string{"1"}) || r.Replayed() != replayed {
			t.Errorf("got %v %v", r.Status, r.Metadata)
		}
	}
	late := <-contexts
	if grpc.SetHeader(late, metadata.Pairs("x", "1")) == nil || grpc.SendHeader(late, metadata.Pairs("x", "1")) == nil || grpc.SetTrailer(late, metadata.Pairs("x", "1")) == nil {
		t.Error("metadata was accepted after the handler had returned")
	}
	r := call(t.Context(), rpctest.Pay, rpctest.Key("released"), &shop.PayRequest{})
	if r.Status.GetMessage() != "no" || r.Metadata.Get("X-Header") != "1" {
		t.Errorf("an error that is not kept arrived as %v %v", r.Status, r.Metadata)
	}
}

// A Scope sees the host, the address and the certificate of the client.
func TestScopeSeesTheConnection(t *testing.T) {
	t.Parallel()
	var seen *http.Request
	engine := rpctest.NewEngine(t, memstore.New(), func(r *http.Request) (string, error) { seen = r; return "alice", nil })
	guard := mustGuard(t, engine, mustTable(t, policy.Row("POST "+rpctest.Pay)))
	secured := credentials.TLSInfo{State: tls.ConnectionState{ServerName: "shop.test"}}
	ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{Port: 7}, AuthInfo: secured})
	ctx = metadata.NewIncomingContext(ctx, metadata.Pairs(":authority", "shop.test", "idempotency-key", "k"))
	_, err := guard.Intercept(ctx, new(shop.PayRequest), &grpc.UnaryServerInfo{FullMethod: rpctest.Pay}, func(ctx context.Context, _ any) (any, error) {
		grpc.Method(ctx) // without a server
		return new(shop.Payment), nil
	})
	if err != nil || seen.Header[":authority"] != nil || seen.Host != "shop.test" || seen.RemoteAddr != ":7" || seen.TLS == nil || seen.TLS.ServerName != "shop.test" {
		t.Errorf("the scope saw %+v, %v", seen, err)
	}
}

// An interceptor outside of the guard may send the header. The metadata of a run or replay
// come too late then, and its message or error arrives without them.
func TestHeaderWasSent(t *testing.T) {
	t.Parallel()
	guard := mustGuard(t, rpctest.NewEngine(t, memstore.New(), core.SharedScope), mustTable(t, policy.Row("POST "+rpctest.Pay)))
	sends := func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if err := grpc.SendHeader(ctx, metadata.Pairs("x-request", "1")); err != nil {
			return nil, err
		}
		return handler(ctx, request)
	}
	call := clientOf(serve(t, func(ctx context.Context, _ *shop.PayRequest) (*shop.Payment, error) {
		return &shop.Payment{Id: "p1"}, grpc.SetHeader(ctx, metadata.Pairs("x-header", "1"))
	}, []grpc.UnaryServerInterceptor{sends, guard.Intercept}))
	for range 2 {
		if r := call(t.Context(), rpctest.Pay, rpctest.Key("k"), &shop.PayRequest{}); r.Status != nil || r.Payment.GetId() != "p1" || r.Metadata.Get("X-Request") != "1" {
			t.Errorf("got %v %v %v", r.Payment, r.Status, r.Metadata)
		}
	}
}

// A panic continues with its value, without a server too.
func TestPanicContinues(t *testing.T) {
	t.Parallel()
	engine := rpctest.NewEngine(t, memstore.New(), core.SharedScope)
	guard := mustGuard(t, engine, mustTable(t, policy.Row("POST "+rpctest.Pay)))
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("idempotency-key", "k"))
	info := &grpc.UnaryServerInfo{FullMethod: rpctest.Pay}
	runs := 0
	for range 2 {
		func() {
			defer func() {
				testkit.Equal(t, recover(), "the value", "the panic")
			}()
			_, _ = guard.Intercept(ctx, &shop.PayRequest{}, info, func(context.Context, any) (any, error) {
				runs++
				panic("the value")
			})
		}()
	}
	response, err := guard.Intercept(ctx, &shop.PayRequest{}, info, func(context.Context, any) (any, error) {
		return &shop.Payment{Id: "p1"}, nil
	})
	if payment, is := response.(*shop.Payment); err != nil || !is || payment.GetId() != "p1" || runs != 2 {
		t.Errorf("after %d panics got %v, %v", runs, response, err)
	}
	response, err = guard.Intercept(ctx, &shop.PayRequest{}, info, nil)
	if payment, is := response.(*shop.Payment); err != nil || !is || payment.GetId() != "p1" {
		t.Errorf("the replay is %T %v", response, err)
	}
	if _, err = guard.Intercept(ctx, "text", info, nil); status.Code(err) != codes.Internal {
		t.Errorf("a request that is no message: %v", err)
	}
}

// Interceptors outside of the guard see the handler's own error.
func TestOwnError(t *testing.T) {
	t.Parallel()
	engine := rpctest.NewEngine(t, memstore.New(), core.SharedScope)
	guard := mustGuard(t, engine, mustTable(t, policy.Row("POST "+rpctest.Pay)))
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("idempotency-key", "k"))
	own := status.Error(codes.NotFound, "no such account")
	_, err := guard.Intercept(ctx, &shop.PayRequest{}, &grpc.UnaryServerInfo{FullMethod: rpctest.Pay}, func(context.Context, any) (any, error) { return nil, own })
	if err != own { //nolint:errorlint // identity is meant
		t.Errorf("got %v, want the same error", err)
	}
}
