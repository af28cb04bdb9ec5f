package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

const (
	acme    = "/webhooks/acme"
	initech = "/webhooks/initech"
	paid    = `{"id":"evt_1","type":"invoice.paid","data":{"order":"o-1"}}`
	lock    = 30 * time.Second // the policy's default LockTTL
)

// fixture is an endpoint of its own. A test may set ship and mail before it delivers.
type fixture struct {
	*endpoint
	warehouse *warehouse
	webhook   *standardwebhooks.Webhook
}

// newFixture returns an endpoint on the store. Endpoints on one store are processes of one
// service.
func newFixture(t *testing.T, store storage.Store, w *warehouse) *fixture {
	t.Helper()
	webhook, err := standardwebhooks.NewWebhook(secret)
	testkit.Must(t, err)
	e, err := newEndpoint(store, secret, w.ship, func(string) {})
	testkit.Must(t, err)
	t.Cleanup(func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Second)
		defer cancel()
		_ = e.Shutdown(ending) // a crashed process leaves an unsettled run
	})
	return &fixture{e, w, webhook}
}

// deliver makes one delivery, signed now.
func (f *fixture) deliver(t *testing.T, path, id, body string) *httptest.ResponseRecorder {
	t.Helper()
	request, err := signed(t.Context(), f.webhook, "http://shop.example"+path, id, body)
	testkit.Must(t, err)
	return f.serve(request)
}

func (f *fixture) serve(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w
}

func (f *fixture) wantCalls(t *testing.T, want int) {
	t.Helper()
	if calls, shipments := f.warehouse.count(); calls != want || shipments > 1 {
		t.Errorf("%d calls to the warehouse and %d shipments, want %d calls and at most one shipment", calls, shipments, want)
	}
}

func want(t *testing.T, w *httptest.ResponseRecorder, status int, body string, replayed bool) {
	t.Helper()
	if marker := w.Header().Get("X-Idempotent-Replay"); w.Code != status || !strings.Contains(w.Body.String(), body) || marker == "true" != replayed {
		t.Errorf("got %d %q, replay %q; want %d %q, replay %t", w.Code, w.Body, marker, status, body, replayed)
	}
}

// advance moves the fake clock of testing/synctest.
func advance(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // within testing/synctest

func TestDuplicateGetsTheStoredResponse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, memstore.New(), &warehouse{})
		want(t, f.deliver(t, acme, "msg_1", paid), http.StatusOK, "shipment 1\n", false)
		advance(76 * time.Hour) // the last redelivery, with a new timestamp and signature
		want(t, f.deliver(t, acme, "msg_1", paid), http.StatusOK, "shipment 1\n", true)
		f.wantCalls(t, 1)
	})
}

// A person sends the event again: webhook-id and the member delivery are new, the id of
// the event is not.
func TestKeyFromTheBody(t *testing.T) {
	t.Parallel()
	f := newFixture(t, memstore.New(), &warehouse{})
	again := strings.TrimSuffix(paid, "}") + `,"delivery":{"attempt":2}}`
	want(t, f.deliver(t, initech, "msg_1", paid), http.StatusOK, "shipment 1\n", false)
	want(t, f.deliver(t, initech, "msg_2", again), http.StatusOK, "shipment 1\n", true)
	want(t, f.deliver(t, initech, "msg_3", strings.Replace(again, "o-1", "o-2", 1)), http.StatusUnprocessableEntity, problem.KeyReused, false)
	want(t, f.deliver(t, initech, "msg_4", `{"type":"invoice.paid"}`), http.StatusBadRequest, problem.KeyMissing, false)
	f.wantCalls(t, 1)
}

func TestTwoDeliveriesAtOnce(t *testing.T) {
	t.Parallel()
	type row struct {
		runs   time.Duration
		status int // of the second delivery
	}
	testkit.EachInBubble(t, map[string]row{
		"in time":  {4 * time.Second, http.StatusOK},
		"too slow": {20 * time.Second, http.StatusConflict},
	}, func(t *testing.T, row row) {
		f := newFixture(t, memstore.New(), &warehouse{})
		f.ship = func(ctx context.Context, key, order string) (int, error) {
			advance(row.runs)
			return f.warehouse.ship(ctx, key, order)
		}
		var first *httptest.ResponseRecorder
		var running sync.WaitGroup
		running.Go(func() { first = f.deliver(t, acme, "msg_1", paid) })
		synctest.Wait()
		second := f.deliver(t, acme, "msg_1", paid)
		running.Wait()
		want(t, first, http.StatusOK, "shipment 1\n", false)
		if row.status == http.StatusOK {
			want(t, second, http.StatusOK, "shipment 1\n", true)
		} else {
			want(t, second, http.StatusConflict, problem.InProgress, false)
			if second.Header().Get("Retry-After") == "" {
				t.Error("the second delivery got no Retry-After")
			}
		}
		want(t, f.deliver(t, acme, "msg_1", paid), http.StatusOK, "shipment 1\n", true)
		f.wantCalls(t, 1)
	})
}

