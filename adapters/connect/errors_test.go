package idemconnect_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	idemconnect "github.com/oncekey/oncekey/adapters/connect"
	"github.com/oncekey/oncekey/adapters/internal/rpc/rpctest"
	"github.com/oncekey/oncekey/adapters/internal/rpc/shop"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// failingWith serves Pay with a handler that returns one error after its side effect, and
// returns a call under a key.
func failingWith(t *testing.T, failed error, opts ...connect.ClientOption) func(key string) rpctest.Response {
	t.Helper()
	guard := mustGuard(t, rpctest.NewEngine(t, memstore.New(), core.SharedScope), policy.Row("POST "+rpctest.Pay))
	call := clientOf(t, serve(t, unary(func(ctx context.Context, _ *request) (*response, error) {
		failure.MarkExecuted(ctx)
		return nil, failed
	}), guard), opts...)
	return func(key string) rpctest.Response {
		return call(t.Context(), rpctest.Pay, rpctest.Key(key), new(shop.PayRequest))
	}
}

// connect does not forward the metadata of an error that another server sent, because they
// are that server's response header. A replay does not either.
func TestMetadataOfAnotherServersErrorAreNotReplayed(t *testing.T) {
	t.Parallel()
	failed := connect.NewWireError(connect.CodeNotFound, errors.New("no such card"))
	failed.Meta().Set("X-Internal", "10.0.0.7")
	for name, returned := range map[string]error{"as received": failed, "wrapped": fmt.Errorf("charge: %w", failed)} {
		call := failingWith(t, returned)
		for _, replayed := range []bool{false, true} {
			r := call("k")
			if got := r.Metadata.Get("X-Internal"); got != "" || r.Status.GetMessage() != "no such card" || r.Replayed() != replayed {
				t.Errorf("%s: got %v %v, want no X-Internal, and a replay: %t", name, r.Status, r.Metadata, replayed)
			}
		}
	}
}

// Case 27: a handler cannot mark its error as a replay.
func TestErrorCannotForgeTheReplayMark(t *testing.T) {
	t.Parallel()
	failed := connect.NewError(connect.CodeNotFound, errors.New("no"))
	failed.Meta().Set("X-Meta", "1")
	failed.Meta().Set("Idempotent-Replay", "true")
	detail, err := connect.NewErrorDetail(new(shop.Payment))
	testkit.Must(t, err)
	failed.AddDetail(detail)
	for name, returned := range map[string]error{"as it is": failed, "wrapped": fmt.Errorf("charge: %w", failed)} {
		for protocol, opts := range map[string][]connect.ClientOption{"Connect": nil, "gRPC": {connect.WithGRPC()}} {
			call := failingWith(t, returned, opts...)
			for _, replayed := range []bool{false, true} {
				r := call("k")
				if r.Replayed() != replayed || !slices.Equal(r.Metadata["X-Meta"], []string{"1"}) || r.Status.GetMessage() != "no" || len(r.Status.GetDetails()) != 1 {
					t.Errorf("%s, %s: got %v %v, want X-Meta, and a replay: %t", name, protocol, r.Status, r.Metadata, replayed)
				}
			}
		}
	}
	if failed.Meta().Get("Idempotent-Replay") == "" {
		t.Error("the handler's own error was changed")
	}
}

// Handlers may share one error, as errors.New makes it: the guard does not write to it.
// The race detector sees it.
func TestHandlersMayShareAnError(t *testing.T) {
	t.Parallel()
	const atOnce = 8
	failed := connect.NewError(connect.CodeNotFound, errors.New("no"))
	var handlers, calls sync.WaitGroup
	handlers.Add(atOnce)
	guard := mustGuard(t, rpctest.NewEngine(t, memstore.New(), core.SharedScope), policy.Row("POST "+rpctest.Pay))
	call := clientOf(t, serve(t, unary(func(context.Context, *request) (*response, error) {
		handlers.Done()
		handlers.Wait()
		return nil, failed
	}), guard))
	for i := range atOnce {
		calls.Go(func() { call(t.Context(), rpctest.Pay, rpctest.Key(fmt.Sprint("k", i)), new(shop.PayRequest)) })
	}
	calls.Wait()
}

// connect has codes for errors of the network too. A replay has the code of the first
// response.
func TestReplayHasTheCodeOfTheFirstResponse(t *testing.T) {
	t.Parallel()
	for _, failed := range []error{
		errors.New("down"), context.Canceled, context.DeadlineExceeded, os.ErrDeadlineExceeded,
		&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, syscall.ECONNRESET, &net.OpError{Op: "write", Err: syscall.EPIPE},
	} {
		call := failingWith(t, failed)
		first, second := call("k"), call("k")
		if first.Status.GetCode() != second.Status.GetCode() || first.Replayed() || !second.Replayed() {
			t.Errorf("%v: got %v, and then %v", failed, first.Status, second.Status)
		}
	}
}

// A replay of an error is final for clients, because another attempt gets the same.
func TestReplayedErrorsAreNotRepeated(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]connect.ClientOption{"Connect": nil, "gRPC": {connect.WithGRPC()}} {
		attempts := 0
		interceptor, err := idemconnect.ClientInterceptor(idemconnect.ClientOptions{
			Backoff: time.Millisecond, OnRetry: func(idemconnect.Retry) { attempts++ },
		})
		testkit.Must(t, err)
		call := failingWith(t, connect.NewError(connect.CodeInternal, errors.New("charged, and then lost")), append(opts, connect.WithInterceptors(interceptor))...)
		if r := call("k"); !r.Replayed() || attempts != 1 {
			t.Errorf("%s: got %v %v after %d repetitions, want the stored error after one", name, r.Status, r.Metadata, attempts)
		}
	}
}

// gRPC sends the metadata of an error as trailers, and no trailer of HTTP is one of these names.
func TestHeadersOfErrorsAreHeaders(t *testing.T) {
	t.Parallel()
	guard := mustGuard(t, rpctest.NewEngine(t, memstore.New(), func(r *http.Request) (string, error) {
		if user := r.Header.Get("Authorization"); user != "" {
			return user, nil
		}
		return "", core.Challenge("Bearer", errors.New("no user"))
	}), policy.Row("POST "+rpctest.Pay))
	server := serve(t, simple(func(ctx context.Context, _ *shop.PayRequest) (*shop.Payment, error) {
		info, _ := connect.CallInfoForHandlerContext(ctx)
		info.ResponseHeader().Set("Cache-Control", "no-store")
		return nil, connect.NewError(connect.CodeNotFound, errors.New("no"))
	}), guard)
	for name, opts := range map[string][]connect.ClientOption{"Connect": nil, "gRPC": {connect.WithGRPC()}, "gRPC-Web": {connect.WithGRPCWeb()}} {
		call := clientOf(t, server, opts...)
		for _, replayed := range []bool{false, true} {
			r := call(t.Context(), rpctest.Pay, rpctest.Key(name), new(shop.PayRequest))
			if r.Replayed() != replayed || !slices.Equal(r.Metadata["Cache-Control"], []string{"no-store"}) {
				t.Errorf("%s: got %v, want Cache-Control, and a replay: %t", name, r.Metadata, replayed)
			}
		}
		r := call(t.Context(), rpctest.Pay, http.Header{core.KeyHeader: {name}}, new(shop.PayRequest))
		testkit.Equal(t, r.Metadata.Get("Www-Authenticate"), "Bearer", "the challenge over %s", name)
	}
}
