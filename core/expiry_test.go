package core_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

const expires = "Idempotency-Expires"

// timeless is a store that does not know the times of its records.
type timeless struct{ storage.Store }

func (s timeless) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	c := request.Claim()
	lease, record, err := s.Store.Acquire(ctx, c)
	if record != nil {
		copied := *record
		copied.Created, copied.Finished, copied.Expires = time.Time{}, time.Time{}, time.Time{}
		record = &copied
	}
	return lease, record, err
}

func TestExpiryHeader(t *testing.T) {
	t.Parallel()
	keepFor := func(w http.ResponseWriter, r *http.Request) {
		core.KeepFor(r.Context(), 90*time.Minute)
		w.Header().Set("idempotency-expires", "forged")
		created(w, r)
	}
	for name, c := range map[string]struct {
		handle http.HandlerFunc
		kept   time.Duration // zero: no header
	}{
		"kept for the TTL": {created, 48 * time.Hour},
		"kept by KeepFor":  {keepFor, 90 * time.Minute},
		"a kept error":     {responding(http.StatusConflict), 48 * time.Hour},
		"a released key":   {responding(http.StatusBadGateway), 0},
		"an uncertain run": {func(w http.ResponseWriter, r *http.Request) { failure.MarkUncertain(r.Context(), ""); created(w, r) }, 0},
		"a stream": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(expires, "forged")
			_ = http.NewResponseController(w).Flush()
		}, 0},
		"too large": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2<<20)) }, 0},
		"a forged trailer": {func(w http.ResponseWriter, r *http.Request) {
			created(w, r)
			w.Header().Set("Trailer:"+expires, "forged")
		}, 48 * time.Hour},
		"unlike the protocol": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			_, _ = w.Write([]byte("short"))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				engine := engineOf(t, memstore.New(), core.WithExpiryHeader("idempotency-expires"))
				handler := engine.Handler(c.handle, policy.TTLHours(48))
				want := []string(nil)
				if c.kept > 0 {
					want = []string{time.Now().Add(c.kept).UTC().Format(http.TimeFormat)}
				}
				first := sendTo(handler, newPost(t.Context(), "k", payment))
				advance(time.Minute)
				again := sendTo(handler, newPost(t.Context(), "k", payment))
				if got := first.Result().Header[expires]; !equal(got, want) {
					t.Errorf("the first response ends at %q, want %q", got, want)
				}
				if name == "a released key" || name == "an uncertain run" {
					return // it ran again
				}
				if got := again.Result().Header[expires]; !equal(got, want) {
					t.Errorf("the second response ends at %q, want %q", got, want)
				}
				for _, got := range []http.Header{first.Result().Trailer, again.Result().Trailer} {
					if len(got[expires]) > 0 {
						t.Errorf("the trailer is %v", got)
					}
				}
			})
		})
	}
}

func equal(got, want []string) bool { return strings.Join(got, "|") == strings.Join(want, "|") }

// A response that is sent before the store has it ends when its retention does.
func TestExpiryHeaderOfADeferredResponse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, seen := newFaultyStore(), &events{}
		engine := engineOf(t, store, core.WithExpiryHeader(expires), core.WithObserver(seen))
		handler := engine.Handler(http.HandlerFunc(created), policy.TTLHours(1))
		want := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
		store.set(&store.complete)(failUnapplied)
		for range 2 { // the second is a replay from this process
			w := sendTo(handler, newPost(t.Context(), "k", payment))
			if got := w.Header().Get(expires); w.Code != http.StatusCreated || got != want {
				t.Errorf("the response is %d and ends at %q, want %q", w.Code, got, want)
			}
		}
		store.set(&store.complete)(nil)
		advance(time.Second)
		if seen.count(event.Completed) != 1 {
			t.Errorf("the events are %v", seen.results())
		}
	})
}

// abroad is a store whose clock shows another zone.
type abroad struct{ storage.Store }

func (s abroad) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	c := request.Claim()
	lease, record, err := s.Store.Acquire(ctx, c)
	if record != nil {
		copied := *record
		copied.Expires, record = copied.Expires.In(time.FixedZone("JST", 9*60*60)), &copied
	}
	return lease, record, err
}

// An HTTP date is in GMT, whatever the store's zone.
func TestExpiryHeaderIsInGMT(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine := engineOf(t, abroad{memstore.New()}, core.WithExpiryHeader(expires))
		handler := engine.Handler(http.HandlerFunc(created), policy.TTLHours(1))
		want := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
		for range 2 {
			w := sendTo(handler, newPost(t.Context(), "k", payment))
			if got := w.Header().Get(expires); got != want {
				t.Errorf("it ends at %q, want %q", got, want)
			}
		}
	})
}

// Problems and records without a known end have no such header.
func TestNoExpiryHeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine := engineOf(t, timeless{memstore.New()}, core.WithExpiryHeader(expires))
		handler := engine.Handler(http.HandlerFunc(created))
		sendTo(handler, newPost(t.Context(), "k", payment))
		w := sendTo(handler, newPost(t.Context(), "k", payment))
		wantReplay(t, w)
		if got := w.Header()[expires]; got != nil {
			t.Errorf("the replay ends at %q, and the store does not know", got)
		}
		w = sendTo(handler, newPost(t.Context(), "k", `{"amount":7}`))
		if got := w.Header()[expires]; w.Code != http.StatusUnprocessableEntity || got != nil {
			t.Errorf("the problem is %d and ends at %q", w.Code, got)
		}
	})
}

func TestExpiryHeaderIsRefused(t *testing.T) {
	t.Parallel()
	for want, opts := range map[string][]core.Option{
		`oncekey: WithExpiryHeader is given "": give a header name`:                                        {core.WithExpiryHeader("")},
		`oncekey: WithExpiryHeader is given "a b": give a header name`:                                     {core.WithExpiryHeader("a b")},
		`oncekey: WithExpiryHeader is given "Trailer:A": give a header name`:                               {core.WithExpiryHeader("Trailer:A")},
		`oncekey: WithExpiryHeader is given "X-Idempotent-Replay", which marks replays: give another name`: {core.WithExpiryHeader("x-idempotent-replay")},
		`oncekey: WithExpiryHeader is given "X-Again", which marks replays: give another name`:             {core.WithExpiryHeader("X-Again"), core.WithReplayHeader("X-Again")},
	} {
		if _, err := core.New(newFaultyStore(), core.SharedScope, opts...); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}
