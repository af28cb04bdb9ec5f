package core_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/fingerprint"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// events is an Observer that keeps all events.
type events struct {
	mu  sync.Mutex
	all []event.Event
}

func (e *events) Observe(_ context.Context, event event.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event)
}

// seen returns the events so far.
func (e *events) seen() []event.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.all)
}

func (e *events) results() []event.Result {
	var results []event.Result
	for _, event := range e.seen() {
		results = append(results, event.Result)
	}
	return results
}

func (e *events) count(result event.Result) (n int) {
	for _, r := range e.results() {
		if r == result {
			n++
		}
	}
	return n
}

// last returns the latest event, of one of these results where some are given. It is empty where there is none.
func (e *events) last(of ...event.Result) event.Event {
	for _, happened := range slices.Backward(e.seen()) {
		if len(of) == 0 || slices.Contains(of, happened.Result) {
			return happened
		}
	}
	return event.Event{}
}

// service is an engine with one guarded handler that counts its runs, like one process
// in production.
type service struct {
	*core.Engine
	events  *events
	runs    atomic.Int64
	handler http.Handler
}

// newService guards handle. Several services with one store stand for several processes.
func newService(t *testing.T, store storage.Store, handle http.HandlerFunc, opts ...policy.Option) *service {
	t.Helper()
	return newServiceOf(t, store, handle, opts)
}

// newServiceOf is newService with options of the engine.
func newServiceOf(t *testing.T, store storage.Store, handle http.HandlerFunc, opts []policy.Option, options ...core.Option) *service {
	t.Helper()
	s := &service{events: &events{}}
	s.Engine = engineFor(t, store, core.ScopeBy(bearer), append(options, core.WithObserver(s.events))...)
	s.handler = s.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.runs.Add(1)
		handle(w, r)
	}), opts...)
	return s
}

// engineOf returns an engine for one scope. It drops its events, unless an option has an observer.
func engineOf(t *testing.T, store storage.Store, options ...core.Option) *core.Engine {
	t.Helper()
	return engineFor(t, store, core.SharedScope, append([]core.Option{core.WithObserver(discarded{})}, options...)...)
}

// engineFor returns an engine whose background work ends with the test.
func engineFor(t *testing.T, store storage.Store, scope core.Scope, options ...core.Option) *core.Engine {
	t.Helper()
	engine, err := core.New(store, scope, options...)
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Abort(engine) })
	return engine
}

func shutdown(t *testing.T, s testkit.Shutter) {
	t.Helper()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown returned %v", err)
	}
}

func bearer(r *http.Request) (string, error) {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), nil
}

// post sends a payment under a key and returns the response.
func (s *service) post(ctx context.Context, key, body string) *httptest.ResponseRecorder {
	return testkit.Serve(s.handler, newPost(ctx, key, body))
}

func newPost(ctx context.Context, key, body string) *http.Request {
	r := testkit.Post(ctx, "/payments", key, body)
	r.Header.Set("Authorization", "Bearer alice")
	return r
}

// advance lets d pass in a synctest bubble, where it takes no time.
func advance(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // the bubble's clock, not the machine's

// digestOf is the digest of newPost's request with this body.
func digestOf(body string) storage.Digest {
	return fingerprint.Digest(fingerprint.Request{
		Method: http.MethodPost, Path: "/payments", ContentType: "application/json", Body: []byte(body),
	})
}

const payment = `{"amount":100}`

func created(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write([]byte(`{"payment_id":"p1"}`))
}

// createdAfter is created after some time, whatever becomes of its context.
func createdAfter(d time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		advance(d)
		created(w, r)
	}
}

// createdOnce is created once a channel is closed, or has a value.
func createdOnce(ready <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		<-ready
		created(w, r)
	}
}

// createdAsStream is created with a response that streams.
func createdAsStream(w http.ResponseWriter, r *http.Request) {
	created(w, r)
	_ = http.NewResponseController(w).Flush()
}

// streaming begins a stream, and sends nothing.
func streaming(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush() }

func responding(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

// recovering is a policy whose RecoverFunc returns a response, or nil where it found no effect.
func recovering(found *policy.Response, err error) policy.Option {
	return policy.OnAbandoned(policy.Recover(
		func(context.Context, policy.Abandoned) (*policy.Response, error) { return found, err }))
}

// lookingInto is a policy whose RecoverFunc calls look, and found no effect.
func lookingInto(look func(ctx context.Context, a policy.Abandoned)) policy.Option {
	return policy.OnAbandoned(policy.Recover(func(ctx context.Context, a policy.Abandoned) (*policy.Response, error) {
		look(ctx, a)
		return nil, nil //nolint:nilnil // a RecoverFunc that found no effect
	}))
}

// recovered calls a function, and returns the value that it panics with.
func recovered(call func()) (value any) {
	defer func() { value = recover() }()
	call()
	return nil
}

// wantCode checks a problem's status and code.
func wantCode(t *testing.T, w *httptest.ResponseRecorder, status int, code string) {
	t.Helper()
	if w.Code != status || !strings.Contains(w.Body.String(), `"code":"`+code+`"`) {
		t.Errorf("got %d %s, want %d with code %s", w.Code, w.Body, status, code)
	}
}

// wantReplay checks that the response of created was replayed.
func wantReplay(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Code != http.StatusCreated || w.Body.String() != `{"payment_id":"p1"}` || w.Header().Get("X-Idempotent-Replay") != "true" {
		t.Errorf("got %d %v %s, want the replay of the first response", w.Code, w.Header(), w.Body)
	}
}

// wantFirst checks that the response of created came from its handler.
func wantFirst(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Code != http.StatusCreated || w.Body.String() != `{"payment_id":"p1"}` || w.Header().Get("X-Idempotent-Replay") != "" {
		t.Errorf("got %d %v %s, want a first response", w.Code, w.Header(), w.Body)
	}
}

func (s *service) wantRuns(t *testing.T, n int64) {
	t.Helper()
	testkit.Equal(t, s.runs.Load(), n, "runs of the handler")
}

func (s *service) wantEvent(t *testing.T, result event.Result, n int) {
	t.Helper()
	if got := s.events.count(result); got != n {
		t.Errorf("%d events %s, want %d: %v", got, result, n, s.events.results())
	}
}
