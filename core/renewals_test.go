package core_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// renewed is a store that records when each key's lease is renewed.
type renewed struct {
	storage.Store
	mu    sync.Mutex
	start time.Time
	at    map[string][]time.Duration // by fingerprint
}

func (s *renewed) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) error {
	s.mu.Lock()
	s.at[l.Fingerprint] = append(s.at[l.Fingerprint], time.Since(s.start))
	s.mu.Unlock()
	return s.Store.Extend(ctx, l, ttl)
}

// Leases of different lengths and short runs share one timer. Each lease is renewed
// after every third of its TTL, and not more often.
func TestEachLeaseIsRenewedInItsOwnTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &renewed{Store: memstore.New(), start: time.Now(), at: make(map[string][]time.Duration)}
		engine := engineOf(t, store)
		long, short := engine.MustRoute(policy.LockTTL(60*time.Second)), engine.MustRoute(policy.LockTTL(6*time.Second))
		var group sync.WaitGroup
		begin := func(name string, route *core.Route, lasts time.Duration) {
			group.Go(func() {
				request := core.Request{Scope: "s", Method: storage.MethodCall, Path: "/", Key: name, Fingerprint: name}
				run := engine.Begin(t.Context(), route, request).Run
				if run == nil {
					t.Errorf("%s does not run", name)
					return
				}
				advance(lasts)
				if err := engine.Finish(run, failure.Outcome{Status: http.StatusOK}, core.Response{}); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
			synctest.Wait()
		}
		begin("long", long, 50*time.Second)
		for n := range 20 { // 10 s of short runs
			begin(fmt.Sprint("brief ", n), short, time.Millisecond)
			advance(500 * time.Millisecond)
		}
		begin("short", short, 5*time.Second)
		advance(time.Second)
		begin("other long", long, 30*time.Second)
		group.Wait()
		shutdown(t, engine)
		advance(time.Hour) // without runs

		want := map[string][]time.Duration{
			"long":       {20 * time.Second, 40 * time.Second},
			"short":      {12 * time.Second, 14 * time.Second},
			"other long": {31 * time.Second},
		}
		for key, times := range want {
			testkit.EqualSlices(t, store.at[key], times, "the lease of %s was renewed at", key)
		}
		testkit.Equal(t, len(store.at), len(want), "leases that were renewed, of %v", store.at)
	})
}

// A handler that keeps its body cannot read the next request's body.
func TestBodyEndsWithItsHandler(t *testing.T) {
	t.Parallel()
	var kept []*http.Request
	s := newService(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
		kept = append(kept, r)
		created(w, r)
	})
	for key := range strings.FieldsSeq("a b c") {
		wantFirst(t, s.post(t.Context(), key, payment))
	}
	for _, r := range kept {
		var body [64]byte
		if n, err := r.Body.Read(body[:]); n != 0 || err != http.ErrBodyReadAfterClose { //nolint:errorlint // it is this very one
			t.Errorf("read %q and %v after the handler has returned, want http.ErrBodyReadAfterClose", body[:n], err)
		}
	}
}
