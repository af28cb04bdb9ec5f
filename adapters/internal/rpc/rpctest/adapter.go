// Package rpctest is the suite of tests that adapters/grpc and adapters/connect pass,
// over real servers and clients.
package rpctest

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/oncekey/oncekey/adapters/internal/rpc"
	"github.com/oncekey/oncekey/adapters/internal/rpc/shop"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/policy"
)

// The procedures of the tests.
const (
	Pay    = "/oncekey.shop.v1.Payments/Pay"
	Refund = "/oncekey.shop.v1.Payments/Refund"
	Find   = "/oncekey.shop.v1.Payments/Find"
	Watch  = "/oncekey.shop.v1.Payments/Watch"
)

// Handler serves Pay, Refund and Find.
type Handler func(ctx context.Context, request *shop.PayRequest) (*shop.Payment, error)

// Adapter is the part of a suite that depends on the adapter.
type Adapter struct {
	// Serve starts a server, and returns a client of it. A recovering interceptor
	// outside of the guard responds with Internal and "recovered".
	Serve func(t *testing.T, engine *core.Engine, table *policy.Table, handle Handler) Client
	// Error returns a handler's error.
	Error func(s *status.Status) error
	// OnlyKnown says that the client cannot send fields without a name.
	OnlyKnown bool
	// SetMetadata sets a header and a trailer of the response.
	SetMetadata func(ctx context.Context, header, trailer http.Header)
	// New is the adapter's New, without its guard.
	New func(*core.Engine, *policy.Table) error
	// ScopeBy and Recovered are those of the adapter.
	ScopeBy   func(func(context.Context) (string, error)) core.Scope
	Recovered func(proto.Message, error) (*policy.Response, error)
}

// Client makes one call.
type Client func(ctx context.Context, procedure string, header http.Header, request *shop.PayRequest) Response

// Response is the response of a call.
type Response struct {
	Payment *shop.Payment
	Status  *status.Status // nil without an error
	// Metadata has headers and trailers, under canonical names.
	Metadata http.Header
}

// Replayed reports whether the response is marked as a replay.
func (r *Response) Replayed() bool { return r.Metadata.Get(rpc.ReplayHeader) == "true" }

// Reason returns the reason of the engine's error, or "".
func (r *Response) Reason() string {
	if info := rpc.DetailOf[*errdetails.ErrorInfo](r.Status); info.GetDomain() == rpc.Domain {
		return info.GetReason()
	}
	return ""
}

// RetryAfter returns the time of the RetryInfo, or zero.
func (r *Response) RetryAfter() time.Duration {
	return rpc.DetailOf[*errdetails.RetryInfo](r.Status).GetRetryDelay().AsDuration()
}

// Key returns the header of a call of alice with this key.
func Key(key string) http.Header {
	return http.Header{core.KeyHeader: {key}, "Authorization": {"alice"}}
}

// service is a server with one handler that counts its runs.
type service struct {
	call   Client
	runs   atomic.Int64
	engine *core.Engine
}

// scopeByUser reads the metadata authorization.
func scopeByUser(r *http.Request) (string, error) {
	if r.RemoteAddr == "" {
		return "", errors.New("the scope does not see the client's address")
	}
	return r.Header.Get("Authorization"), nil
}

// newService serves Pay with a policy. Several services with one store stand for several
// processes.
func (a *Adapter) newService(t *testing.T, store storage.Store, handle Handler, opts ...policy.Option) *service {
	t.Helper()
	return a.newServiceOf(t, NewEngine(t, store, scopeByUser), handle, policy.Row("POST "+Pay, opts...))
}

func (a *Adapter) newServiceOf(t *testing.T, engine *core.Engine, handle Handler, rows ...policy.TableRow) *service {
	t.Helper()
	table, err := policy.NewTable(rows...)
	if err != nil {
		t.Fatal(err)
	}
	s := &service{engine: engine}
	s.call = a.Serve(t, engine, table, func(ctx context.Context, request *shop.PayRequest) (*shop.Payment, error) {
		s.runs.Add(1)
		return handle(ctx, request)
	})
	return s
}

// NewEngine returns an engine that ends with the test.
func NewEngine(t *testing.T, store storage.Store, scope core.Scope, opts ...core.Option) *core.Engine {
	t.Helper()
	if store == nil {
		store = memstore.New()
	}
	engine, err := core.New(store, scope, append(opts, core.WithObserver(quiet{}))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = engine.Shutdown(ctx) // it may be waiting for a store that fails
	})
	return engine
}

type quiet struct{}

func (quiet) Observe(context.Context, event.Event) {}

// pay sends a payment under a key.
func (s *service) pay(t *testing.T, key string) Response {
	t.Helper()
	return s.call(t.Context(), Pay, Key(key), &shop.PayRequest{Amount: 100, Currency: "EUR"})
}

func (s *service) wantRuns(t *testing.T, n int64) {
	t.Helper()
	if got := s.runs.Load(); got != n {
		t.Errorf("the handler ran %d times, want %d", got, n)
	}
}

// paid is a handler that succeeds.
func paid(ctx context.Context, request *shop.PayRequest) (*shop.Payment, error) {
	lease, _ := core.LeaseFrom(ctx)
	return &shop.Payment{Id: "p1", Amount: request.GetAmount(), Attempt: lease.Attempt}, nil
}

// wantPaid checks that the response of paid arrived.
func wantPaid(t *testing.T, r Response, replayed bool) {
	t.Helper()
	if r.Status != nil || r.Payment.GetId() != "p1" || r.Payment.GetAmount() != 100 || r.Replayed() != replayed {
		t.Errorf("got %v %v %v, want the payment, replayed: %t", r.Payment, r.Status, r.Metadata, replayed)
	}
}

// errDown is the error of a store that is down.
var errDown = errors.New("the store is down")

// equalValues reports whether all headers of want are in got.
func equalValues(got, want http.Header) bool {
	for name, values := range want {
		if !slices.Equal(got[name], values) {
			return false
		}
	}
	return true
}
