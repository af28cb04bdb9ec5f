package endtoend

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
)

// client opens a connection for each request. net/http by itself repeats a request with
// an Idempotency-Key when a kept connection breaks, and these tests count requests.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// request is a request that can be repeated.
type request struct{ path, user, key, body string }

// payment pays with one of the example's test cards.
func payment(card string) request {
	body := fmt.Sprintf(`{"order_id":%q,"amount":4200,"currency":"EUR","card":%q}`, orderOf("key-1"), card)
	return request{path: "/payments", user: "alice", key: "key-1", body: body}
}

// orderOf is the order that a key pays: each key is a payment of its own.
func orderOf(key string) string { return "order of " + key }

// withoutKey is a payment that is refused before any effect, because it has no key.
func withoutKey() request { return payment("tok_ok").withKey("") }

func note() request {
	return request{path: "/notes", user: "alice", key: "key-1", body: `{"text":"call back"}`}
}

// transfer moves 100 from alice to bob.
func transfer(key string) request {
	return request{path: "/transfers", user: "alice", key: key, body: `{"from":"alice","to":"bob","amount":100}`}
}

func (r request) as(user string) request { r.user = user; return r }

// withKey returns another operation, for another order.
func (r request) withKey(key string) request {
	r.body = strings.Replace(r.body, orderOf(r.key), orderOf(key), 1)
	return r.underKey(key)
}

// underKey returns the same operation under another key.
func (r request) underKey(key string) request { r.key = key; return r }

// answer is the response that a client got.
type answer struct {
	status int
	header http.Header
	body   string
	err    error // there was no response
}

// want describes the expected response.
type want struct {
	status   int
	code     string // of a problem
	replayed bool
	later    bool // it has a Retry-After
}

var (
	done        = want{status: http.StatusOK} // an earlier request moved the money
	created     = want{status: http.StatusCreated}
	replayed    = want{status: http.StatusCreated, replayed: true}
	inProgress  = want{status: http.StatusConflict, code: "in_progress", later: true}
	unavailable = want{status: http.StatusServiceUnavailable, code: "store_unavailable", later: true}
	unconfirmed = want{status: http.StatusServiceUnavailable, code: "not_confirmed", later: true}
	rolledBack  = want{status: http.StatusInternalServerError, code: "rolled_back"}
)

func (a answer) is(w want) bool { return a.err == nil && a.shape() == w }

func (a answer) shape() want {
	var problem struct{ Code string }
	_ = json.Unmarshal([]byte(a.body), &problem) // not every response is a problem
	return want{
		status: a.status, code: problem.Code,
		replayed: a.header.Get("X-Idempotent-Replay") == "true", later: a.header.Get("Retry-After") != "",
	}
}

func (a answer) String() string {
	if a.err != nil {
		return a.err.Error()
	}
	return fmt.Sprintf("%+v %s", a.shape(), strings.TrimSpace(a.body))
}

// expect fails the test if the response is different.
func (a answer) expect(t *testing.T, w want) answer {
	t.Helper()
	if !a.is(w) {
		t.Fatalf("got %v, want %+v", a, w)
	}
	return a
}

// expectDone fails the test unless the operation took effect, now or before.
func (a answer) expectDone(t *testing.T) answer {
	t.Helper()
	if a.is(replayed) {
		return a
	}
	return a.expect(t, created)
}

// expectCopyOf fails the test if a replay differs from the original response.
func (a answer) expectCopyOf(t *testing.T, original answer) {
	t.Helper()
	w := original.shape()
	w.replayed = true
	a.expect(t, w)
	for _, name := range []string{"Content-Type", "Location"} {
		testkit.Equal(t, a.header.Get(name), original.header.Get(name), "%s is replayed as", name)
	}
	testkit.Equal(t, a.body, original.body, "the replayed body")
}

// send sends the request and waits for the response.
func (i *instance) send(r request) answer {
	ctx, cancel := context.WithTimeout(i.t.Context(), patience)
	defer cancel()
	return i.sendUntil(ctx, r)
}

// sendUntil is send for a client that disconnects when ctx ends.
func (i *instance) sendUntil(ctx context.Context, r request) answer {
	return i.sendBody(ctx, r, strings.NewReader(r.body))
}

// sendBody is sendUntil with a body that may hide its length.
func (i *instance) sendBody(ctx context.Context, r request, body io.Reader) answer {
	outgoing, err := http.NewRequestWithContext(ctx, http.MethodPost, i.url+r.path, body)
	if err != nil {
		return answer{err: err}
	}
	outgoing.Header.Set("Content-Type", "application/json")
	outgoing.Header.Set("Idempotency-Key", r.key)
	if r.user != "" {
		outgoing.Header.Set("Authorization", "Bearer "+r.user)
	}
	response, err := client.Do(outgoing)
	if err != nil {
		return answer{err: err}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(text), err}
}

// retryWhile repeats the request while the response is like one of these, and returns
// the first other response.
func (i *instance) retryWhile(r request, while ...want) answer {
	var last answer
	testkit.Poll(patience, func() bool {
		last = i.send(r)
		return last.err != nil || !slices.Contains(while, last.shape())
	})
	return last
}

// retryThrough retries like a client around an outage: first the store is unreachable,
// then a claim or a settlement is still on its way to the store.
func (i *instance) retryThrough(r request) answer { return i.retryWhile(r, unavailable, inProgress) }

// begin sends the request, and returns when its handler runs. The answer comes
// through the channel. On a busy machine the first claim may be too late, and the
// client comes back.
func (i *instance) begin(r request) <-chan answer {
	i.t.Helper()
	return i.awaitHandler(func() answer { return i.retryWhile(r, unavailable) })
}

// beginAfter is begin for a request whose key another process holds.
func (i *instance) beginAfter(r request) <-chan answer {
	i.t.Helper()
	return i.awaitHandler(func() answer { return i.retryWhile(r, inProgress) })
}

func (i *instance) awaitHandler(send func() answer) <-chan answer {
	i.t.Helper()
	before := i.attempts()
	answers := make(chan answer, 1)
	go func() { answers <- send() }()
	testkit.Await(i.t, "for the handler to run", func() bool { return i.attempts() > before })
	return answers
}

// attempts is the number of handler runs in the process.
func (i *instance) attempts() int {
	i.t.Helper()
	outgoing, err := http.NewRequestWithContext(i.t.Context(), http.MethodGet, i.url+"/attempts", http.NoBody)
	testkit.Must(i.t, err)
	response, err := client.Do(outgoing)
	testkit.Must(i.t, err)
	defer response.Body.Close()
	var counted struct{ Attempts int }
	testkit.Must(i.t, json.NewDecoder(response.Body).Decode(&counted))
	return counted.Attempts
}
