package core_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

type spanKey struct{}

// spanOf is the trace that a test has put into the context.
func spanOf(ctx context.Context) string {
	span, _ := ctx.Value(spanKey{}).(string)
	return span
}

func TestRecordsSayWhereTheyComeFrom(t *testing.T) {
	t.Parallel()
	store := &recording{Store: memstore.New()}
	engine := engineOf(t, store, core.WithInstance("pod-1"), core.WithTrace(spanOf))
	mux := http.NewServeMux()
	mux.Handle("POST /payments", engine.Handler(http.HandlerFunc(created)))
	testkit.Serve(mux, newPost(context.WithValue(t.Context(), spanKey{}, "trace-span"), "k", payment))
	want := storage.Origin{Route: "POST /payments", Holder: "pod-1", KeyHash: event.KeyHash("k"), Trace: "trace-span"}
	if want.Program = store.claims[0].Origin.Program; len(want.Program) != 8 {
		t.Errorf("the claim names the program by %q", want.Program)
	}
	testkit.Equal(t, store.claims[0].Origin, want, "the claim comes from")
	testkit.Equal(t, store.leases[0].Origin, want, "the result comes from")
}

// The records of a call name its function. Stores keep UTF-8 without NUL, and bounded.
func TestOriginFitsIntoARecord(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"charge":                            "charge",
		"a\x00b\xffc":                       "a\uFFFDb\uFFFDc",
		strings.Repeat("a", 300):            strings.Repeat("a", 200),
		strings.Repeat("a", 199) + "\u20AC": strings.Repeat("a", 199),
		strings.Repeat("a", 197) + "\u20AC": strings.Repeat("a", 197) + "\u20AC",
	} {
		store := &recording{Store: memstore.New()}
		engine := engineOf(t, store, core.WithInstance(given), core.WithTrace(func(context.Context) string { return given }))
		_, _, err := core.Do(t.Context(), engine, core.Call{Scope: "s", Name: given, Key: "k"}, func(context.Context) (int, error) { return 1, nil })
		testkit.Must(t, err)
		got, short := store.claims[0].Origin, want[:min(len(want), 100)]
		if got.Route != want || got.Holder != short || got.Trace != short || got.KeyHash != event.KeyHash("k") {
			t.Errorf("%.20q: the origin is %+v, want the route %q and holder and trace %q", given, got, want, short)
		}
		testkit.Equal(t, store.leases[0].Origin.Route, want, "%.20q: the result has the route", given)
	}
}

func TestTraceThatPanics(t *testing.T) {
	t.Parallel()
	seen, store := &events{}, &recording{Store: memstore.New()}
	engine := engineOf(t, store, core.WithObserver(seen), core.WithTrace(func(context.Context) string { panic("a bug") }))
	w := testkit.Serve(engine.Handler(http.HandlerFunc(created)), newPost(t.Context(), "k", payment))
	wantFirst(t, w)
	if store.leases[0].Origin.Trace != "" || seen.count(event.CallbackPanicked) != 1 {
		t.Errorf("the trace is %q, the events are %v", store.leases[0].Origin.Trace, seen.results())
	}
	if text := seen.all[0].ErrorText(); !strings.Contains(text, "the Trace panicked at ") || !strings.Contains(text, "origin_test.go") {
		t.Errorf("the event is %s, want the place of the panic", text)
	}
}

