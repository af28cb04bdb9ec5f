package examples_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/examples/internal/browsertest"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
)

// scripts are the snippets of docs/clients.md for a page: a client, and the code that keeps its key.
func scripts(t *testing.T) (client, keepKey string) {
	t.Helper()
	blocks := readPage(t, "../docs/clients.md").blocks("js")
	if len(blocks) != 2 || strings.Count(blocks[0], "\n") > 30 {
		t.Fatalf("docs/clients.md has %d scripts, want two, the first one of at most 30 lines", len(blocks))
	}
	return blocks[0], blocks[1]
}

// CORS lets the pages of an origin call the service. It stands outside the guard, so that
// problems and replays have its headers too, and they are not stored.
func CORS(origin string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Access-Control-Allow-Origin", origin)
		header.Add("Vary", "Origin")
		header.Set("Access-Control-Expose-Headers", "Retry-After, X-Idempotent-Replay") // else the page cannot read them
		if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
			next.ServeHTTP(w, r)
			return
		}
		header.Set("Access-Control-Allow-Methods", "POST")
		header.Set("Access-Control-Allow-Headers", "Content-Type, Idempotency-Key")
		header.Set("Access-Control-Max-Age", "600")
		w.WriteHeader(http.StatusNoContent)
	})
}

// brokenNetwork is a guarded service behind a network that breaks.
type brokenNetwork struct {
	http.Handler

	mu      sync.Mutex
	faults  []fault // for the next requests
	seen    []string
	charges int
}

// fault is what the network does to an exchange.
type fault func(w http.ResponseWriter, r *http.Request, next http.Handler)

func newBrokenNetwork(t *testing.T, faults ...fault) *brokenNetwork {
	t.Helper()
	s := &brokenNetwork{}
	s.reset(faults...)
	engine, err := core.New(memstore.New(), core.SharedScope, core.WithObserver(event.Log(slog.New(slog.DiscardHandler))))
	testkit.Must(t, err)
	s.Handler = engine.Handler(http.HandlerFunc(s.pay))
	return s
}

func (s *brokenNetwork) pay(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.charges++
	number := s.charges
	s.mu.Unlock()
	failure.MarkExecuted(r.Context())
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "charge %d", number)
}

// reset sets the faults of the next requests, and forgets the earlier ones.
func (s *brokenNetwork) reset(faults ...fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults, s.seen = faults, nil
}

func (s *brokenNetwork) count() (charges int, seen []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.charges, slices.Clone(s.seen)
}

// ServeHTTP plays the network.
func (s *brokenNetwork) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	s.mu.Lock()
	s.seen = append(s.seen, r.Header.Get(core.KeyHeader)+" "+string(body))
	do := passOn
	if len(s.faults) > 0 {
		do, s.faults = s.faults[0], s.faults[1:]
	}
	s.mu.Unlock()
	do(w, r, s.Handler)
}

func passOn(w http.ResponseWriter, r *http.Request, next http.Handler) { next.ServeHTTP(w, r) }

func loseRequest(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }

func loseResponse(_ http.ResponseWriter, r *http.Request, next http.Handler) {
	next.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

func cutResponse(w http.ResponseWriter, r *http.Request, next http.Handler) {
	recorder := httptest.NewRecorder()
	next.ServeHTTP(recorder, r)
	w.Header().Set("Content-Length", "100")
	w.WriteHeader(recorder.Code)
	_, _ = w.Write(recorder.Body.Bytes())
	panic(http.ErrAbortHandler)
}

func respondWith(code int, retryAfter string) fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(code)
	}
}

// shopTab is a page of a shop, whose service has another origin.
type shopTab struct {
	*browsertest.Tab
	service string
}

// openShop serves both origins, and opens the page. It skips the test without Chromium, or
// fails it if the check must run every test.
func openShop(t *testing.T, cors func(origin string, next http.Handler) http.Handler, s *brokenNetwork) *shopTab {
	t.Helper()
	shop := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})) // an empty page
	t.Cleanup(shop.Close)
	server := httptest.NewUnstartedServer(cors(shop.URL, s))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Config.SetKeepAlivesEnabled(false) // a browser repeats a request by itself when a kept connection breaks: here requests are counted
	server.Start()
	t.Cleanup(server.Close)

	p := &shopTab{browsertest.Open(t, shop.URL+"/", nil), server.URL}
	script, _ := scripts(t)
	p.Do(chromedp.Navigate(shop.URL + "/order"))
	// Waits are noted, and take no time.
	browsertest.Ask[bool](p.Tab, `window.waits = [];
		[window.once, window.newKey] = ((setTimeout) => { `+script+` return [once, newKey]; })((resume, wait) => { waits.push(wait); queueMicrotask(resume); });
		true`)
	return p
}

// outcome is the value that once returns, or the name of its error.
type outcome struct {
	Status   int
	IsReplay bool
	Text     string
	Error    string
}

func (p *shopTab) once(key, order string) outcome {
	p.Helper()
	browsertest.Ask[bool](p.Tab, fmt.Sprintf(`window.result = null; once(%q, %s, %q)
		.then((result) => { window.result = result; }, (error) => { window.result = {error: error.name}; }); true`, p.service+"/payments", order, key))
	return p.result()
}

