package idemgrpc_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	idemgrpc "github.com/oncekey/oncekey/adapters/grpc"
	"github.com/oncekey/oncekey/adapters/internal/rpc/rpctest"
	"github.com/oncekey/oncekey/adapters/internal/rpc/shop"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// quick are retries for tests.
func quick() idemgrpc.ClientOptions {
	return idemgrpc.ClientOptions{MaxAttempts: 5, Backoff: time.Millisecond, MaxBackoff: 2 * time.Second}
}

func mustClient(t *testing.T, r idemgrpc.ClientOptions) grpc.DialOption {
	t.Helper()
	interceptor, err := idemgrpc.UnaryClientInterceptor(r)
	testkit.Must(t, err)
	return grpc.WithUnaryInterceptor(interceptor)
}

func pay(ctx context.Context, connection *grpc.ClientConn, procedure string) error {
	return connection.Invoke(ctx, procedure, &shop.PayRequest{Amount: 100}, new(shop.Payment))
}

// withRetryInfo is an error that asks for a wait.
func withRetryInfo(c codes.Code, wait time.Duration) error {
	s, err := status.New(c, "busy").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	return errors.Join(err, s.Err())
}

// The table of docs/rpc.md: the codes that the client repeats.
func TestRepeatedCodes(t *testing.T) {
	t.Parallel()
	var attempts atomic.Int64
	var keys sync.Map
	connection := serve(t, func(ctx context.Context, request *shop.PayRequest) (*shop.Payment, error) {
		attempts.Add(1)
		for _, key := range metadata.ValueFromIncomingContext(ctx, "idempotency-key") {
			keys.Store(key, true)
		}
		if request.GetCurrency() != "" {
			return nil, withRetryInfo(codes.Code(request.GetAmount()), time.Millisecond)
		}
		return nil, status.Error(codes.Code(request.GetAmount()), "no")
	}, nil, mustClient(t, quick()))
	repeated := []codes.Code{codes.Unavailable, codes.Unknown, codes.Internal, codes.DeadlineExceeded, codes.Canceled}
	withInfo := []codes.Code{codes.Aborted, codes.ResourceExhausted}
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		for _, currency := range []string{"", "EUR"} {
			want := int64(1)
			if slices.Contains(repeated, c) || currency != "" && slices.Contains(withInfo, c) {
				want = 5
			}
			attempts.Store(0)
			keys.Clear()
			err := connection.Invoke(t.Context(), rpctest.Pay, &shop.PayRequest{Amount: int64(c), Currency: currency}, new(shop.Payment))
			n := 0
			keys.Range(func(any, any) bool { n++; return true })
			if got := attempts.Load(); got != want || n != 1 || status.Code(err) != c {
				t.Errorf("%v with RetryInfo %t: %d attempts with %d keys and the error %v, want %d with one key", c, currency != "", got, n, err, want)
			}
		}
	}
}

// A retry waits for as long as RetryInfo says, within the call's deadline.
func TestRetryInfo(t *testing.T) {
	t.Parallel()
	var attempts atomic.Int64
	retries, retried := quick(), make(chan idemgrpc.Retry, 9)
	retries.OnRetry = func(r idemgrpc.Retry) { retried <- r }
	connection := serve(t, func(context.Context, *shop.PayRequest) (*shop.Payment, error) {
		if attempts.Add(1) == 1 {
			return nil, withRetryInfo(codes.Aborted, 30*time.Millisecond)
		}
		return &shop.Payment{}, nil
	}, nil, mustClient(t, retries))
	if err := pay(t.Context(), connection, rpctest.Pay); err != nil {
		t.Error(err)
	}
	if r := <-retried; r.Wait < 30*time.Millisecond || r.Procedure != rpctest.Pay || r.Attempts != 1 || r.Key == "" || r.Err == nil {
		t.Errorf("the first retry was %+v, want a wait of 30ms or more", r)
	}
	attempts.Store(0)
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Millisecond)
	defer cancel()
	if err := pay(ctx, connection, rpctest.Pay); err == nil || attempts.Load() > 1 {
		t.Errorf("got %v after %d attempts, want one attempt: the wait is longer than the deadline", err, attempts.Load())
	}
}

