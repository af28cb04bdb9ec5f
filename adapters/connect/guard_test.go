package idemconnect_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"

	idemconnect "github.com/oncekey/oncekey/adapters/connect"
	"github.com/oncekey/oncekey/adapters/internal/rpc/rpctest"
	"github.com/oncekey/oncekey/adapters/internal/rpc/shop"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// untyped is a request of a codec that has no messages of protobuf.
type untyped struct{ connect.AnyRequest }

func (untyped) Spec() connect.Spec { return connect.Spec{Procedure: rpctest.Pay} }

// Without a message the guard could not tell two requests apart.
func TestRequestWithoutAMessage(t *testing.T) {
	t.Parallel()
	guard := mustGuard(t, rpctest.NewEngine(t, memstore.New(), core.SharedScope), policy.Row("POST "+rpctest.Pay))
	_, err := guard.WrapUnary(nil)(t.Context(), untyped{connect.NewRequest(new(struct{}))})
	if connect.CodeOf(err) != connect.CodeInternal || !strings.Contains(err.Error(), "needs a proto.Message") {
		t.Errorf("got %v", err)
	}
}

// A handler of the generic API sets the metadata on its response or on its error.
// Interceptors outside of the guard see both, and the message of a replay.
func TestResponsesAndErrors(t *testing.T) {
	t.Parallel()
	engine := rpctest.NewEngine(t, memstore.New(), core.SharedScope, core.WithExpiryHeader("Idempotency-Expires"))
	var messages atomic.Int64
	outer := connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			response, err := next(ctx, request)
			if err == nil {
				if _, is := response.Any().(*shop.Payment); is { // strict codecs want the generated type too
					messages.Add(1)
				}
			}
			return response, err
		}
	})
	server := serve(t, unary(func(_ context.Context, r *request) (*response, error) {
		if r.Msg.GetAmount() == 0 {
			failed := connect.NewError(connect.CodeNotFound, errors.New("no"))
			failed.Meta().Set("X-Meta", "1")
			return nil, failed
		}
		paid := connect.NewResponse(&shop.Payment{Id: "p1"})
		paid.Header().Set("X-Header", "1")
		paid.Header().Set("Idempotent-Replay", "true")
		paid.Trailer().Set("X-Trailer", "2")
		paid.Trailer().Set("Idempotent-Replay", "true")
		return paid, nil
	}), outer, mustGuard(t, engine, policy.Row("POST "+rpctest.Pay)))
	call := clientOf(t, server)
	for _, replayed := range []bool{false, true} {
		r := call(t.Context(), rpctest.Pay, rpctest.Key("paid"), &shop.PayRequest{Amount: 1})
		if r.Payment.GetId() != "p1" || r.Metadata.Get("X-Header") != "1" || r.Metadata.Get("X-Trailer") != "2" || r.Replayed() != replayed || r.Metadata.Get("Idempotency-Expires") == "" {
			t.Errorf("got %v %v %v", r.Payment, r.Status, r.Metadata)
		}
		r = call(t.Context(), rpctest.Pay, rpctest.Key("refused"), &shop.PayRequest{})
		if r.Status.GetMessage() != "no" || !slices.Equal(r.Metadata["X-Meta"], []string{"1"}) || r.Replayed() != replayed {
			t.Errorf("got %v %v", r.Status, r.Metadata)
		}
	}
	testkit.Equal(t, messages.Load(), 2, "messages that the outer interceptor saw")
}

