package core_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/policy"
)

// A response is kept for the time of the last KeepFor, and no longer.
func TestKeepFor(t *testing.T) {
	t.Parallel()
	type row struct {
		keep []time.Duration
		want time.Duration
	}
	each(t, map[string]row{
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
	}, policy.Observe(true))
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
		if runs != 2 {
			t.Errorf("the function ran %d times, want 2", runs)
		}
	})
}
