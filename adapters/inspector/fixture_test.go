package inspector_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/adapters/inspector"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const prefix = "/ops/idempotency"

const everything = inspector.Read | inspector.Reveal | inspector.Settle

// service is a shop with an inspector. The header Do chooses the outcome of its handler.
type service struct {
	*testing.T
	engine *core.Engine
	mux    *http.ServeMux
	may    inspector.Right
	log    *log
	finish chan struct{} // ends the handlers of slow requests
	begun  chan struct{} // gets one item for each slow request
}

// log keeps the events.
type log struct {
	mu  sync.Mutex
	all []event.Event
}

func (l *log) Observe(_ context.Context, happened event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, happened)
}

func (l *log) of(result event.Result) (found []event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.all {
		if one.Result == result {
			found = append(found, one)
		}
	}
	return found
}

// newService mounts the guarded routes POST /payments and POST /refunds/{id} and the page.
func newService(t *testing.T, store storage.Store, opts ...inspector.Option) *service {
	t.Helper()
	s := &service{T: t, mux: http.NewServeMux(), may: everything, log: new(log), finish: make(chan struct{}), begun: make(chan struct{}, 10)}
	events := inspector.Remember(s.log, 1000)
	alice := core.ScopeBy(func(*http.Request) (string, error) { return "alice", nil })
	engine, err := core.New(store, alice, core.WithObserver(events), core.WithInstance("pod-1"))
	testkit.Must(t, err)
	s.engine = engine
	s.mux.Handle("POST /payments", engine.Handler(http.HandlerFunc(s.handle), policy.OnAbandoned(policy.Refuse), policy.ExcludeFields("nonce")))
	s.mux.Handle("POST /refunds/{id}", engine.Handler(http.HandlerFunc(s.handle)))
	page, err := inspector.New(engine, s.authorize, append([]inspector.Option{inspector.Remembered(events), inspector.Derived("charge")}, opts...)...)
	testkit.Must(t, err)
	s.mux.Handle(prefix+"/", http.StripPrefix(prefix, page))
	t.Cleanup(func() { testkit.Abort(engine) })
	return s
}

func (s *service) authorize(r *http.Request) (inspector.Operator, error) {
	if r.Header.Get("Stranger") != "" {
		return inspector.Operator{}, core.Challenge(`Basic realm="ops"`, errors.New("who is it?"))
	}
	return inspector.Operator{Name: "m.ortiz", May: s.may}, nil
}

func (s *service) handle(w http.ResponseWriter, r *http.Request) {
	switch r.Header.Get("Do") {
	case "uncertain":
		failure.MarkUncertain(r.Context(), "time-out")
		w.WriteHeader(http.StatusBadGateway)
		return
	case "release":
		_, _ = core.Step(r.Context(), "charge", func(context.Context) (string, error) { return "receipt-1", nil })
		w.WriteHeader(http.StatusTooManyRequests)
		return
	case "steps":
		for _, name := range []string{"charge", "ship"} {
			_, _ = core.Step(r.Context(), name, func(context.Context) (string, error) {
				if name == "ship" {
					return "", failure.Uncertain(errUnreachable)
				}
				return "receipt-1", nil
			})
		}
		w.WriteHeader(http.StatusBadGateway)
		return
	case "decline":
		w.WriteHeader(http.StatusPaymentRequired)
		return
	case "text":
		_, _ = io.WriteString(w, "token 4111111111111111")
		return
	case "stream":
		_ = http.NewResponseController(w).Flush()
		return
	case "slow":
		s.begun <- struct{}{}
		<-s.finish
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", "/payments/p1")
	w.Header().Set("X-Account", "acc-secret")
	w.Header().Set("Set-Cookie", "session=hidden")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, `{"id":"p1","card":{"number":"4111111111111111"}}`)
}

const payment = `{"amount":4200,"order":"o-1","nonce":1}`

// pay sends a payment whose handler does something.
func (s *service) pay(key, do string) { s.request("/payments", key, do, payment) }

func (s *service) request(path, key, do, body string) {
	r := testkit.Post(s.Context(), path, key, body)
	r.Header.Set("Do", do)
	testkit.Serve(s.mux, r)
}

// id is the storage key of a payment.
func (s *service) id(key string) string {
	return s.engine.StorageKey("alice", http.MethodPost, "/payments", key)
}

// get and post call the page. A post without a form is nil.
func (s *service) get(path string, header ...string) *httptest.ResponseRecorder {
	return s.call(http.MethodGet, path, nil, header...)
}

func (s *service) post(path string, form url.Values, header ...string) *httptest.ResponseRecorder {
	return s.call(http.MethodPost, path, form, header...)
}

func (s *service) call(method, path string, form url.Values, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(s.Context(), method, prefix+path, strings.NewReader(form.Encode()))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return testkit.Serve(s.mux, r)
}

var acceptsJSON = []string{"Accept", "application/json"}

// read decodes the JSON of a screen.
func read[T any](s *service, w *httptest.ResponseRecorder, status int) (data T) {
	s.Helper()
	if w.Code != status {
		s.Fatalf("the status is %d, want %d: %s", w.Code, status, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &data); err != nil {
		s.Fatalf("%v: %s", err, w.Body)
	}
	return data
}

// recordOf reads a record by JSON.
func (s *service) recordOf(key string) inspector.Record {
	s.Helper()
	return read[inspector.Record](s, s.get("/records/"+s.id(key), acceptsJSON...), http.StatusOK)
}

// wantPage checks the status of a page, and texts in it.
func (s *service) wantPage(w *httptest.ResponseRecorder, status int, texts ...string) {
	s.Helper()
	testkit.Equal(s, w.Code, status, "the status")
	for _, text := range texts {
		if !strings.Contains(w.Body.String(), text) {
			s.Errorf("the page lacks %q:\n%s", text, w.Body)
		}
	}
}

// changedForm is the form of a change by hand, for the first attempt.
func (s *service) changedForm(key, found string) url.Values {
	return url.Values{"found": {found}, "attempt": {"1"}, "why": {"INC-2291"}, "confirm": {s.id(key)[:8]}}
}

// brokenStore is a store whose reads fail.
type brokenStore struct {
	*testkit.Faulty
	storage.Inspector
	err error
}

func newBrokenStore(err error) *brokenStore {
	store := memstore.New()
	return &brokenStore{&testkit.Faulty{Store: store}, store, err}
}

// newIncompleteStore takes no results and no renewals.
func newIncompleteStore() *brokenStore {
	store := newBrokenStore(nil)
	store.Fail(errUnreachable, testkit.Extend, testkit.Complete)
	return store
}

func (b *brokenStore) Lookup(ctx context.Context, key string) (*storage.Record, error) {
	if b.err != nil {
		return nil, b.err
	}
	return b.Inspector.Lookup(ctx, key)
}

func (b *brokenStore) List(ctx context.Context, f storage.Filter, p storage.Page) (storage.Listing, error) {
	if b.err != nil {
		return storage.Listing{}, b.err
	}
	return b.Inspector.List(ctx, f, p)
}

func (b *brokenStore) Check(context.Context) error { return b.err }

func (*brokenStore) Examine(context.Context) []storage.Finding {
	return []storage.Finding{
		{Check: "eviction policy", Grade: storage.Mend, Seen: "allkeys-lru", Advice: "Set noeviction."},
		{Check: "clock", Grade: storage.Good, Seen: "12 ms ahead"},
	}
}

var errUnreachable = fmt.Errorf("redis: dial tcp 10.0.4.7:6379: %w", errors.New("connection refused"))