// A replay has the metadata of the first response also where an interceptor outside of the
// guard has set the same names: a handler replaces its values in the context, and adds to
// them by its response or error.
func TestMetadataThatIsSetOutside(t *testing.T) {
	t.Parallel()
	var traces atomic.Int64
	outer := connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			info, _ := connect.CallInfoForHandlerContext(ctx)
			info.ResponseHeader().Set("Trace", strconv.FormatInt(traces.Add(1), 10))
			for _, name := range []string{"X-Replaced", "X-Added", "X-Own"} {
				info.ResponseHeader().Set(name, "outer")
				info.ResponseTrailer().Set(name+"-T", "outer")
			}
			return next(ctx, request)
		}
	})
	guard := mustGuard(t, rpctest.NewEngine(t, memstore.New(), core.SharedScope), policy.Row("POST "+rpctest.Pay))
	server := serve(t, unary(func(ctx context.Context, r *request) (*response, error) {
		info, _ := connect.CallInfoForHandlerContext(ctx)
		info.ResponseHeader().Set("X-Replaced", "handler")
		info.ResponseHeader().Add("X-Added", "handler")
		info.ResponseTrailer().Set("X-Replaced-T", "handler")
		if r.Msg.GetAmount() == 0 {
			failed := connect.NewError(connect.CodeNotFound, errors.New("no"))
			failed.Meta().Set("X-Replaced", "error")
			return nil, failed
		}
		paid := connect.NewResponse(new(shop.Payment))
		paid.Header().Set("X-Own", "response")
		paid.Trailer().Set("X-Own-T", "response")
		return paid, nil
	}), outer, guard)
	for name, opts := range map[string][]connect.ClientOption{"Connect": nil, "gRPC": {connect.WithGRPC()}} {
		call := clientOf(t, server, opts...)
		for _, amount := range []int64{0, 1} {
			pay := func() http.Header {
				got := call(t.Context(), rpctest.Pay, rpctest.Key(fmt.Sprint(name, amount)), &shop.PayRequest{Amount: amount}).Metadata
				testkit.Equal(t, got.Get("Trace"), strconv.FormatInt(traces.Load(), 10), "a value that the guard's handler has not set")
				maps.DeleteFunc(got, func(name string, _ []string) bool { return !strings.HasPrefix(name, "X-") })
				return got
			}
			first, replay := pay(), pay()
			if !maps.EqualFunc(first, replay, slices.Equal) || !slices.Equal(first["X-Replaced-T"], []string{"handler"}) {
				t.Errorf("%s, amount %d: got %v and then %v", name, amount, first, replay)
			}
		}
	}
}

// Calls over GET pass, also with a key, and so does a procedure that the table lacks.
func TestGet(t *testing.T) {
	t.Parallel()
	guard := mustGuard(t, rpctest.NewEngine(t, memstore.New(), core.SharedScope), policy.Row("POST "+rpctest.Pay))
	var methods []string
	server := serve(t, unary(func(_ context.Context, r *request) (*response, error) {
		methods = append(methods, r.HTTPMethod())
		return connect.NewResponse(new(shop.Payment)), nil
	}), guard)
	call := clientOf(t, server, connect.WithHTTPGet(), connect.WithIdempotency(connect.IdempotencyNoSideEffects))
	for range 2 {
		if r := call(t.Context(), rpctest.Find, rpctest.Key("k"), &shop.PayRequest{}); r.Status != nil || r.Replayed() {
			t.Errorf("got %v %v", r.Status, r.Metadata)
		}
	}
	testkit.EqualSlices(t, methods, []string{http.MethodGet, http.MethodGet}, "the methods that the handler saw")
}

// The engine's records of a middleware for HTTP and of the interceptor would not be the
// same: two guards of one call are refused.
func TestUnderAGuardOfHTTP(t *testing.T) {
	t.Parallel()
	engine := rpctest.NewEngine(t, memstore.New(), core.SharedScope)
	guard := mustGuard(t, engine, policy.Row("POST "+rpctest.Pay))
	runs := 0
	handler := engine.Handler(connect.NewUnaryHandlerSimple(rpctest.Pay, func(context.Context, *shop.PayRequest) (*shop.Payment, error) {
		runs++
		return new(shop.Payment), nil
	}, connect.WithInterceptors(guard)))
	server := serve(t, func(string, ...connect.HandlerOption) http.Handler { return handler })
	r := clientOf(t, server)(t.Context(), rpctest.Pay, rpctest.Key("k"), &shop.PayRequest{})
	if r.Reason() != "wrong_setup" || runs != 0 {
		t.Errorf("got %v after %d runs, want wrong_setup", r.Status, runs)
	}
}

func TestAudit(t *testing.T) {
	t.Parallel()
	guard := mustGuard(t, rpctest.NewEngine(t, memstore.New(), core.SharedScope), policy.Row("POST "+rpctest.Pay))
	report := guard.Audit(rpctest.Refund)
	testkit.Fails(t, "the report", report.Err(), nil, "row 1")
	report = guard.Audit(rpctest.Refund, rpctest.Pay, rpctest.Find)
	if report.Err() != nil || len(report.Warnings) != 1 || !strings.HasPrefix(report.Warnings[0], rpctest.Refund) {
		t.Errorf("got %v and %q", report.Err(), report.Warnings)
	}
}

