package main

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
)

// step is one request of a scenario with the expected response.
type step struct {
	method string // POST unless given
	path   string
	user   string // alice unless given; "nobody" sends no Authorization
	key    string
	body   string

	status   int
	contains string // of the body
	replayed bool
}

// counts are the expected entries of each kind in the ledger at the end.
type counts struct{ charges, refunds, members, notes, attempts int }

type scenario struct {
	name  string
	steps []step
	want  counts
}

// Both routers run every scenario, and must send equal responses: the same status, header
// and bytes.
func TestScenariosOnBothRouters(t *testing.T) {
	t.Parallel()
	all := slices.Concat(paymentScenarios, invalidPayments(), memberScenarios, noteScenarios, accessScenarios)
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			onChi, onGin := play(t, "chi", s), play(t, "gin", s)
			for i := range s.steps {
				if onChi[i] != onGin[i] {
					t.Errorf("step %d: chi responds\n%s\nand gin\n%s", i+1, onChi[i], onGin[i])
				}
			}
		})
	}
}

// Without a database there are no accounts to transfer money between.
func TestTransfersNeedADatabase(t *testing.T) {
	t.Parallel()
	for router := range routers {
		url := newServer(t, router)
		for _, s := range []step{
			{path: "/transfers", key: "k", body: `{"from":"alice","to":"bob","amount":1}`},
			{method: http.MethodGet, path: "/balances"},
		} {
			if response, body := send(t, url, s); response.StatusCode != http.StatusNotFound {
				t.Errorf("%s: %s responds %d %q, want 404", router, s.path, response.StatusCode, body)
			}
		}
	}
}

// play sends the requests one after another, and returns the responses.
func play(t *testing.T, router string, s scenario) []string {
	t.Helper()
	url := newServer(t, router)
	answers := make([]string, 0, len(s.steps))
	for i, step := range s.steps {
		response, body := send(t, url, step)
		answers = append(answers, render(response, body))
		if response.StatusCode != step.status || !strings.Contains(body, step.contains) {
			t.Errorf("%s, step %d: %d %q, want %d with %q", router, i+1, response.StatusCode, shorten(body), step.status, step.contains)
		}
		if got := response.Header.Get("X-Idempotent-Replay") == "true"; got != step.replayed {
			t.Errorf("%s, step %d: replayed is %t, want %t", router, i+1, got, step.replayed)
		}
	}
	if got := readLedger(t, url).counts(); got != s.want {
		t.Errorf("%s: the ledger has %+v, want %+v", router, got, s.want)
	}
	return answers
}

func newServer(t *testing.T, router string) string {
	t.Helper()
	return serveBooks(t, router, newMemoryLedger(&journal{}))
}

func serveBooks(t *testing.T, router string, books ledger) string {
	t.Helper()
	engine, err := core.New(memstore.New(), core.ScopeBy(userOf))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(routers[router](newShop(backend{ledger: books}), engine, times{time.Minute, time.Minute}))
	t.Cleanup(server.Close)
	return server.URL
}

func send(t *testing.T, url string, s step) (*http.Response, string) {
	t.Helper()
	method, user := s.method, s.user
	if method == "" {
		method = http.MethodPost
	}
	if user == "" {
		user = "alice"
	}
	request, err := http.NewRequestWithContext(t.Context(), method, url+s.path, strings.NewReader(s.body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if user != "nobody" {
		request.Header.Set("Authorization", "Bearer "+user)
	}
	if s.key != "" {
		request.Header.Set(core.KeyHeader, s.key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

// render writes a whole response as text, without its date.
func render(response *http.Response, body string) string {
	header := response.Header.Clone()
	header.Del("Date")
	var all strings.Builder
	all.WriteString(response.Status + "\n")
	for _, name := range slices.Sorted(maps.Keys(header)) {
		all.WriteString(name + ": " + strings.Join(header[name], " | ") + "\n")
	}
	return all.String() + "\n" + shorten(body)
}

func shorten(body string) string { return body[:min(len(body), 1000)] }

// books is the response of GET /ledger.
type books struct {
	Charges, Refunds, Members, Notes []entry
	Attempts                         int
}

func (b books) counts() counts {
	return counts{len(b.Charges), len(b.Refunds), len(b.Members), len(b.Notes), b.Attempts}
}

func readLedger(t *testing.T, url string) books {
	t.Helper()
	_, body := send(t, url, step{method: http.MethodGet, path: "/ledger", user: "nobody"})
	var b books
	if err := json.Unmarshal([]byte(body), &b); err != nil {
		t.Fatalf("GET /ledger: %v\n%s", err, body)
	}
	return b
}