// A process ships, and dies before its response is stored. Another process takes the event
// over, and asks the warehouse with the same key.
func TestCrashInTheMiddle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, shared := memstore.New(), &warehouse{}
		dying := &testkit.Faulty{Store: store}
		first, second := newFixture(t, dying, shared), newFixture(t, store, shared)
		first.mail = func(string) {
			dying.Fail(errors.New("the process is dead"), testkit.Complete, testkit.Release, testkit.Extend)
			advance(2 * lock)
		}
		var running sync.WaitGroup
		running.Go(func() { first.deliver(t, acme, "msg_1", paid) })
		synctest.Wait()
		want(t, second.deliver(t, acme, "msg_1", paid), http.StatusConflict, problem.InProgress, false)
		advance(lock)
		want(t, second.deliver(t, acme, "msg_1", paid), http.StatusOK, "shipment 1\n", false)
		want(t, second.deliver(t, acme, "msg_1", paid), http.StatusOK, "shipment 1\n", true)
		second.wantCalls(t, 2) // and one shipment
		running.Wait()
	})
}

func TestForgedDelivery(t *testing.T) {
	t.Parallel()
	other, err := standardwebhooks.NewWebhookRaw([]byte("another secret"))
	testkit.Must(t, err)
	for name, row := range map[string]struct {
		change func(*testing.T, *http.Request)
		status int
	}{
		"no id":             {func(_ *testing.T, r *http.Request) { r.Header.Del("webhook-id") }, http.StatusBadRequest},
		"no signature":      {func(_ *testing.T, r *http.Request) { r.Header.Del("webhook-signature") }, http.StatusBadRequest},
		"no timestamp":      {func(_ *testing.T, r *http.Request) { r.Header.Del("webhook-timestamp") }, http.StatusBadRequest},
		"a wrong timestamp": {func(_ *testing.T, r *http.Request) { r.Header.Set("webhook-timestamp", "today") }, http.StatusBadRequest},
		"another id":        {func(_ *testing.T, r *http.Request) { r.Header.Set("webhook-id", "msg_2") }, http.StatusUnauthorized},
		"another body":      {func(_ *testing.T, r *http.Request) { r.Body = io.NopCloser(strings.NewReader(`{}`)) }, http.StatusUnauthorized},
		"another secret":    {func(t *testing.T, r *http.Request) { t.Helper(); sign(t, r, other, time.Now()) }, http.StatusUnauthorized},
		"six minutes old": {func(t *testing.T, r *http.Request) {
			t.Helper()
			sign(t, r, nil, time.Now().Add(-6*time.Minute))
		}, http.StatusUnauthorized},
	} {
		for _, path := range []string{acme, initech} {
			t.Run(name+" "+path, func(t *testing.T) {
				t.Parallel()
				store := memstore.New()
				f := newFixture(t, store, &warehouse{})
				request, err := signed(t.Context(), f.webhook, "http://shop.example"+path, "msg_1", paid)
				testkit.Must(t, err)
				row.change(t, request)
				if got := f.serve(request); got.Code != row.status {
					t.Errorf("got %d %q, want %d", got.Code, got.Body, row.status)
				}
				f.wantCalls(t, 0)
				wantNoRecord(t, store)
				want(t, f.deliver(t, path, "msg_1", paid), http.StatusOK, "shipment 1\n", false)
			})
		}
	}
}

// sign signs the event paid again.
func sign(t *testing.T, r *http.Request, webhook *standardwebhooks.Webhook, at time.Time) {
	t.Helper()
	if webhook == nil {
		var err error
		if webhook, err = standardwebhooks.NewWebhook(secret); err != nil {
			t.Fatal(err)
		}
	}
	signature, err := webhook.Sign(r.Header.Get("webhook-id"), at, []byte(paid))
	testkit.Must(t, err)
	r.Header.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
	r.Header.Set("webhook-signature", signature)
}