// The client's rules are those of package rpc, which adapters/grpc tests for each code.
func TestClient(t *testing.T) {
	t.Parallel()
	var failures atomic.Int64
	engine := rpctest.NewEngine(t, memstore.New(), core.SharedScope)
	guard := mustGuard(t, engine, policy.Row("POST "+rpctest.Pay))
	keys := make(chan string, 20)
	losing := connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			keys <- request.Header().Get(core.KeyHeader)
			response, err := next(ctx, request)
			if failures.Add(-1) >= 0 {
				busy := connect.NewError(connect.CodeAborted, errors.New("busy"))
				detail, _ := connect.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Millisecond)})
				busy.AddDetail(detail)
				return nil, busy
			}
			return response, err
		}
	})
	var runs atomic.Int64
	server := serve(t, unary(func(_ context.Context, r *request) (*response, error) {
		runs.Add(1)
		return connect.NewResponse(&shop.Payment{Id: "p1" + r.Msg.GetCurrency()}), nil
	}), losing, guard)
	var retries atomic.Int64
	interceptor, err := idemconnect.ClientInterceptor(idemconnect.ClientOptions{Backoff: time.Millisecond, OnRetry: func(idemconnect.Retry) { retries.Add(1) }})
	testkit.Must(t, err)
	for name, opts := range map[string][]connect.ClientOption{"Connect": nil, "gRPC": {connect.WithGRPC()}} {
		client := newClient(t, server, rpctest.Pay, append(opts, connect.WithInterceptors(interceptor))...)
		failures.Store(2)
		runs.Store(0)
		retries.Store(0)
		call := connect.NewRequest(&shop.PayRequest{Amount: 1})
		paid, err := client.CallUnary(t.Context(), call)
		if err != nil || paid.Msg.GetId() != "p1" || paid.Header().Get("Idempotent-Replay") != "true" || runs.Load() != 1 || retries.Load() != 2 {
			t.Fatalf("%s: got %v, %v after %d runs and %d retries", name, paid, err, runs.Load(), retries.Load())
		}
		first := <-keys
		if second, third := <-keys, <-keys; len(first) != 36 || first != second || first != third {
			t.Errorf("%s: the attempts had the keys %q, %q and %q", name, first, second, third)
		}
		if _, err := client.CallUnary(t.Context(), call); err != nil || <-keys == first {
			t.Errorf("%s: another call with the same request has the same key, or failed: %v", name, err)
		}
		call.Header().Set(core.KeyHeader, "own-"+name)
		if _, err := client.CallUnary(t.Context(), call); err != nil || <-keys != "own-"+name {
			t.Errorf("%s: the caller's key was not kept: %v", name, err)
		}
	}
	timed := core.Call{Scope: "s", Name: "order", Key: "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"} // of RFC 9562, appendix A.6
	sent := make(chan string, 1)
	inner := connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			sent <- request.Header().Get("Repeatability-First-Sent")
			return next(ctx, request)
		}
	})
	derives := newClient(t, server, rpctest.Pay, connect.WithInterceptors(interceptor, inner))
	derived := connect.NewRequest(new(shop.PayRequest))
	if _, _, err := core.Do(t.Context(), engine, timed, func(ctx context.Context) (string, error) {
		_, err := derives.CallUnary(ctx, derived)
		return "", err
	}); err != nil || len(<-keys) != 36 || <-sent != "Tue, 22 Feb 2022 19:22:22 GMT" || derived.Header().Get("Repeatability-First-Sent") != "" {
		t.Errorf("a call with a derived key has another time than the handler's key, or failed, or keeps %v: %v", derived.Header(), err)
	}
	fills, err := idemconnect.ClientInterceptor(idemconnect.ClientOptions{KeyField: "currency", Backoff: time.Millisecond})
	testkit.Must(t, err)
	call := connect.NewRequest(new(shop.PayRequest))
	failures.Store(1)
	filled, err := newClient(t, server, rpctest.Pay, connect.WithInterceptors(fills, guard)).CallUnary(t.Context(), call) // the guard is for servers
	if key := <-keys; err != nil || len(key) != 36 || <-keys != key || filled.Msg.GetId() != "p1"+key || call.Msg.GetCurrency() != "" || call.Header().Get(core.KeyHeader) != "" {
		t.Errorf("with a KeyField: %v, and the request is %v %v", err, call.Msg, call.Header())
	}
	find := newClient(t, server, rpctest.Find, connect.WithInterceptors(interceptor), connect.WithIdempotency(connect.IdempotencyNoSideEffects))
	if _, err := find.CallUnary(idemconnect.WithCall(t.Context(), "n"), connect.NewRequest(new(shop.PayRequest))); err != nil || <-keys != "" {
		t.Errorf("a read has a key, or failed: %v", err)
	}
	for _, wrong := range []idemconnect.ClientOptions{{MaxAttempts: -1}, {MaxTime: -1}, {AttemptTimeout: -1}, {Backoff: time.Minute}, {MaxBackoff: -1}} {
		if _, err := idemconnect.ClientInterceptor(wrong); err == nil {
			t.Errorf("%+v was accepted", wrong)
		}
	}
}