// Each call has its own key. A key of the caller is kept, reads have none, and a guarded
// handler derives its keys.
func TestKeysOfCalls(t *testing.T) {
	t.Parallel()
	seen, sent := make(chan []string, 1), make(chan []string, 1)
	options := quick()
	options.KeyField = "order_id" // which these messages lack
	connection := serve(t, func(ctx context.Context, _ *shop.PayRequest) (*shop.Payment, error) {
		seen <- metadata.ValueFromIncomingContext(ctx, "idempotency-key")
		sent <- metadata.ValueFromIncomingContext(ctx, "repeatability-first-sent")
		return &shop.Payment{}, nil
	}, nil, mustClient(t, options))
	var firstSent []string
	keyOf := func(ctx context.Context, procedure string) string {
		t.Helper()
		testkit.Must(t, pay(ctx, connection, procedure))
		keys := append(<-seen, "")
		firstSent = <-sent
		return keys[0]
	}
	if a, b := keyOf(t.Context(), rpctest.Pay), keyOf(t.Context(), rpctest.Pay); a == b || !isTimed(a) || !isTimed(b) || firstSent != nil {
		t.Errorf("two calls had the keys %q and %q, and %q", a, b, firstSent)
	}
	testkit.Equal(t, keyOf(metadata.AppendToOutgoingContext(t.Context(), "idempotency-key", "own"), rpctest.Pay), "own", "the caller's key")
	testkit.Equal(t, keyOf(t.Context(), rpctest.Find), "", "the key of a read")
	engine := rpctest.NewEngine(t, memstore.New(), core.SharedScope)
	outer := "k"
	derived := func(name string) (key string) {
		call := core.Call{Scope: "s", Name: "order", Key: outer, Route: engine.MustRoute(policy.ObserveOnly(false))}
		_, _, err := core.Do(t.Context(), engine, call, func(ctx context.Context) (string, error) {
			key = keyOf(idemgrpc.WithCall(ctx, name), rpctest.Pay)
			return "", errors.New("the handler runs again")
		})
		if err == nil {
			t.Error("the call was stored")
		}
		return key
	}
	if a, b, other := derived("1"), derived("1"), derived("2"); a != b || a == other || len(a) != 36 || firstSent != nil {
		t.Errorf("the handler's calls had the keys %q, %q and %q, and %q", a, b, other, firstSent)
	}
	outer = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f" // of RFC 9562, appendix A.6
	if derived("1"); !slices.Equal(firstSent, []string{"Tue, 22 Feb 2022 19:22:22 GMT"}) {
		t.Errorf("the handler's call was first sent at %q, want the time of the handler's key", firstSent)
	}
}

// isTimed reports whether a key was made just now.
func isTimed(key string) bool {
	made, has := core.KeyTime(key)
	return has && time.Since(made).Abs() < 10*time.Minute
}

// An error of the guard without a RetryInfo is final, also with a code that is repeated
// otherwise. A RetryInfo in a stored error of a handler makes no pushback.
func TestFinalErrors(t *testing.T) {
	t.Parallel()
	guard := mustGuard(t, rpctest.NewEngine(t, memstore.New(), core.SharedScope), mustTable(t, policy.Row("POST "+rpctest.Pay)))
	var attempts atomic.Int64
	counting := func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		attempts.Add(1)
		return handler(ctx, request)
	}
	connection := serve(t, func(ctx context.Context, request *shop.PayRequest) (*shop.Payment, error) {
		if request.GetAmount() == 0 {
			return nil, withRetryInfo(codes.Aborted, time.Millisecond)
		}
		failure.MarkExecuted(ctx)
		panic("after the side effect")
	}, []grpc.UnaryServerInterceptor{counting, guard.Intercept}, mustClient(t, quick()))
	if err := pay(t.Context(), connection, rpctest.Pay); status.Code(err) != codes.Internal || attempts.Load() != 2 {
		t.Errorf("got %v after %d attempts, want handler_failed in the second", err, attempts.Load())
	}
	for n, want := range []codes.Code{codes.Aborted, codes.Aborted, codes.FailedPrecondition} { // the last one is key_reused
		var trailer metadata.MD
		ctx := metadata.AppendToOutgoingContext(t.Context(), "idempotency-key", "aborted")
		err := serveAgain(t, connection).Invoke(ctx, rpctest.Pay, &shop.PayRequest{Amount: int64(n / 2)}, new(shop.Payment), grpc.Trailer(&trailer))
		if status.Code(err) != want || trailer["grpc-retry-pushback-ms"] != nil {
			t.Errorf("got %v with the trailer %v", err, trailer)
		}
	}
}

