package core_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

const expires = "Idempotency-Expires"

// edited is a store whose records a test changes on their way to the engine.
type edited struct {
	storage.Store
	edit func(*storage.Record)
}

func (s edited) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	lease, record, err := s.Store.Acquire(ctx, request.Claim())
	if record != nil {
		record = new(*record)
		s.edit(record)
	}
	return lease, record, err
}

// httpDate is the time after d.
func httpDate(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }

func TestExpiryHeader(t *testing.T) {
	t.Parallel()
	type row struct {
		handle http.HandlerFunc
		kept   time.Duration // zero: no header
		again  bool          // the handler runs again
	}
	testkit.EachInBubble(t, map[string]row{
		"kept for the TTL": {handle: created, kept: 48 * time.Hour},
		"kept by KeepFor": {handle: func(w http.ResponseWriter, r *http.Request) {
			core.KeepFor(r.Context(), 90*time.Minute)
			w.Header().Set("idempotency-expires", "forged")
			created(w, r)
		}, kept: 90 * time.Minute},
		"a kept error":     {handle: responding(http.StatusConflict), kept: 48 * time.Hour},
		"a released key":   {handle: responding(http.StatusBadGateway), again: true},
		"an uncertain run": {handle: func(w http.ResponseWriter, r *http.Request) { failure.MarkUncertain(r.Context(), ""); created(w, r) }, again: true},
		"a stream": {handle: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(expires, "forged")
			streaming(w, r)
		}},
		"too large": {handle: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2<<20)) }},
		"a forged trailer": {handle: func(w http.ResponseWriter, r *http.Request) {
			created(w, r)
			w.Header().Set("Trailer:"+expires, "forged")
		}, kept: 48 * time.Hour},
		"unlike the protocol": {handle: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			_, _ = w.Write([]byte("short"))
		}},
	}, func(t *testing.T, row row) {
		s := newServiceOf(t, memstore.New(), row.handle, []policy.Option{policy.TTLHours(48)}, core.WithExpiryHeader("idempotency-expires"))
		var want []string
		if row.kept > 0 {
			want = []string{httpDate(row.kept)}
		}
		for _, name := range []string{"first", "second"} {
			response := s.post(t.Context(), "k", payment).Result()
			testkit.EqualSlices(t, response.Header[expires], want, "the end of the %s response", name)
			if len(response.Trailer[expires]) > 0 {
				t.Errorf("the trailer is %v", response.Trailer)
			}
			if row.again {
				return
			}
			advance(time.Minute)
		}
	})
}

// A response that is sent before the store has it ends when its retention does.
func TestExpiryHeaderOfADeferredResponse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		s := newServiceOf(t, store, created, []policy.Option{policy.TTLHours(1)}, core.WithExpiryHeader(expires))
		want := httpDate(time.Hour)
		store.set(&store.complete)(failUnapplied)
		for range 2 { // the second is a replay from this process
			w := s.post(t.Context(), "k", payment)
			if got := w.Header().Get(expires); w.Code != http.StatusCreated || got != want {
				t.Errorf("the response is %d and ends at %q, want %q", w.Code, got, want)
			}
		}
		store.set(&store.complete)(nil)
		advance(time.Second)
		s.wantEvent(t, event.Completed, 1)
	})
}

// An HTTP date is in GMT, whatever the store's zone.
func TestExpiryHeaderIsInGMT(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		abroad := edited{memstore.New(), func(r *storage.Record) { r.Expires = r.Expires.In(time.FixedZone("JST", 9*60*60)) }}
		s := newServiceOf(t, abroad, created, []policy.Option{policy.TTLHours(1)}, core.WithExpiryHeader(expires))
		want := httpDate(time.Hour)
		for range 2 {
			testkit.Equal(t, s.post(t.Context(), "k", payment).Header().Get(expires), want, "its end")
		}
	})
}