// A call and its retry may differ in the protocol and the encoding.
func TestOneCallInEachEncoding(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	guard := mustGuard(t, rpctest.NewEngine(t, memstore.New(), core.SharedScope), policy.Row("POST "+rpctest.Pay))
	server := serve(t, unary(func(context.Context, *request) (*response, error) {
		runs.Add(1)
		return connect.NewResponse(&shop.Payment{Id: "p1"}), nil
	}), guard)
	for _, opt := range []connect.ClientOption{connect.WithProtoJSON(), connect.WithSendGzip(), connect.WithGRPC(), connect.WithGRPCWeb()} {
		paid := clientOf(t, server, opt)(t.Context(), rpctest.Pay, rpctest.Key("k"), &shop.PayRequest{
			Amount: 1 << 60, Labels: map[string]string{"b": "<\u2028>", "a": ""}, Rate: math.Inf(-1), Tip: new(int32), Method: new(shop.PayRequest_Token),
		})
		testkit.Equal(t, paid.Payment.GetId(), "p1", "the payment, beside %v", paid.Status)
	}
	testkit.Equal(t, runs.Load(), 1, "runs")
}

// Calls at the same time may share a message: each has a key of its own. The race detector sees it too.
func TestCallsMayShareAMessage(t *testing.T) {
	t.Parallel()
	const atOnce = 8
	fills, err := idemconnect.ClientInterceptor(idemconnect.ClientOptions{KeyField: "request_id"})
	testkit.Must(t, err)
	var keys sync.Map
	var arrived sync.WaitGroup
	arrived.Add(atOnce)
	held := connect.UnaryInterceptorFunc(func(connect.UnaryFunc) connect.UnaryFunc {
		return func(_ context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
			if _, again := keys.LoadOrStore(r.Any().(*shop.PayRequest).GetRequestId(), true); again || r.Header().Get(core.KeyHeader) == "" {
				t.Error("two calls have one key, or a call has none")
			}
			arrived.Done()
			arrived.Wait()
			return connect.NewResponse(new(shop.Payment)), nil
		}
	})
	client, message := newClient(t, new(httptest.Server), rpctest.Pay, connect.WithInterceptors(fills, held)), new(shop.PayRequest)
	testkit.Concurrently(atOnce, func(int) {
		_, err := client.CallUnary(t.Context(), connect.NewRequest(message))
		testkit.Must(t, err)
	})
}

// A replay that is cut off before its trailers is no stored error, and is repeated.
func TestReplayThatIsCutOff(t *testing.T) {
	t.Parallel()
	var attempts atomic.Int64
	pay := unary(func(context.Context, *request) (*response, error) {
		return connect.NewResponse(&shop.Payment{Id: "p1"}), nil
	})
	server := serve(t, func(procedure string, opts ...connect.HandlerOption) http.Handler {
		handler := pay(procedure, opts...)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if attempts.Add(1) == 1 {
				w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
				w.Header().Set("Idempotent-Replay", "true")
				return
			}
			handler.ServeHTTP(w, r)
		})
	})
	interceptor, err := idemconnect.ClientInterceptor(idemconnect.ClientOptions{Backoff: time.Millisecond})
	testkit.Must(t, err)
	paid, err := newClient(t, server, rpctest.Pay, connect.WithGRPC(), connect.WithInterceptors(interceptor)).CallUnary(t.Context(), connect.NewRequest(&shop.PayRequest{}))
	if err != nil || paid.Msg.GetId() != "p1" {
		t.Errorf("got %v, %v after %d attempts", paid, err, attempts.Load())
	}
}
