package core_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
)

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
		w := sendTo(handler, newPost(t.Context(), key, payment))
		return w
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
	if reports != 1 {
		t.Errorf("%d reports, want 1", reports)
	}

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
