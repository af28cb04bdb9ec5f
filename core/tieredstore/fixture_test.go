package tieredstore_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/tieredstore"
	"github.com/oncekey/oncekey/internal/testkit"
)

var (
	win, find, must   = testkit.Win, testkit.Find, testkit.Must
	winAttempt, fails = testkit.WinAttempt, testkit.Fails
	result, runs      = testkit.Result, testkit.IsRunning
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDown = errors.New("the server is down")

var silent = slog.New(slog.DiscardHandler)

// tiers are a store and the links to its two servers, which can be cut.
type tiers struct {
	*tieredstore.Store
	hot, durable *link
}

func newTiers(options ...tieredstore.Option) tiers {
	hot, durable := newServer().link(), newServer().link()
	options = append([]tieredstore.Option{tieredstore.Logger(silent)}, options...)
	return tiers{Store: tieredstore.New(hot, durable, options...), hot: hot, durable: durable}
}

// wants expects the number of calls to each tier since its last call.
func (s tiers) wants(t *testing.T, hot, durable int) {
	t.Helper()
	if gotHot, gotDurable := s.hot.taken(), s.durable.taken(); len(gotHot) != hot || len(gotDurable) != durable {
		t.Errorf("the hot tier had the calls %v, the durable one %v: want %d and %d", gotHot, gotDurable, hot, durable)
	}
}

func claim(key string) storage.Claim {
	return storage.Claim{
		Key: key, Token: storage.NewToken(), Fingerprint: "sha256:f", LockTTL: time.Minute, Retain: 10 * time.Hour, TakeOver: true,
	}
}

// finish claims and completes a key.
func finish(t *testing.T, store storage.Store, key, body string) storage.Lease {
	t.Helper()
	lease := win(t, store, claim(key))
	must(t, store.Complete(t.Context(), lease, result(body)))
	return lease
}

// replays expects every caller to get the response.
func replays(t *testing.T, store storage.Store, key, body string) {
	t.Helper()
	if r := find(t, store, claim(key)); r.State != storage.Completed || string(r.Body) != body || r.Status != 201 || len(r.Header) != 1 ||
		string(r.Sketch) != "sketch of "+body {
		t.Errorf("key %q has %+v, want the response %q", key, r, body)
	}
}

// edited is a durable tier whose records a test changes on their way.
type edited struct {
	*link
	edit func(*storage.Record)
}

func (s edited) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	lease, record, err := s.link.Acquire(ctx, request)
	if record != nil {
		record = new(*record)
		s.edit(record)
	}
	return lease, record, err
}

// pass lets time pass, in a bubble without taking any.
func pass(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