// The store learns how long ago the claim was made, at every call under the lease.
func TestAgeOfALease(t *testing.T) {
	t.Parallel()
	slow := createdAfter(45 * time.Second)
	unreachable := func(s *faultyStore) {
		healed := time.Now().Add(2 * time.Minute)
		s.complete = func(apply func() error) error {
			if time.Now().Before(healed) {
				return errStoreDown
			}
			return apply()
		}
	}
	find := func(context.Context, policy.Abandoned) (*policy.Response, error) {
		advance(2 * time.Second)
		return nil, errors.New("the bank is closed")
	}
	type row struct {
		handle              http.HandlerFunc
		faults              func(*faultyStore)
		options             []policy.Option
		crashed, shutsDown  bool // before the run, and while it claims the key
		completes, renewals int  // at least
	}
	testkit.EachInBubble(t, map[string]row{
		"renewed":           {handle: slow, completes: 1, renewals: 4},
		"settled later":     {handle: slow, faults: unreachable, completes: 3, renewals: 6},
		"left abandoned":    {handle: slow, options: []policy.Option{policy.Keep("4xx"), policy.Uncertain("201")}, renewals: 5},
		"not recovered":     {handle: created, options: []policy.Option{policy.OnAbandoned(policy.Recover(find))}, crashed: true, renewals: 1},
		"given back unused": {handle: created, crashed: true, shutsDown: true, renewals: 1},
	}, func(t *testing.T, c row) {
		inner := newFaultyStore()
		store := &recording{Store: inner}
		if c.crashed {
			crash(t, inner)
			advance(time.Second)
		}
		s := newService(t, store, c.handle, c.options...)
		if c.faults != nil {
			c.faults(inner)
		}
		if c.shutsDown {
			inner.acquire = func(apply func() error) error {
				err := apply()
				go func() { _ = s.Shutdown(context.Background()) }()
				advance(100 * time.Millisecond)
				return err
			}
		}
		s.post(t.Context(), "k", payment)
		advance(5 * time.Minute)
		store.mu.Lock()
		defer store.mu.Unlock()
		if len(store.wrong) > 0 || len(store.leases) < c.completes || len(store.renewed) < c.renewals {
			t.Errorf("%d results and %d renewals, want at least %d and %d; of them with a wrong age: %v",
				len(store.leases), len(store.renewed), c.completes, c.renewals, store.wrong)
		}
	})
}

// The event of a replay names the run whose response is sent, from the store and from a
// run of this process.
func TestReplaysNameTheTraceOfTheirRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, seen := newFaultyStore(), &events{}
		engine := engineOf(t, store, core.WithTrace(spanOf), core.WithObserver(seen))
		handler := engine.Handler(http.HandlerFunc(created))
		send := func(key, span string) {
			testkit.Serve(handler, newPost(context.WithValue(t.Context(), spanKey{}, span), key, payment))
		}
		send("stored", "first")
		send("stored", "second")
		store.set(&store.complete)(failUnapplied)
		send("unsettled", "third")
		send("unsettled", "fourth")
		store.set(&store.complete)(nil)
		advance(time.Second)
		var traces []string
		for _, e := range seen.seen() {
			if e.Result == event.Replay {
				traces = append(traces, e.Trace)
			} else if e.Trace != "" {
				t.Errorf("the event %s has the trace %q, want none", e.Result, e.Trace)
			}
		}
		testkit.Equal(t, strings.Join(traces, " "), "first third", "the replays are of")
	})
}

// ofAnotherProgram is a store as another program uses it: the records have its mark.
type ofAnotherProgram struct{ storage.Store }

func (s ofAnotherProgram) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	c := request.Claim()
	if c.Origin.Program != "" {
		c.Origin.Program = "0ther000"
	}
	return s.Store.Acquire(ctx, c)
}

// Case 75: two services share a store, and neither has a name. The second one reports, once, that it meets the first one's
// records, and names the option. A program that was renamed has its keys still.
func TestTwoServicesWithoutANameAreReported(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	serve := func(store storage.Store, seen *events, options ...core.Option) http.Handler {
		return engineOf(t, store, append(options, core.WithInstance("pod-1"), core.WithObserver(seen))...).Handler(http.HandlerFunc(created))
	}
	send := func(handler http.Handler, key string) *httptest.ResponseRecorder {
		return testkit.Serve(handler, newPost(t.Context(), key, payment))
	}
	var others, own, named events
	other, mine := serve(ofAnotherProgram{store}, &others), serve(store, &own)
	wantFirst(t, send(other, "k1"))
	wantFirst(t, send(other, "k2"))
	wantReplay(t, send(mine, "k1"))
	wantReplay(t, send(mine, "k2"))
	reports := 0
	for _, e := range own.seen() {
		if e.Result != event.WrongSetup {
			continue
		}
		reports++
		if e.Code != "" || e.Holder != "pod-1" || e.Record == "" || !strings.Contains(e.Err.Error(), "core.WithService") {
			t.Errorf("the report is %+v", e)
		}
	}
	testkit.Equal(t, reports, 1, "reports")

	// The records of this program, and those of a service with a name, are no reason for a report.
	wantFirst(t, send(mine, "k3"))
	wantReplay(t, send(mine, "k3"))
	wantFirst(t, send(serve(ofAnotherProgram{store}, &named, core.WithService("payments")), "k4"))
	fresh := serve(store, &named, core.WithService("payments"))
	wantReplay(t, send(fresh, "k4"))
	for _, e := range named.seen() {
		if e.Result == event.WrongSetup {
			t.Errorf("a service with a name reports %v", e.Err)
		}
	}
}
