package sealedstore_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/sealedstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// pod is a process with a handler that counts its runs.
type pod struct {
	handler http.Handler
	runs    int
}

func newPod(t *testing.T, store storage.Store, options ...policy.Option) *pod {
	t.Helper()
	p := &pod{}
	p.handler = guarded(t, store, func(w http.ResponseWriter, r *http.Request) {
		p.runs++
		w.Header().Set("Location", "/payments/1")
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, "paid "+r.URL.Path)
		if r.URL.Path == "/stream" {
			_ = http.NewResponseController(w).Flush()
		}
	}, options...)
	return p
}

// guarded is a handler behind an engine that ends its work after the test. It explains differences.
func guarded(t *testing.T, store storage.Store, handler http.HandlerFunc, options ...policy.Option) http.Handler {
	t.Helper()
	engine, err := core.New(store, core.SharedScope, core.WithDiffers(), core.WithObserver(event.Log(slog.New(slog.DiscardHandler))))
	must(t, err)
	t.Cleanup(func() { testkit.End(t, engine) })
	return engine.Handler(handler, options...)
}

// expect posts a body and compares status, replay mark and response.
func (p *pod) expect(t *testing.T, path, body string, status int, response string) {
	t.Helper()
	header := post(t, p.handler, path, body, status, response)
	if retry := header.Get("Retry-After"); status == http.StatusServiceUnavailable && retry == "" {
		t.Errorf("POST %s got no Retry-After", path)
	}
	if location := header.Get("Location"); status == http.StatusCreated && location != "/payments/1" {
		t.Errorf("POST %s got the Location %q", path, location)
	}
}

// post posts a body, compares status and response, and returns the response's header.
func post(t *testing.T, handler http.Handler, path, body string, status int, response string) http.Header {
	t.Helper()
	w := testkit.Serve(handler, testkit.Post(t.Context(), path, "key", body))
	if w.Code != status || !strings.Contains(w.Body.String(), response) {
		t.Errorf("POST %s got %d %s, want %d and %q", path, w.Code, w.Body, status, response)
	}
	return w.Header()
}

// Whatever is wrong with the seal, a finished request never runs again and its
// ciphertext is never shown.
func TestEngineNeverRunsWhatItCannotOpen(t *testing.T) {
	t.Parallel()
	for _, mode := range []policy.StoreErrorMode{policy.FailClosed, policy.FailOpen} {
		next, aead := memstore.New(), newMoody()
		first := newPod(t, sealedstore.New(next, aead), policy.OnStoreError(mode))
		first.expect(t, "/", "{}", http.StatusCreated, "paid /")
		first.expect(t, "/", "{}", http.StatusCreated, "paid /")
		first.expect(t, "/", "[]", http.StatusUnprocessableEntity, "key_reused")
		unreachable := func() error { return sealedstore.ErrUnavailable }
		aead.set(nil, opaque)
		first.expect(t, "/", "{}", http.StatusServiceUnavailable, "store_unavailable")
		aead.set(nil, unreachable)
		first.expect(t, "/", "{}", http.StatusServiceUnavailable, "store_unavailable")
		aead.set(nil, nil)
		first.expect(t, "/", "{}", http.StatusCreated, "paid /")
		testkit.Equal(t, first.runs, 1, "%s: runs of the handler", mode)
		for name, other := range map[string]storage.Store{
			"another key": sealedstore.New(next, newGCM(2)), "no seal": next, "a new process without its key service": sealedstore.New(next, withMood(unreachable, unreachable)),
		} {
			late := newPod(t, other, policy.OnStoreError(mode))
			late.expect(t, "/", "{}", http.StatusServiceUnavailable, "store_unavailable")
			testkit.Equal(t, late.runs, 0, "%s: with %s the handler ran again", mode, name)
		}
	}
}

// A record without a response means the same with and without the seal.
func TestUnreplayableWithoutTheSeal(t *testing.T) {
	t.Parallel()
	next := memstore.New()
	newPod(t, sealedstore.New(next, newGCM(1))).expect(t, "/stream", "{}", http.StatusCreated, "paid /stream")
	for _, store := range []storage.Store{sealedstore.New(next, newGCM(1)), next} {
		late := newPod(t, store)
		late.expect(t, "/stream", "{}", http.StatusConflict, "not_replayable")
		late.expect(t, "/stream", "[]", http.StatusUnprocessableEntity, "key_reused")
		testkit.Equal(t, late.runs, 0, "the handler ran again")
	}
}

// A difference is explained by the sealed sketch as by a plain one.
func TestSealedSketchExplains(t *testing.T) {
	t.Parallel()
	p := newPod(t, sealedstore.New(memstore.New(), newGCM(1)))
	p.expect(t, "/", `{"amount":1}`, http.StatusCreated, "")
	p.expect(t, "/", `{"amount":2}`, http.StatusUnprocessableEntity, `"differs":["amount"]`)
}

// stepper is a process whose handler charges in a step, and then fails until it is healed.
type stepper struct {
	handler       http.Handler
	runs, charges int
	healed        bool
}

func newStepper(t *testing.T, store storage.Store, options ...policy.Option) *stepper {
	t.Helper()
	p := &stepper{}
	p.handler = guarded(t, store, func(w http.ResponseWriter, r *http.Request) {
		p.runs++
		receipt, err := core.Step(r.Context(), "charge", func(context.Context) (string, error) {
			p.charges++
			return "plain receipt", nil
		})
		if err != nil || !p.healed {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		io.WriteString(w, receipt)
	}, options...)
	return p
}

// The next attempt gets the step back. A process that cannot open it runs nothing, and
// another one can go on at once.
func TestEngineContinuesFromSealedSteps(t *testing.T) {
	t.Parallel()
	for _, mode := range []policy.StoreErrorMode{policy.FailClosed, policy.FailOpen} {
		synctest.Test(t, func(t *testing.T) { continuesFromSealedSteps(t, policy.OnStoreError(mode)) })
	}
}

func continuesFromSealedSteps(t *testing.T, mode policy.Option) {
	next, aead := memstore.New(), newMoody()
	first := newStepper(t, sealedstore.New(next, aead), mode)
	post(t, first.handler, "/", "{}", http.StatusBadGateway, "")
	page, err := next.List(t.Context(), storage.Filter{States: []storage.State{storage.Released}}, storage.Page{Limit: 10})
	must(t, err)
	if len(page.Entries) != 1 {
		t.Fatalf("the next store has %v, want the steps of one run", page)
	}
	if r, err := next.Lookup(t.Context(), page.Entries[0].Key); err != nil || !strings.HasPrefix(r.Steps, "sealed ") || strings.Contains(r.Steps, "charge") {
		t.Errorf("the next store has the steps %q, %v", r.Steps, err)
	}
	for name, other := range map[string]storage.Store{"another key": sealedstore.New(next, newGCM(2)), "no seal": next} {
		late := newStepper(t, other, mode)
		post(t, late.handler, "/", "{}", http.StatusServiceUnavailable, "store_unavailable")
		testkit.Equal(t, late.runs, 0, "with %s the handler ran", name)
		synctest.Wait() // the unused claim is given back in the background
	}
	second := newStepper(t, sealedstore.New(next, aead), mode)
	second.healed = true
	post(t, second.handler, "/", "[]", http.StatusUnprocessableEntity, "key_reused")
	post(t, second.handler, "/", "{}", http.StatusOK, "plain receipt")
	if first.charges+second.charges != 1 || second.runs != 1 {
		t.Errorf("%d charges and %d second runs, want one and one", first.charges+second.charges, second.runs)
	}
}
