package commerce_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/adapters/commerce"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// The rules of "Replay Protection" of UCP's signatures.md and of "HTTP Headers" of its REST
// binding, one test a rule.

const (
	checkouts = "/checkout-sessions"
	lines     = `{"line_items":[{"item":{"id":"item_1"},"quantity":2}],"currency":"USD"}`
	strong    = "550e8400-e29b-41d4-a716-446655440000"
)

var ucpConflict = `{"code":"key_reused","content":"` + problem.New(problem.KeyReused, "").Detail + `"}`

func ucpEndpoints() []endpoint {
	return []endpoint{
		{http.MethodPost, checkouts, create(http.StatusCreated), nil},
		{http.MethodPut, checkouts + "/{id}", create(http.StatusOK), nil},
		{http.MethodPost, checkouts + "/{id}/complete", create(http.StatusOK), nil},
		{http.MethodPost, checkouts + "/{id}/cancel", create(http.StatusOK), nil},
	}
}

// ucpOperations are requests to the endpoints. A cancellation has no body.
func ucpOperations(key string) []*http.Request {
	return []*http.Request{
		post(checkouts, key, lines), request(http.MethodPut, checkouts+"/1", key, lines),
		post(checkouts+"/1/complete", key, `{"payment":{"instruments":[]}}`), post(checkouts+"/1/cancel", key, "", without("Content-Type")),
	}
}

// State-changing operations include a key.
func TestUCPKeyIsRequired(t *testing.T) {
	t.Parallel()
	onRouters(t, commerce.UCP(), func(t *testing.T, start starter) {
		s := start(t, ucpEndpoints()...)
		for _, r := range ucpOperations("") {
			s.answers(r, http.StatusBadRequest, `{"code":"key_missing","content":"Idempotency-Key header is required"}`)
		}
	})
}

// Entropy: at least 128 bits, such as a UUID or 22 letters and digits.
func TestUCPEntropy(t *testing.T) {
	t.Parallel()
	onRouters(t, commerce.UCP(), func(t *testing.T, start starter) {
		s := start(t, ucpEndpoints()...)
		for _, key := range []string{strong, strings.Repeat("aB3", 8)[:22], strings.Repeat("k", 255)} {
			s.runsOnce(post(checkouts, key, lines))
		}
		for _, weak := range []string{"k", "order-1", strings.Repeat("aB3", 7)} {
			s.answers(post(checkouts, weak, lines), http.StatusBadRequest, `{"code":"key_invalid","content":"Idempotency-Key must be a key that matches [!-~]{22,255}"}`)
		}
	})
}

// Uniqueness: per client and per operation.
func TestUCPScope(t *testing.T) {
	t.Parallel()
	onRouters(t, commerce.UCP(), func(t *testing.T, start starter) {
		s := start(t, ucpEndpoints()...)
		for _, client := range []string{"Bearer a", "Bearer b"} {
			for _, r := range ucpOperations(strong) {
				r.Header.Set("Authorization", client)
				s.runsOnce(r)
			}
		}
	})
}

// A duplicate with a matching payload gets the stored response, and is not executed again.
func TestUCPDuplicate(t *testing.T) {
	t.Parallel()
	onRouters(t, commerce.UCP(), func(t *testing.T, start starter) {
		s := start(t, ucpEndpoints()...)
		for i, r := range ucpOperations(strong) {
			first := s.runsOnce(r)
			if again := s.answers(ucpOperations(strong)[i], first.Code, first.Body.String()); again.Header().Get("Idempotency-Key") != strong {
				t.Errorf("a replay has the header %v", again.Header())
			}
		}
	})
}

// A duplicate with another payload is 409 and is not executed. The bytes of the body decide.
func TestUCPMismatch(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]string{
		"another value":            `{"line_items":[{"item":{"id":"item_1"},"quantity":3}],"currency":"USD"}`,
		"another order of members": `{"currency":"USD","line_items":[{"item":{"id":"item_1"},"quantity":2}]}`,
		"a space":                  lines + " ",
		"a number's spelling":      `{"line_items":[{"item":{"id":"item_1"},"quantity":2.0}],"currency":"USD"}`,
		"no body":                  "",
	}, func(t *testing.T, other string) {
		onRouters(t, commerce.UCP(), func(t *testing.T, start starter) {
			s := start(t, ucpEndpoints()...)
			s.runsOnce(post(checkouts, strong, lines))
			if w := s.answers(post(checkouts, strong, other), http.StatusConflict, ucpConflict); w.Header().Get("Retry-After") != "" {
				t.Errorf("a final 409 has Retry-After: %v", w.Header())
			}
			s.runsOnce(request(http.MethodPut, checkouts+"/1", strong, lines))
			s.answers(request(http.MethodPut, checkouts+"/1", strong, other), http.StatusConflict, ucpConflict)
		})
	})
}

// A duplicate of an operation in progress may be sent again.
func TestUCPInProgress(t *testing.T) {
	t.Parallel()
	onRouters(t, commerce.UCP(), func(t *testing.T, start starter) {
		handler, began, end := slow(create(http.StatusOK))
		s := start(t, endpoint{http.MethodPost, checkouts, handler, nil})
		s.meets(post(checkouts, strong, lines), began, end, func() {
			w := s.answers(post(checkouts, strong, lines), http.StatusConflict,
				`{"code":"in_progress","content":"`+problem.New(problem.InProgress, "").Detail+`"}`)
			testkit.Equal(t, w.Header().Get("Retry-After"), "1", "the 409 has the header %v", w.Header())
			s.answers(post(checkouts, strong, `{}`), http.StatusConflict, ucpConflict)
		})
	})
}

// Server storage: at least 24 hours, 48 recommended.
func TestUCPRetention(t *testing.T) {
	t.Parallel()
	onRouters(t, commerce.UCP(), func(t *testing.T, start starter) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, ucpEndpoints()...)
			first := s.runsOnce(post(checkouts, strong, lines))
			later(48*time.Hour - time.Second)
			s.answers(post(checkouts, strong, lines), first.Code, first.Body.String())
		})
	})
}

// On a failure of the storage: 503, and nothing is executed.
func TestUCPFailsClosed(t *testing.T) {
	t.Parallel()
	testkit.Each(t, routers, func(t *testing.T, mount mounting) {
		s := open(t, commerce.UCP(), broken(), mount, ucpEndpoints())
		for _, r := range ucpOperations(strong) {
			s.answers(r, http.StatusServiceUnavailable,
				`{"code":"store_unavailable","content":"This request was not processed, but an earlier one with the same Idempotency-Key may have been: retry later with the same key."}`)
		}
	})
}

// broken is a store that cannot be reached.
func broken() storage.Store {
	return testkit.Failing(memstore.New(), errors.New("connection refused"), testkit.Acquire)
}

// Every problem of the engine has UCP's form of a protocol error.
func TestUCPProblems(t *testing.T) {
	t.Parallel()
	everyProblem(t, commerce.UCP(), func(t *testing.T, p *problem.Problem, status int, body map[string]any) {
		want := p.Status
		if p.Code == problem.KeyReused {
			want = http.StatusConflict
		}
		if status != want || len(body) != 2 || body["code"] != p.Code || body["content"] == "" {
			t.Errorf("got %d %v", status, body)
		}
	})
}