// result waits for the result.
func (p *shopTab) result() outcome {
	p.Helper()
	p.Await(`window.result !== null`)
	return browsertest.Ask[outcome](p.Tab, `window.result`)
}

// A payment through every fault: one charge, and the page gets its response.
func TestPaymentThroughFaults(t *testing.T) {
	t.Parallel()
	s := newBrokenNetwork(t, loseRequest, respondWith(502, ""), respondWith(503, "7"), respondWith(409, "3"), loseResponse, cutResponse, respondWith(408, ""))
	p := openShop(t, CORS, s)
	testkit.Equal(t, p.once("order-42", `{amount: 1999}`), outcome{Status: 201, IsReplay: true, Text: "charge 1"}, "the outcome")
	charges, requests := s.count()
	if charges != 1 || len(requests) != 8 {
		t.Errorf("%d charges after %d requests, want one after eight", charges, len(requests))
	}
	for _, seen := range requests {
		testkit.Equal(t, seen, `order-42 {"amount":1999}`, "an attempt")
	}
	waits := browsertest.Ask[[]float64](p.Tab, `waits`)
	if len(waits) != 7 || waits[2] < 7000 || waits[3] < 3000 || waits[0] < 500 || waits[0] > 1500 || waits[5] < 16000 {
		t.Errorf("the waits are %v", waits)
	}
	s.reset(respondWith(524, "")) // of Cloudflare, which waited too long
	testkit.Equal(t, p.once("order-43", `{amount: 5}`), outcome{Status: 201, Text: "charge 2"}, "the outcome of another order")
}

// Each key is new, and has the time of its making.
func TestNewKeyHasItsTime(t *testing.T) {
	t.Parallel()
	p := openShop(t, CORS, newBrokenNetwork(t))
	keys := browsertest.Ask[[]string](p.Tab, `[newKey(), newKey()]`)
	for _, key := range keys {
		if made, has := core.KeyTime(key); !has || time.Since(made).Abs() > 10*time.Minute {
			t.Errorf("the key %s has the time %v, %v", key, made, has)
		}
	}
	if len(keys) != 2 || keys[0] == keys[1] {
		t.Errorf("two keys are %q", keys)
	}
}

// The snippet of docs/clients.md keeps the key, so that a page that is loaded again sends
// the same.
func TestKeyOutlivesThePage(t *testing.T) {
	t.Parallel()
	_, snippet := scripts(t)
	s := newBrokenNetwork(t)
	p := openShop(t, CORS, s)
	snippet = strings.Replace(snippet, "https://api.example.com", p.service, 1)
	for _, want := range []outcome{{Status: 201, Text: "charge 1"}, {Status: 201, IsReplay: true, Text: "charge 1"}} {
		browsertest.Ask[bool](p.Tab, `window.result = null; (async () => { const order = {amount: 7}; `+snippet+`window.result = {status, isReplay, text}; })(); true`)
		testkit.Equal(t, p.result(), want, "p.result()")
	}
}

// Final responses are not repeated, and a service that stays unreachable is given up.
func TestWhatIsFinal(t *testing.T) {
	t.Parallel()
	storedFailure := func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("X-Idempotent-Replay", "true")
		w.WriteHeader(http.StatusInternalServerError)
	}
	s := newBrokenNetwork(t)
	p := openShop(t, CORS, s)
	for name, row := range map[string]struct {
		faults   []fault
		want     outcome
		requests int
	}{
		"a final conflict": {[]fault{respondWith(409, "")}, outcome{Status: 409}, 1},
		"another payload":  {[]fault{respondWith(422, "")}, outcome{Status: 422}, 1},
		"a stored failure": {[]fault{respondWith(500, ""), storedFailure}, outcome{Status: 500, IsReplay: true}, 2},
		"eight 503":        {slices.Repeat([]fault{respondWith(503, "1")}, 8), outcome{Status: 503}, 8},
		"eight lost":       {slices.Repeat([]fault{loseRequest}, 8), outcome{Error: "TypeError"}, 8},
	} {
		s.reset(row.faults...)
		got := p.once("k", `{}`)
		if charges, requests := s.count(); got != row.want || len(requests) != row.requests || charges != 0 {
			t.Errorf("%s: got %+v after %d requests and %d charges, want %+v after %d", name, got, len(requests), charges, row.want, row.requests)
		}
	}
}

// Without Access-Control-Expose-Headers the page sees no Retry-After, and no replay.
func TestHeadersMustBeExposed(t *testing.T) {
	t.Parallel()
	s := newBrokenNetwork(t, respondWith(409, "3"))
	p := openShop(t, func(origin string, next http.Handler) http.Handler {
		return CORS(origin, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Del("Access-Control-Expose-Headers")
			next.ServeHTTP(w, r)
		}))
	}, s)
	if got, want := p.once("k", `{}`), (outcome{Status: 409}); got != want {
		t.Errorf("got %+v, want %+v: a conflict without Retry-After is final", got, want)
	}
}
