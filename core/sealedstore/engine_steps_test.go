package sealedstore_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/sealedstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/policy"
)

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
		if late.runs != 0 {
			t.Errorf("with %s the handler ran", name)
		}
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
