package program_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/examples/payments/internal/shop"
	"github.com/oncekey/oncekey/internal/testkit"
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
	for _, router := range routers {
		url := newServer(t, router)
		for _, s := range []step{
			{path: "/transfers", key: "k", body: `{"from":"alice","to":"bob","amount":1}`},
			{method: http.MethodGet, path: "/balances"},
		} {
			if response, body := send(t, url, s); response.code != http.StatusNotFound {
				t.Errorf("%s: %s responds %d %q, want 404", router, s.path, response.code, body)
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
		if response.code != step.status || !strings.Contains(body, step.contains) {
			t.Errorf("%s, step %d: %d %q, want %d with %q", router, i+1, response.code, shorten(body), step.status, step.contains)
		}
		testkit.Equal(t, response.header.Get("X-Idempotent-Replay") == "true", step.replayed, "%s, step %d: replayed", router, i+1)
	}
	testkit.Equal(t, readLedger(t, url).counts(), s.want, "%s: the ledger has", router)
	return answers
}

// newServer runs the program on a router, until the test ends.
func newServer(t *testing.T, router string) (url string) {
	t.Helper()
	return startProgram(t, "-router", router).url
}

// head is a response without its body.
type head struct {
	status string
	code   int
	header http.Header
}

func send(t *testing.T, url string, s step) (head, string) {
	t.Helper()
	method, user := s.method, s.user
	if method == "" {
		method = http.MethodPost
	}
	if user == "" {
		user = "alice"
	}
	request, err := http.NewRequestWithContext(t.Context(), method, url+s.path, strings.NewReader(s.body))
	testkit.Must(t, err)
	request.Header.Set("Content-Type", "application/json")
	if user != "nobody" {
		request.Header.Set("Authorization", "Bearer "+user)
	}
	if s.key != "" {
		request.Header.Set(core.KeyHeader, s.key)
	}
	response, err := http.DefaultClient.Do(request)
	testkit.Must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	testkit.Must(t, err)
	return head{response.Status, response.StatusCode, response.Header}, string(body)
}

// render writes a whole response as text, without its date.
func render(response head, body string) string {
	header := response.header.Clone()
	header.Del("Date")
	var all strings.Builder
	all.WriteString(response.status + "\n")
	for _, name := range slices.Sorted(maps.Keys(header)) {
		all.WriteString(name + ": " + strings.Join(header[name], " | ") + "\n")
	}
	return all.String() + "\n" + shorten(body)
}

func shorten(body string) string { return body[:min(len(body), 1000)] }

// books is the response of GET /ledger.
type books struct {
	Charges, Refunds, Members, Notes []shop.Entry
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

func TestEmptyLedgerHasEmptyLists(t *testing.T) {
	t.Parallel()
	_, body := send(t, newServer(t, "chi"), step{method: "GET", path: "/ledger"})
	if strings.Contains(body, "null") || strings.Count(body, "[]") != 4 {
		t.Errorf("got %s, want four empty lists", body)
	}
}

func TestLedgerSaysWhoPaidForWhat(t *testing.T) {
	t.Parallel()
	for _, router := range routers {
		url := newServer(t, router)
		send(t, url, pay("key-1", "tok_ok", 201).as("bob"))
		send(t, url, join("key-2", "ada@example.com", 201))
		send(t, url, change("", "mem_1", "eva@example.com", 200))
		got := readLedger(t, url)
		charge, created, changed := got.Charges[0], got.Members[0], got.Members[1]
		if charge.Time.IsZero() || !strings.HasPrefix(charge.ID, "pay_") || len(charge.ID) != 12 {
			t.Errorf("%s: the charge is %+v, want an id and a time", router, charge)
		}
		charge.Time, created.Time, changed.Time = shop.Entry{}.Time, shop.Entry{}.Time, shop.Entry{}.Time
		charge.ID = ""
		if want := (shop.Entry{OrderID: "order-1", Amount: 4200, Currency: "EUR", User: "bob", Key: "key-1", Attempt: 1}); charge != want {
			t.Errorf("%s: the charge is %+v, want %+v", router, charge, want)
		}
		if want := (shop.Entry{ID: "mem_1", Email: "ada@example.com", User: "alice", Key: "key-2", Attempt: 1}); created != want {
			t.Errorf("%s: the member is %+v, want %+v", router, created, want)
		}
		testkit.Equal(t, changed, shop.Entry{ID: "mem_1", Email: "eva@example.com", User: "alice"}, "%s: the change without a key", router)
	}
}