// Problems and records without a known end have no such header.
func TestNoExpiryHeader(t *testing.T) {
	t.Parallel()
	timeless := edited{memstore.New(), func(r *storage.Record) { r.Created, r.Finished, r.Expires = time.Time{}, time.Time{}, time.Time{} }}
	s := newServiceOf(t, timeless, created, nil, core.WithExpiryHeader(expires))
	s.post(t.Context(), "k", payment)
	w := s.post(t.Context(), "k", payment)
	wantReplay(t, w)
	if got := w.Header()[expires]; got != nil {
		t.Errorf("the replay ends at %q, and the store does not know", got)
	}
	w = s.post(t.Context(), "k", `{"amount":7}`)
	if got := w.Header()[expires]; w.Code != http.StatusUnprocessableEntity || got != nil {
		t.Errorf("the problem is %d and ends at %q", w.Code, got)
	}
}

// A response is kept for the time of the last KeepFor, and no longer.
func TestKeepFor(t *testing.T) {
	t.Parallel()
	type row struct {
		keep []time.Duration
		want time.Duration
	}
	testkit.EachInBubble(t, map[string]row{
		"longer":            {[]time.Duration{72 * time.Hour}, 72 * time.Hour},
		"shorter":           {[]time.Duration{time.Minute}, time.Minute},
		"the last counts":   {[]time.Duration{time.Minute, 72 * time.Hour}, 72 * time.Hour},
		"none":              {nil, 24 * time.Hour},
		"more than allowed": {[]time.Duration{1 << 62}, 10 * 365 * 24 * time.Hour},
	}, func(t *testing.T, row row) {
		s := newService(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
			for _, d := range row.keep {
				if !core.KeepFor(r.Context(), d) {
					t.Errorf("KeepFor(%v) is false", d)
				}
			}
			created(w, r)
		})
		wantFirst(t, s.post(t.Context(), "k", payment))
		advance(row.want - time.Second)
		wantReplay(t, s.post(t.Context(), "k", payment))
		advance(2 * time.Second)
		wantFirst(t, s.post(t.Context(), "k", payment))
	})
}

// KeepFor is false where it has no effect.
func TestKeepForWithoutEffect(t *testing.T) {
	t.Parallel()
	if core.KeepFor(t.Context(), time.Hour) {
		t.Error("KeepFor is true outside a guarded route")
	}
	var after context.Context
	store := memstore.New()
	s := newService(t, store, func(w http.ResponseWriter, r *http.Request) {
		if core.KeepFor(r.Context(), 0) || core.KeepFor(r.Context(), -time.Hour) {
			t.Error("KeepFor is true for no time")
		}
		after = r.Context() //nolint:fatcontext // used after the run on purpose
		created(w, r)
	})
	wantFirst(t, s.post(t.Context(), "k", payment))
	if core.KeepFor(after, time.Hour) {
		t.Error("KeepFor is true after the response was settled")
	}
	observed := newService(t, store, func(w http.ResponseWriter, r *http.Request) {
		if core.KeepFor(r.Context(), time.Hour) {
			t.Error("KeepFor is true on a route that only observes")
		}
		created(w, r)
	}, policy.ObserveOnly(true))
	observed.post(t.Context(), "j", payment)
	observed.wantRuns(t, 1)
}

// KeepFor works in a function of Do.
func TestKeepForOfCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine := engineOf(t, memstore.New())
		runs := 0
		call := func() {
			_, _, err := core.Do(t.Context(), engine, core.Call{Name: "charge", Scope: "alice", Key: "k"}, func(ctx context.Context) (int, error) {
				runs++
				if !core.KeepFor(ctx, time.Minute) {
					t.Error("KeepFor is false in a function of Do")
				}
				return runs, nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		call()
		advance(59 * time.Second)
		call()
		advance(2 * time.Second)
		call()
		testkit.Equal(t, runs, 2, "runs of the function")
	})
}
