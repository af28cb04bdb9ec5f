package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
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

var errStoreDown = errors.New("connection refused")

// faultyStore is a store whose calls fail on a test's request, and whose transactions are
// never committed.
type faultyStore struct {
	*testkit.Faulty
	storage.Inspector
}

// newFaultyStore takes a millisecond for a claim and for a response, as for a round trip.
func newFaultyStore(store storage.Store, inspector storage.Inspector) *faultyStore {
	return &faultyStore{&testkit.Faulty{Store: store, Before: func(method testkit.Method) {
		if method == testkit.Acquire || method == testkit.Complete {
			advance(time.Millisecond)
		}
	}}, inspector}
}

func (s *faultyStore) BeginTransaction(ctx context.Context, _ storage.Lease) (context.Context, storage.Transaction, error) { //nolint:unparam // the interface has the results
	return storage.WithTransaction(ctx, uncommitted{}), uncommitted{}, nil
}

func (s *faultyStore) Admit(ctx context.Context, p storage.Place, ttl time.Duration, limit storage.ScopeLimit) (storage.Admission, error) {
	return s.Store.(storage.Limiter).Admit(ctx, p, ttl, limit)
}

func (s *faultyStore) Keep(ctx context.Context, p storage.Place, ttl time.Duration) error {
	return s.Store.(storage.Limiter).Keep(ctx, p, ttl)
}

type uncommitted struct{}

func (uncommitted) Commit(context.Context, storage.Lease, storage.Result) error { return errStoreDown }
func (uncommitted) Rollback(context.Context) error                              { return nil }

// advance moves a synctest bubble's clock by d.
func advance(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // the bubble's clock, not the machine's

func (s *service) post(target, key, body string) {
	r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(body))
	if key != "" {
		r.Header.Set(core.KeyHeader, key)
	}
	s.mux.ServeHTTP(httptest.NewRecorder(), r)
}

// perMinute is more than the new keys of a scenario, but for those of flood.
const perMinute = 100

// startService is the program's service on a store, in a bubble.
func startService(t *testing.T, store storage.Store) *service {
	t.Helper()
	s, err := newService(store, func() int { return 0 }, core.WithScopeLimit(core.ScopeLimit{PerMinute: perMinute}))
	testkit.Must(t, err)
	t.Cleanup(s.kill)
	return s
}

// kill ends the background work at once.
func (s *service) kill() {
	testkit.Abort(s.engine)
}

// everythingHappens runs the program's service until it has had every kind of event, and
// returns the exported metrics.
func everythingHappens(t *testing.T) (all exported) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		records := memstore.New()
		store := newFaultyStore(records, records)
		s := startService(t, store)
		s.dailyLife()
		s.declarations()
		s.flood()
		s.brokenStore(store)
		s.longRuns(store)
		s.abandoned(t, store)
		s.byHand(t)
		s.reconciles(t)
		s.shutsDown(t)
		all = scrape(t, s) // leaves the bubble: names and numbers
	})
	return all
}

// shutsDown ends the engine, and requests go on for a moment.
func (s *service) shutsDown(t *testing.T) {
	t.Helper()
	testkit.Must(t, s.engine.Shutdown(t.Context()))
	s.post("/payments", "late", "1")
}

// healthy returns the metrics of a service without a fault.
func healthy(t *testing.T) (all exported) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := startService(t, newFaultyStore(memstore.New(), nil))
		s.post("/payments", "k", "1")
		s.post("/payments", "k", "1")
		all = scrape(t, s) // leaves the bubble: names and numbers
	})
	return all
}

// byHand has an operator settle a key, read a response and remove it.
func (s *service) byHand(t *testing.T) {
	t.Helper()
	inspector, err := s.engine.Inspector()
	testkit.Must(t, err)
	by := core.ByHand{Operator: "m.ortiz", Reason: "INC-2291"}
	shared, err := core.SharedScope(nil)
	testkit.Must(t, err)
	paid := s.engine.StorageKey(shared, http.MethodPost, "/payments", "slow")
	_, revealed := inspector.Reveal(t.Context(), paid, by)
	_, forgotten := inspector.Forget(t.Context(), paid, 1, storage.RerunIsSafe, by)
	settled := inspector.Settle(t.Context(), s.engine.StorageKey(shared, http.MethodPost, "/uncertain", "k"), 1, storage.Happened, by)
	testkit.Must(t, errors.Join(revealed, forgotten, settled))
}

// reconciles asks about two abandoned keys, and knows one outcome.
func (s *service) reconciles(t *testing.T) {
	t.Helper()
	s.post("/uncertain", "known", "1")
	s.post("/uncertain", "unknown", "1")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	asked := 0
	find := func(context.Context, core.Lost) (core.Finding, error) {
		if asked++; asked == 1 {
			return core.Happened, nil
		}
		return core.AskAgain, nil
	}
	testkit.Must(t, s.engine.Reconcile(ctx, find, core.ReconcileOptions{After: 10 * time.Second, Every: time.Second, MaxAttempts: 2, Concurrency: 1}))
}

