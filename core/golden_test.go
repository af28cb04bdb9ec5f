package core_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/internal/testkit/golden"
)

// goldenRun is a request, and all that its record has from the engine.
type goldenRun struct {
	Service, Scope, Path, Key, Body string

	Record, Derived, KeyHash string
	Fingerprint              string
	Sketch                   []byte
	Steps                    string // after the step "charge", with the result 7
}

// engine returns an engine for the request, and its store.
func (g *goldenRun) engine(t *testing.T) (*core.Engine, *memstore.Store) {
	t.Helper()
	store := memstore.New()
	var options []core.Option
	if g.Service != "" {
		options = append(options, core.WithService(g.Service))
	}
	engine, err := core.New(store, func(*http.Request) (string, error) { return g.Scope, nil }, options...)
	testkit.Must(t, err)
	return engine, store
}

// serve sends the request to a handler whose step charges, and which returns fails.
func (g *goldenRun) serve(t *testing.T, engine *core.Engine, charge func() (int, error), fails bool) *httptest.ResponseRecorder {
	t.Helper()
	handler := engine.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		charged, err := core.Step(r.Context(), "charge", func(context.Context) (int, error) { return charge() })
		if charged != 7 || err != nil {
			t.Errorf("the step returns %d (%v), want 7", charged, err)
		}
		if fails {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	return testkit.Serve(handler, testkit.Post(t.Context(), g.Path, g.Key, g.Body))
}

// made returns the request with what today's engine makes of it.
func (g *goldenRun) made(t *testing.T) goldenRun {
	t.Helper()
	made := *g
	engine, store := g.engine(t)
	charge := func() (int, error) { return 7, nil }
	made.Record, made.KeyHash = engine.StorageKey(g.Scope, http.MethodPost, g.Path, g.Key), event.KeyHash(g.Key)
	made.Derived = core.DerivedKey(made.Record, "charge")
	g.serve(t, engine, charge, true)
	made.Steps = lookUp(t, store, made.Record).Steps
	g.serve(t, engine, charge, false)
	record := lookUp(t, store, made.Record)
	made.Fingerprint, made.Sketch = record.Fingerprint, record.Sketch
	return made
}

func lookUp(t *testing.T, store *memstore.Store, key string) *storage.Record {
	t.Helper()
	record, err := store.Lookup(t.Context(), key)
	if err != nil || record == nil {
		t.Fatalf("the record of %s is %v (%v)", key, record, err)
	}
	return record
}

// continues expects that a run goes on after the steps of a released version.
func (g *goldenRun) continues(t *testing.T) {
	t.Helper()
	engine, store := g.engine(t)
	lease, _, err := store.Acquire(t.Context(), storage.Claim{
		Key: g.Record, Token: storage.NewToken(), Fingerprint: g.Fingerprint, LockTTL: time.Minute, Retain: time.Hour,
	})
	testkit.Must(t, err)
	lease.Steps = g.Steps
	testkit.Must(t, store.Release(t.Context(), lease))
	charge := func() (int, error) { return 0, errors.New("the step has its result already") }
	if w := g.serve(t, engine, charge, false); w.Code != http.StatusOK {
		t.Errorf("the next attempt gets %d %s, want 200", w.Code, w.Body)
	}
}

// A record of a released version is found by the retry of its request, names the members
// that differ, and continues after its steps.
func TestGoldenRuns(t *testing.T) {
	t.Parallel()
	golden.Each(t, "runs.jsonl", func(t *testing.T) (all []goldenRun) {
		for _, request := range []goldenRun{
			{Scope: "alice", Path: "/payments", Key: "8e03978e-40d5-43dd-bc93-6894a57f9324", Body: `{"amount":10,"to":{"iban":"DE89"}}`},
			{Service: "shop", Scope: "alice", Path: "/payments", Key: "8e03978e-40d5-43dd-bc93-6894a57f9324", Body: `{"amount":10,"to":{"iban":"DE89"}}`},
			{Service: "shop", Scope: "bob@example.com", Path: "/orders/7%2F8", Key: "k", Body: `[{"sku":"a","n":1e2},{"sku":"b","n":null}]`},
		} {
			all = append(all, request.made(t))
		}
		return all
	}, func(t *testing.T, released goldenRun) {
		t.Helper()
		golden.Want(t, released.made(t), released)
		released.continues(t)
	})
}
