package adapters_test

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// refusal is a request that the guard refuses.
type refusal struct {
	name    string
	program program
	paid    bool // the payment was made before
	request func() *http.Request

	status     int
	code       string
	text       string // the error member, where it is promised word for word
	retryAfter string // the header
}

func nobody(*http.Request) (string, error)  { return "", nil }
func unknown(*http.Request) (string, error) { return "", errors.New("no such user") }

// refusals is the table "What clients see" of the design.
func refusals() []refusal {
	var (
		pay       = func() *http.Request { return payment("k") }
		withKey   = func(key string) func() *http.Request { return func() *http.Request { return payment(key) } }
		declaring = func(opts ...policy.Option) program { return program{policy: opts} }
		on        = func(store storage.Store, opts ...policy.Option) program {
			return program{store: store, policy: opts}
		}
		outage   = errors.New("connection refused")
		failOpen = policy.OnStoreError(policy.FailOpen)
		unkeyed  = func() *http.Request { return payment("k", withoutKey) }
		twice    = func() *http.Request {
			return payment("k", func(r *http.Request) { r.Header.Add(core.KeyHeader, "k") })
		}
		cut = func() *http.Request {
			return payment("k", func(r *http.Request) {
				r.Body = io.NopCloser(io.MultiReader(strings.NewReader("{"), iotest.ErrReader(io.ErrUnexpectedEOF)))
			})
		}
		otherPayload = func() *http.Request { return post("/payments", "k", `{"amount":4999}`) }
	)
	return []refusal{
		{name: "the scope function fails", program: program{scope: unknown}, request: pay, status: 401, code: "principal_missing"},
		{name: "the scope function names nobody", program: program{scope: nobody}, request: pay, status: 401, code: "principal_missing"},
		{name: "key missing", request: unkeyed, status: 400, code: "key_missing", text: "Idempotency-Key header is required"},
		{name: "key malformed", request: withKey("a,b"), status: 400, code: "key_invalid"},
		{name: "key empty", request: withKey(""), status: 400, code: "key_invalid"},
		{name: "key repeated", request: twice, status: 400, code: "key_invalid"},
		{
			name: "key longer than 255", request: withKey(strings.Repeat("k", 256)),
			status: 400, code: "key_invalid", text: "Idempotency-Key must not exceed 255 characters",
		},
		{name: "body over the limit", program: declaring(policy.MaxRequestBytes(8)), request: pay, status: 413, code: "body_too_large"},
		{name: "body unreadable", request: cut, status: 400, code: "body_unreadable"},
		{name: "in flight", program: on(holding(inFlight)), request: pay, status: 409, code: "in_progress", retryAfter: "1"},
		{
			name: "abandoned, and already taken over by another process", program: on(holding(abandoned)),
			request: pay, status: 409, code: "in_progress", retryAfter: "1",
		},
		{
			name: "finished, other payload", paid: true, request: otherPayload,
			status: 422, code: "key_reused",
		},
		{name: "in flight, other payload", program: on(holdingOther(inFlight)), request: pay, status: 422, code: "key_reused"},
		{
			name: "response not kept, other payload", program: on(holdingOther(storage.Record{State: storage.Unreplayable})),
			request: pay, status: 422, code: "key_reused",
		},
		{
			name: "finished, response not kept", program: on(holding(storage.Record{State: storage.Unreplayable, Status: 201})),
			request: pay, status: 409, code: "not_replayable",
		},
		{
			name: "the response has expired", program: on(holding(storage.Record{State: storage.Expired, Status: 201})),
			request: pay, status: 409, code: "key_expired",
		},
		{
			name: "the response has expired, fail-open too", program: on(holding(storage.Record{State: storage.Expired, Status: 502}), failOpen),
			request: pay, status: 409, code: "key_expired",
		},
		{
			name: "expired, other payload", program: on(holdingOther(storage.Record{State: storage.Expired, Status: 201})),
			request: pay, status: 422, code: "key_reused",
		},
		{
			name: "abandoned and expired, and the policy re-executes", program: on(holding(storage.Record{State: storage.Expired})),
			request: pay, status: 409, code: "outcome_unknown",
		},
		{
			name: "abandoned and expired, other payload", program: on(holdingOther(storage.Record{State: storage.Expired})),
			request: pay, status: 422, code: "key_reused",
		},
		{
			name: "abandoned, and the policy refuses", program: on(holding(abandoned), policy.OnAbandoned(policy.Refuse)),
			request: pay, status: 409, code: "outcome_unknown",
		},
		{name: "store unavailable", program: on(failing(outage)), request: pay, status: 503, code: "store_unavailable", retryAfter: "1"},
		{name: "store full", program: on(failing(storage.ErrStoreFull)), request: pay, status: 503, code: "store_unavailable", retryAfter: "1"},
		{ // Case 97
			name: "claim refused for good, fail-open too", program: on(failing(storage.ErrNotStorable), failOpen),
			request: pay, status: 503, code: "store_unavailable", retryAfter: "1",
		},
		{ // Case 20
			name: "record corrupt, fail-open too", program: on(failing(storage.ErrCorruptRecord), failOpen),
			request: pay, status: 503, code: "store_unavailable", retryAfter: "1",
		},
	}
}