// A client fills the field that holds the key, and takes the key from there. The
// caller's message stays as it was.
func TestClientsKeyField(t *testing.T) {
	t.Parallel()
	guard := mustGuard(t, rpctest.NewEngine(t, memstore.New(), core.SharedScope), mustTable(t, policy.Row("POST "+rpctest.Refund, policy.KeyField("request_id"))))
	seen := make(chan string, 1)
	options := quick()
	options.KeyField = "request_id"
	options.OnRetry = func(r idemgrpc.Retry) { t.Errorf("the call was repeated after %v", r.Err) }
	connection := serve(t, func(ctx context.Context, request *shop.PayRequest) (*shop.Payment, error) {
		seen <- request.GetRequestId()
		return &shop.Payment{Id: core.KeyFrom(ctx)}, nil
	}, []grpc.UnaryServerInterceptor{guard.Intercept}, mustClient(t, options))
	refund := func(id string) (key string) {
		t.Helper()
		request, payment := &shop.PayRequest{RequestId: id}, new(shop.Payment)
		if err := connection.Invoke(t.Context(), rpctest.Refund, request, payment); err != nil || request.GetRequestId() != id {
			t.Errorf("got %v, and the request has become %v", err, request)
		}
		return payment.GetId()
	}
	if key := refund("own"); key != "own" || <-seen != "own" {
		t.Errorf("the caller's key became %q", key)
	}
	if key := refund(""); len(key) != 36 || <-seen != key {
		t.Errorf("the new key is %q", key)
	}
	if err := connection.Invoke(t.Context(), rpctest.Refund, &shop.PayRequest{Currency: "\xff"}, new(shop.Payment)); status.Code(err) != codes.Internal {
		t.Errorf("a message that cannot be encoded: %v", err)
	}
}

func TestWrongOptions(t *testing.T) {
	t.Parallel()
	for _, r := range []idemgrpc.ClientOptions{{MaxAttempts: -1}, {MaxTime: -1}, {AttemptTimeout: -1}, {Backoff: time.Minute}, {MaxBackoff: -1}} {
		if _, err := idemgrpc.UnaryClientInterceptor(r); err == nil {
			t.Errorf("%+v was accepted", r)
		}
	}
}

// A client whose first response is lost gets the stored one, by this package's client
// and by gRPC's own retry policy. A stored error is final, because another attempt gets
// the same. The caller's own option for the header works too.
func TestLostResponse(t *testing.T) {
	t.Parallel()
	const native = `{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":4,"initialBackoff":"0.01s",
		"maxBackoff":"0.02s","backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE","ABORTED"]}}]}`
	own := []grpc.DialOption{mustClient(t, quick())}
	gRPCs := []grpc.DialOption{grpc.WithDefaultServiceConfig(native), grpc.WithUnaryInterceptor(
		func(ctx context.Context, method string, request, reply any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			ctx = metadata.AppendToOutgoingContext(ctx, "idempotency-key", "k")
			return invoke(ctx, method, request, reply, connection, opts...)
		})}
	type row struct {
		opts   []grpc.DialOption
		stored error
	}
	failed := status.Error(codes.Internal, "charged, and then lost")
	testkit.Each(t, map[string]row{"own": {own, nil}, "gRPC's": {gRPCs, nil}, "own, of an error": {own, failed}}, func(t *testing.T, row row) {
		var runs, attempts atomic.Int64
		losing := func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			response, err := handler(ctx, request)
			if attempts.Add(1) == 1 {
				return nil, status.Error(codes.Unavailable, "the connection broke")
			}
			return response, err
		}
		guard := mustGuard(t, rpctest.NewEngine(t, memstore.New(), core.SharedScope), mustTable(t, policy.Row("POST "+rpctest.Pay)))
		connection := serve(t, func(ctx context.Context, _ *shop.PayRequest) (*shop.Payment, error) {
			runs.Add(1)
			failure.MarkExecuted(ctx)
			return &shop.Payment{Id: "p1"}, row.stored
		}, []grpc.UnaryServerInterceptor{losing, guard.Intercept}, row.opts...)
		var header metadata.MD
		payment := new(shop.Payment)
		err := connection.Invoke(t.Context(), rpctest.Pay, &shop.PayRequest{}, payment, grpc.Header(&header))
		if status.Code(err) != status.Code(row.stored) || (err == nil) != (payment.GetId() == "p1") || runs.Load() != 1 || attempts.Load() != 2 ||
			!slices.Equal(header["idempotent-replay"], []string{"true"}) {
			t.Errorf("got %v %v %v after %d runs and %d attempts", payment, err, header, runs.Load(), attempts.Load())
		}
	})
}