func wantNoRecord(t *testing.T, store storage.Inspector) {
	t.Helper()
	for _, state := range []storage.State{storage.InProgress, storage.Completed, storage.Failed, storage.Unreplayable} {
		if page, err := store.List(t.Context(), storage.Filter{States: []storage.State{state}}, storage.Page{Limit: 10}); err != nil || len(page.Entries) > 0 {
			t.Errorf("the store has %d records in state %v, %v", len(page.Entries), state, err)
		}
	}
}

func TestLargeEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t, memstore.New(), &warehouse{})
	want(t, f.deliver(t, acme, "msg_1", strings.Repeat(" ", maxEvent)+"{}"), http.StatusRequestEntityTooLarge, "", false)
}

func TestChangedEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t, memstore.New(), &warehouse{})
	want(t, f.deliver(t, acme, "msg_1", paid), http.StatusOK, "shipment 1\n", false)
	want(t, f.deliver(t, acme, "msg_1", strings.Replace(paid, "o-1", "o-2", 1)), http.StatusUnprocessableEntity, problem.KeyReused, false)
	f.wantCalls(t, 1)
}

// After the response is gone, the sender learns that the event was handled. Another event
// under the id is still refused.
func TestLateRedelivery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, memstore.New(), &warehouse{})
		want(t, f.deliver(t, acme, "msg_1", paid), http.StatusOK, "shipment 1\n", false)
		advance(96 * time.Hour)
		want(t, f.deliver(t, acme, "msg_1", paid), http.StatusOK, "handled before: key_expired\n", false)
		advance(30*24*time.Hour - time.Second)
		want(t, f.deliver(t, acme, "msg_1", paid), http.StatusOK, "handled before: key_expired\n", false)
		want(t, f.deliver(t, acme, "msg_1", strings.Replace(paid, "o-1", "o-2", 1)), http.StatusUnprocessableEntity, problem.KeyReused, false)
		f.wantCalls(t, 1)
	})
}

// An event that was refused is not stored: the next delivery runs the handler again. After
// an uncertain call the handler uses the same key.
func TestRefusedEventIsDeliveredAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, memstore.New(), &warehouse{})
	ship := f.ship
	f.ship = func(ctx context.Context, key, order string) (int, error) {
		f.ship = ship
		_, err := ship(ctx, key, order)
		return 0, errors.Join(err, errors.New("the reply got lost"))
	}
	want(t, f.deliver(t, acme, "msg_1", paid), http.StatusBadGateway, "no response", false)
	want(t, f.deliver(t, acme, "msg_1", paid), http.StatusOK, "shipment 1\n", false)
	f.wantCalls(t, 2) // and one shipment

	for range 2 { // no replay
		want(t, f.deliver(t, acme, "msg_2", `"no event"`), http.StatusBadRequest, "not an event", false)
	}
	want(t, f.deliver(t, acme, "msg_3", `{"type":"invoice.sent"}`), http.StatusNoContent, "", false)
	want(t, f.deliver(t, acme, "msg_3", `{"type":"invoice.sent"}`), http.StatusNoContent, "", true)
}

// A bug after the shipment: the sender stops, and the order does not ship again.
func TestPanicAfterTheShipment(t *testing.T) {
	t.Parallel()
	f := newFixture(t, memstore.New(), &warehouse{})
	f.mail = func(string) { panic("a bug after the shipment") }
	func() {
		defer func() { _ = recover() }() // as the server does
		f.deliver(t, acme, "msg_1", paid)
	}()
	want(t, f.deliver(t, acme, "msg_1", paid), http.StatusOK, "handled before: handler_failed\n", true)
	f.wantCalls(t, 1)
}

// A sender stops at 2xx, and disables an endpoint that responds with 410.
func TestWhatSendersAreTold(t *testing.T) {
	t.Parallel()
	handled := map[string]bool{problem.KeyExpired: true, problem.NotReplayable: true, problem.HandlerFailed: true}
	for _, code := range problem.Codes() {
		p, w := problem.New(code, ""), httptest.NewRecorder()
		writeProblem(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, acme, http.NoBody), *p)
		status := p.Status
		if handled[code] {
			status = http.StatusOK
		}
		if w.Code != status || !strings.Contains(w.Body.String(), code) || !handled[code] && w.Code < 400 || w.Code == http.StatusGone {
			t.Errorf("%s: got %d %q, want %d", code, w.Code, w.Body, status)
		}
	}
}

func TestSecretIsRequired(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{"", "whsec_not base64"} {
		if _, err := newEndpoint(memstore.New(), wrong, (&warehouse{}).ship, func(string) {}); err == nil {
			t.Errorf("the secret %q is accepted", wrong)
		}
	}
}