func (s *service) dailyLife() {
	s.post("/payments", "k", "1")
	s.post("/payments", "k", "1")
	s.post("/payments", "k", "2")
	s.post("/payments", "", "1")
	for _, card := range []string{"declined", "taken", "broken"} {
		s.post("/payments?card="+card, card, "1")
	}
	var group sync.WaitGroup
	group.Go(func() { s.post("/payments?card=slow", "slow", "1") })
	advance(time.Second)
	s.post("/payments?card=slow", "slow", "1")
	group.Wait()
	s.post("/refunds", "k", "1")
	s.post("/refunds", "k", "1")
}

// declarations are routes that the program does not have.
func (s *service) declarations() {
	stream := func(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush() }
	s.guard("POST /streams", stream)
	s.post("/streams", "k", "1")
	s.post("/streams", "k", "1")
	s.guard("POST /optional", s.pay, policy.Required(false))
	s.post("/optional", "", "1")
	s.guard("POST /nested", s.engine.Handler(http.HandlerFunc(s.pay)).ServeHTTP)
	s.post("/nested", "k", "1")
	s.guard("POST /misjudged", func(http.ResponseWriter, *http.Request) {}, policy.Classifier(func(failure.Outcome) failure.Class { panic("a bug") }))
	s.post("/misjudged", "k", "1")
	s.guard("POST /transfers", s.pay, policy.Transactional(true))
	s.post("/transfers", "k", "1")
	advance(time.Second)
}

// flood sends more new keys than the service takes in a minute.
func (s *service) flood() {
	s.guard("POST /flooded", s.pay)
	for n := range perMinute + 1 {
		s.post("/flooded", fmt.Sprint(n), "1")
	}
	advance(time.Minute)
}

func (s *service) brokenStore(store *faultyStore) {
	s.guard("POST /open", s.pay, policy.OnStoreError(policy.FailOpen))
	store.While(errStoreDown, testkit.Acquire, func() {
		s.post("/payments", "unavailable", "1")
		s.post("/open", "unprotected", "1")
	})
	store.While(storage.ErrCorruptRecord, testkit.Acquire, func() { s.post("/payments", "corrupt", "1") })
	store.While(errStoreDown, testkit.Complete, func() {
		s.post("/payments", "lost", "1")
		advance(2 * time.Hour) // more than the settle budget
		s.post("/payments", "deferred", "1")
	})
	advance(time.Minute)
}

func (s *service) longRuns(store *faultyStore) {
	s.guard("POST /endless", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	s.post("/endless", "too-long", "1")
	store.While(core.ErrLeaseLost, testkit.Extend, func() { s.post("/endless", "lost", "1") })
}

// abandoned makes a process die in its handler.
func (s *service) abandoned(t *testing.T, store *faultyStore) {
	t.Helper()
	unreachable := newFaultyStore(store, nil)
	unreachable.Fail(errStoreDown, testkit.Complete, testkit.Release, testkit.Extend)
	dead := startService(t, unreachable)
	dead.guard("POST /recovered", s.pay)
	dead.post("/recovered", "k", "1")
	dead.kill()
	advance(time.Minute)
	bank := func(context.Context, policy.Abandoned) (*policy.Response, error) {
		return nil, errors.New("the bank is closed")
	}
	s.guard("POST /recovered", s.pay, policy.OnAbandoned(policy.Recover(bank)))
	s.post("/recovered", "k", "1")
	s.guard("POST /skipped", s.pay, policy.SkipIf(func(*http.Request) bool { return true }))
	s.post("/skipped", "k", "1")
	s.guard("POST /remembered", s.pay, policy.TTLHours(1), policy.RememberHours(1))
	s.post("/remembered", "k", "1")
	advance(time.Hour)
	s.post("/remembered", "k", "1")
	s.guard("POST /uncertain", func(w http.ResponseWriter, r *http.Request) {
		failure.MarkUncertain(r.Context(), "the bank timed out")
		w.WriteHeader(http.StatusGatewayTimeout)
	})
	s.post("/uncertain", "k", "1")
}

// The scenario includes every kind of event, so the checks of dashboard and alerts cover
// all metrics.
func TestEverythingHappens(t *testing.T) {
	t.Parallel()
	var happened []string
	for _, labels := range everythingHappens(t) {
		happened = append(happened, labels["idempotency_result"]...)
	}
	source, err := os.ReadFile("../../core/event/event.go")
	testkit.Must(t, err)
	results := regexp.MustCompile(`(?m)^\t\w+\s+Result = "(\w+)"`).FindAllSubmatch(source, -1)
	if len(results) < 20 {
		t.Fatalf("found %d results in core/event/event.go", len(results))
	}
	for _, result := range results {
		if !slices.Contains(happened, string(result[1])) {
			t.Errorf("no event %s came of the scenario", result[1])
		}
	}
}