// A replay whose connection breaks behind its header is no stored error, and is repeated.
func TestReplayThatIsCutOff(t *testing.T) {
	t.Parallel()
	intercept, err := idemgrpc.UnaryClientInterceptor(quick())
	testkit.Must(t, err)
	connection, err := grpc.NewClient("passthrough:///nowhere", grpc.WithTransportCredentials(insecure.NewCredentials()))
	testkit.Must(t, err)
	t.Cleanup(func() { _ = connection.Close() })
	attempts := 0
	cutOff := func(_ context.Context, _ string, _, _ any, _ *grpc.ClientConn, opts ...grpc.CallOption) error {
		for _, opt := range opts {
			if header, is := opt.(grpc.HeaderCallOption); is {
				*header.HeaderAddr = metadata.Pairs("idempotent-replay", "true")
			}
		}
		if attempts++; attempts == 1 {
			return status.Error(codes.Unavailable, "error reading from server: unexpected EOF")
		}
		return nil
	}
	var header metadata.MD // the caller's
	testkit.Must(t, intercept(t.Context(), rpctest.Pay, &shop.PayRequest{}, new(shop.Payment), connection, cutOff, grpc.Header(&header)))
}

// Of two concurrent calls with one key, the second waits for as long as the guard's
// RetryInfo says, and gets the first one's response: by this package's client, and by
// gRPC's own retries, which read the pushback.
func TestClientsMeetInFlight(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	begun, release := make(chan struct{}), make(chan struct{})
	guard := mustGuard(t, rpctest.NewEngine(t, memstore.New(), core.SharedScope), mustTable(t, policy.Row("POST "+rpctest.Pay)))
	retries := quick()
	end := sync.OnceFunc(func() { close(release) })
	retries.OnRetry = func(idemgrpc.Retry) { end() }
	connection := serve(t, func(context.Context, *shop.PayRequest) (*shop.Payment, error) {
		runs.Add(1)
		close(begun)
		<-release
		return &shop.Payment{Id: "p1"}, nil
	}, []grpc.UnaryServerInterceptor{guard.Intercept}, mustClient(t, retries))
	ctx := metadata.AppendToOutgoingContext(t.Context(), "idempotency-key", "k")
	var first sync.WaitGroup
	first.Go(func() {
		if err := pay(ctx, connection, rpctest.Pay); err != nil {
			t.Error(err)
		}
	})
	<-begun
	raw, trailer := grpc.ClientConnInterface(serveAgain(t, connection)), metadata.MD{}
	if err := raw.Invoke(ctx, rpctest.Pay, &shop.PayRequest{Amount: 100}, new(shop.Payment), grpc.Trailer(&trailer)); status.Code(err) != codes.Aborted ||
		!slices.Equal(trailer["grpc-retry-pushback-ms"], []string{"1000"}) {
		t.Errorf("without retries: %v %v", err, trailer)
	}
	if err := pay(ctx, connection, rpctest.Pay); err != nil || runs.Load() != 1 {
		t.Errorf("got %v after %d runs", err, runs.Load())
	}
	first.Wait()
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