// onRefusals runs a test for each of them, on each router.
func onRefusals(t *testing.T, options []core.Option, test func(t *testing.T, s *service, row refusal)) {
	t.Helper()
	for _, row := range refusals() {
		row.program.options = options
		onCase(t, row.name, everyRouter, inABubble(func(t *testing.T, m mounting) {
			s := m.start(t, row.program)
			if row.paid {
				s.do(payment("k"))
			}
			test(t, s, row)
		}))
	}
}

func TestWhatClientsSee(t *testing.T) {
	t.Parallel()
	onRefusals(t, nil, func(t *testing.T, s *service, row refusal) {
		before := s.runs.Load()
		answer := s.do(row.request())
		s.ran(before)
		p := problemIn(t, answer)
		if answer.Code != row.status || p.Status != row.status || p.Code != row.code {
			t.Errorf("got %d with status %d and code %q, want %d and %q", answer.Code, p.Status, p.Code, row.status, row.code)
		}
		if row.text != "" && p.Error != row.text {
			t.Errorf("error is %q, want %q", p.Error, row.text)
		}
		if p.Type == "" || p.Title == "" || p.Detail == "" || p.Error == "" {
			t.Errorf("a member is empty: %+v", p)
		}
		wantHeader := http.Header{"Cache-Control": {"no-store"}, "Content-Type": {"application/problem+json"}, "X-Content-Type-Options": {"nosniff"}}
		if row.retryAfter != "" {
			wantHeader.Set("Retry-After", row.retryAfter)
		}
		if got := answer.Result().Header; !maps.EqualFunc(got, wantHeader, slices.Equal) {
			t.Errorf("header is %v\nwant      %v", got, wantHeader)
		}
	})
}

// A problem tells the client how to continue, and has no data about the server. Case 42: no text
// excludes a side effect if an earlier attempt, or a handler that was cut short, may have had one.
func TestProblemsNameNoInternalState(t *testing.T) {
	t.Parallel()
	want := []string{"code", "detail", "error", "status", "title", "type"}
	check := func(t *testing.T, answer *httptest.ResponseRecorder) {
		t.Helper()
		var members map[string]any
		if err := json.Unmarshal(answer.Body.Bytes(), &members); err != nil {
			t.Fatalf("%v in %s", err, answer.Body)
		}
		testkit.EqualSlices(t, slices.Sorted(maps.Keys(members)), want, "the members")
		for _, word := range []string{
			"lease", "lock", "token", "fingerprint", "sha256", "refused", "no such user", // internal
			"not started", "before it took effect", "belong to somebody", "has finished", "took effect,", // not known
		} {
			if strings.Contains(strings.ToLower(answer.Body.String()), word) {
				t.Errorf("%q must not be in a problem: %s", word, answer.Body)
			}
		}
	}
	onRefusals(t, nil, func(t *testing.T, s *service, row refusal) { check(t, s.do(row.request())) })
	onCase(t, "cut short", everyRouter, inABubble(func(t *testing.T, m mounting) {
		check(t, m.start(t, program{handler: untilCancelled, outside: []middleware{deadline}}).do(payment("k")))
	}))
}

// A client cannot see whether its first request runs in this process, runs in another
// process or is abandoned.
func TestInProgressLooksTheSameEverywhere(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		var here *httptest.ResponseRecorder
		var s *service
		s = m.start(t, program{handler: func(w http.ResponseWriter, _ *http.Request) {
			here = s.do(payment("k")) // the first has not finished
			w.WriteHeader(http.StatusCreated)
		}})
		s.do(payment("k"))
		s.ran(1)
		for _, record := range []storage.Record{inFlight, abandoned} {
			elsewhere := m.start(t, program{store: holding(record)}).do(payment("k"))
			if here.Code != elsewhere.Code || here.Body.String() != elsewhere.Body.String() {
				t.Errorf("here      %d %s\nelsewhere %d %s", here.Code, here.Body, elsewhere.Code, elsewhere.Body)
			}
		}
	})
}

// Case 12: an unprotected run has an event, and otherwise a normal response.
func TestFailOpen(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, inABubble(func(t *testing.T, m mounting) {
		var body []byte
		s := m.start(t, program{
			store:  failing(errors.New("connection refused")),
			policy: []policy.Option{policy.OnStoreError(policy.FailOpen)},
			handler: func(w http.ResponseWriter, r *http.Request) {
				body, _ = io.ReadAll(r.Body)
				created(w, r)
			},
		})
		for range 2 {
			if answer := s.runsAgain(payment("k")); answer.Code != http.StatusCreated || string(body) != amount {
				t.Errorf("got %d, and the handler read %q", answer.Code, body)
			}
		}
		s.reported(event.Unprotected, 2)
	}))
}

// A service that shuts down takes no new keys.
func TestShuttingDown(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{})
		testkit.Must(t, s.engine.Shutdown(t.Context()))
		s.refuses(payment("k"), http.StatusServiceUnavailable, problem.ShuttingDown)
	})
}
