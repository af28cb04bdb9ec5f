package main

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
)

// patience bounds every wait. It is generous: only a failure takes that long.
const patience = time.Minute

// onRouters runs a test on a merchant of its own on each router.
func onRouters(t *testing.T, test func(m *merchant)) {
	t.Helper()
	for _, router := range []string{"chi", "gin"} {
		t.Run(router, func(t *testing.T) {
			t.Parallel()
			test(serveMerchant(t, router, nil))
		})
	}
}

// merchant is a running service, and its agents' view.
type merchant struct {
	*testing.T
	url string
	b   *backend // nil in another process
}

// serveMerchant serves a merchant in memory. change may replace parts of its backend.
func serveMerchant(t *testing.T, router string, change func(*backend)) *merchant {
	t.Helper()
	s := settings{router: router, store: "memory", lockTTL: 30 * time.Second}
	b, err := open(t.Context(), s)
	testkit.Must(t, err)
	if change != nil {
		change(b)
	}
	handler, engines, err := newHandler(s, b)
	testkit.Must(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		server.Close()
		for _, engine := range engines {
			testkit.End(t, engine)
		}
		if err := b.close(); err != nil {
			t.Error(err)
		}
	})
	return &merchant{t, server.URL, b}
}

// request is one of an agent. The same value can be sent any number of times.
type request struct {
	method, path, key, body string
	header                  map[string]string
}

// acpPost is a POST of ACP, with all headers of its section 3.1 that identify nothing else.
func acpPost(path, key, body string) request {
	return request{http.MethodPost, "/checkout_sessions" + path, key, body, map[string]string{
		"Authorization": "Bearer agent", "API-Version": acpVersion, "Request-Id": "r-1", "Timestamp": "2026-04-17T12:00:00Z", "Accept-Language": "en-US",
	}}
}

func acpGet(path string) request {
	r := acpPost(path, "", "")
	r.method = http.MethodGet
	return r
}

// ucpRequest is one of UCP. Its operations have the headers that the conformance tests send.
func ucpRequest(method, path, key, body string) request {
	return request{method, "/checkout-sessions" + path, key, body, map[string]string{"UCP-Agent": `profile="https://agent.example/profile"`}}
}

// with returns a copy with a header, which an empty value removes.
func (r request) with(name, value string) request {
	r.header = maps.Clone(r.header)
	r.header[name] = value
	return r
}

func (r request) withBody(body string) request {
	r.body = body
	return r
}

func (r request) withKey(key string) request {
	r.key = key
	return r
}

// answer is a response. Its status is 0 without one.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) replayed() bool {
	return a.header.Get("Idempotent-Replayed") == "true" || a.header.Get("X-Idempotent-Replay") == "true"
}

// member returns the member at a path of names.
func (a answer) member(path ...string) any {
	var value any
	if json.Unmarshal([]byte(a.body), &value) != nil {
		return nil
	}
	for _, name := range path {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	return value
}

func (a answer) id() string {
	id, _ := a.member("id").(string)
	return id
}

// try sends a request, and returns an answer without a status if none came.
func (m *merchant) try(ctx context.Context, r request) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sent, err := http.NewRequestWithContext(ctx, r.method, m.url+r.path, strings.NewReader(r.body))
	testkit.Must(m, err)
	for name, value := range r.header {
		if value != "" {
			sent.Header.Set(name, value)
		}
	}
	if r.body != "" {
		sent.Header.Set("Content-Type", "application/json")
	}
	if r.key != "" {
		sent.Header.Set("Idempotency-Key", r.key)
	}
	sent.Close = true
	received, err := http.DefaultClient.Do(sent)
	if err != nil {
		return answer{}, err
	}
	defer received.Body.Close()
	body, err := io.ReadAll(received.Body)
	return answer{received.StatusCode, received.Header, string(body)}, err
}

func (m *merchant) send(r request) answer {
	m.Helper()
	a, err := m.try(m.Context(), r)
	testkit.Must(m, err)
	return a
}

// expect sends a request, and wants a status.
func (m *merchant) expect(status int, r request) answer {
	m.Helper()
	a := m.send(r)
	if a.status != status {
		m.Fatalf("%s %s under %q got %d %s, want %d", r.method, r.path, r.key, a.status, a.body, status)
	}
	return a
}

// replays expects the first response again, byte by byte.
func (m *merchant) replays(first answer, r request) answer {
	m.Helper()
	again := m.send(r)
	if again.status != first.status || again.body != first.body || !again.replayed() || first.replayed() {
		m.Errorf("%s %s under %q got %d %s %v\nwant a replay of %d %s", r.method, r.path, r.key, again.status, again.body, again.header, first.status, first.body)
	}
	return again
}

// effects are the effects of all checkouts so far.
type effects struct{ charges, charged, orders, mugs int }

// expectEffects compares the provider's charges, the orders and the mugs that were sold.
func (m *merchant) expectEffects(want effects) {
	m.Helper()
	var got effects
	for query, into := range map[string]*int{
		`SELECT count(*) FROM provider_charges`:                 &got.charges,
		`SELECT coalesce(sum(amount), 0) FROM provider_charges`: &got.charged,
		`SELECT count(*) FROM orders`:                           &got.orders,
		`SELECT 1000 - stock FROM items WHERE items.id = 'mug'`: &got.mugs,
	} {
		testkit.Must(m, m.b.db.QueryRowContext(m.Context(), query).Scan(into))
	}
	testkit.Equal(m, got, want, "the effects")
}

// gate holds charges back. A charge sends on entered, and continues after a value on opened.
type gate struct{ entered, opened chan struct{} }

func gated(b *backend) gate {
	g := gate{make(chan struct{}), make(chan struct{})}
	charge := b.charge
	b.charge = func(ctx context.Context, key, _ string, amount int64) (string, error) {
		g.entered <- struct{}{}
		<-g.opened
		return charge(ctx, key, "tok_ok", amount)
	}
	return g
}

// await returns when a charge has entered the gate.
func (g gate) await(t *testing.T) {
	t.Helper()
	select {
	case <-g.entered:
	case <-time.After(patience):
		t.Fatalf("no charge after %v", patience)
	}
}
