package idemgrpc_test

import (
	"context"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	idemgrpc "github.com/oncekey/oncekey/adapters/grpc"
	"github.com/oncekey/oncekey/adapters/internal/rpc/rpctest"
	"github.com/oncekey/oncekey/adapters/internal/rpc/shop"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// A replay of an error is final, because another attempt gets the same. The caller's own
// option for the header works too.
func TestReplayedErrorsAreNotRepeated(t *testing.T) {
	t.Parallel()
	guard := mustGuard(t, rpctest.NewEngine(t, memstore.New(), core.SharedScope), mustTable(t, policy.Row("POST "+rpctest.Pay)))
	var attempts atomic.Int64
	losing := func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		response, err := handler(ctx, request)
		if attempts.Add(1) == 1 {
			return nil, status.Error(codes.Unavailable, "lost")
		}
		return response, err
	}
	connection := serve(t, func(ctx context.Context, _ *shop.PayRequest) (*shop.Payment, error) {
		failure.MarkExecuted(ctx)
		return nil, status.Error(codes.Internal, "charged, and then lost")
	}, []grpc.UnaryServerInterceptor{losing, guard.Intercept}, mustClient(t, quick()))
	var header metadata.MD
	err := connection.Invoke(t.Context(), rpctest.Pay, &shop.PayRequest{Amount: 1}, new(shop.Payment), grpc.Header(&header))
	if status.Code(err) != codes.Internal || attempts.Load() != 2 || len(header["idempotent-replay"]) != 1 {
		t.Errorf("got %v and %v after %d attempts, want the stored error in the second", err, header, attempts.Load())
	}
}

// A call is not repeated over a connection that the program closes: no attempt can succeed.
func TestClosedConnectionIsFinal(t *testing.T) {
	t.Parallel()
	began, end := make(chan struct{}), make(chan struct{})
	o := quick()
	o.OnRetry = func(failed idemgrpc.Retry) { t.Errorf("repeated: %+v", failed) }
	connection := serve(t, func(context.Context, *shop.PayRequest) (*shop.Payment, error) {
		close(began)
		<-end
		return new(shop.Payment), nil
	}, nil, mustClient(t, o))
	defer close(end)
	go func() {
		<-began
		_ = connection.Close()
	}()
	testkit.Equal(t, status.Code(pay(t.Context(), connection, rpctest.Pay)), codes.Canceled, "the code")
}
