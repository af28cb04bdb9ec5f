package commerce_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/adapters/commerce"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
)

// The rules of section 6 of ACP's rfc.agentic_checkout.md, one test a rule.

const (
	sessions = "/checkout_sessions"
	items    = `{"items":[{"id":"item_1","quantity":1}],"buyer":{"note":null,"discount":1.5}}`
)

func acpEndpoints() []endpoint {
	return []endpoint{
		{http.MethodPost, sessions, create(http.StatusCreated), nil},
		{http.MethodPost, sessions + "/{id}", create(http.StatusOK), nil},
		{http.MethodPost, sessions + "/{id}/complete", create(http.StatusOK), nil},
		{http.MethodPost, sessions + "/{id}/cancel", create(http.StatusOK), nil},
	}
}

var acpPaths = []string{sessions, sessions + "/1", sessions + "/1/complete", sessions + "/1/cancel"}

// 6.1: a POST without a key is rejected with 400 and idempotency_key_required.
func TestACP61EveryPostNeedsAKey(t *testing.T) {
	t.Parallel()
	onRouters(t, commerce.ACP(), func(t *testing.T, start starter) {
		s := start(t, acpEndpoints()...)
		for _, path := range acpPaths {
			s.answers(post(path, "", items), http.StatusBadRequest,
				`{"type":"invalid_request","code":"idempotency_key_required","message":"Idempotency-Key header is required"}`)
		}
	})
}

// 6.1: the key is opaque and has at most 255 characters.
func TestACP61KeysAreOpaque(t *testing.T) {
	t.Parallel()
	onRouters(t, commerce.ACP(), func(t *testing.T, start starter) {
		s := start(t, acpEndpoints()...)
		for _, key := range []string{"k", "8e03978e-40d5-43dd-bc93-6894a57f9324", "idem/κ"[:5], strings.Repeat("k", 255)} {
			s.runsOnce(post(sessions, key, items))
		}
		s.answers(post(sessions, strings.Repeat("k", 256), items), http.StatusBadRequest,
			`{"type":"invalid_request","code":"key_invalid","message":"Idempotency-Key must not exceed 255 characters"}`)
	})
}

// 6.1: keys are scoped to the authenticated identity and the endpoint's path.
func TestACP61Scope(t *testing.T) {
	t.Parallel()
	onRouters(t, commerce.ACP(), func(t *testing.T, start starter) {
		s := start(t, acpEndpoints()...)
		for _, path := range append(acpPaths, sessions+"/2", sessions+"/2/complete") {
			s.runsOnce(post(path, "k", items))
			s.runsOnce(post(path, "k", items, header("Authorization", "Bearer other")))
		}
	})
}

// 6.2 and 6.7: bodies are equal by their JSON values, extension fields count, and headers do not.
func TestACP62Equivalence(t *testing.T) {
	t.Parallel()
	type row struct {
		body  string
		equal bool
	}
	testkit.Each(t, map[string]row{
		"another order of members":      {`{"buyer":{"discount":1.5,"note":null},"items":[{"quantity":1,"id":"item_1"}]}`, true},
		"white space":                   {` { "items" : [ { "id" : "item_1" , "quantity" : 1 } ] , "buyer" : { "note" : null , "discount" : 1.5 } } `, true},
		"a trailing zero":               {`{"items":[{"id":"item_1","quantity":1.0}],"buyer":{"note":null,"discount":1.50}}`, true},
		"an exponent":                   {`{"items":[{"id":"item_1","quantity":10e-1}],"buyer":{"note":null,"discount":15e-1}}`, true},
		"an absent member for null":     {`{"items":[{"id":"item_1","quantity":1}],"buyer":{"discount":1.5}}`, false},
		"another number":                {`{"items":[{"id":"item_1","quantity":2}],"buyer":{"note":null,"discount":1.5}}`, false},
		"a number as a string":          {`{"items":[{"id":"item_1","quantity":"1"}],"buyer":{"note":null,"discount":1.5}}`, false},
		"a null member more":            {`{"items":[{"id":"item_1","quantity":1,"x":null}],"buyer":{"note":null,"discount":1.5}}`, false},
		"a member of an extension more": {`{"items":[{"id":"item_1","quantity":1}],"buyer":{"note":null,"discount":1.5},"discounts":{"codes":["A"]}}`, false},
	}, func(t *testing.T, row row) {
		onRouters(t, commerce.ACP(), func(t *testing.T, start starter) {
			s := start(t, acpEndpoints()...)
			first := s.runsOnce(post(sessions, "k", items))
			if row.equal {
				s.answers(post(sessions, "k", row.body, header("Request-Id", "2"), header("Timestamp", "now")), first.Code, first.Body.String())
			} else {
				s.answers(post(sessions, "k", row.body), http.StatusUnprocessableEntity, acpConflict)
			}
		})
	})
	onRouters(t, commerce.ACP(), func(t *testing.T, start starter) {
		s := start(t, acpEndpoints()...)
		s.runsOnce(post(sessions, "k", `{"items":["a","b"]}`))
		s.answers(post(sessions, "k", `{"items":["b","a"]}`), http.StatusUnprocessableEntity, acpConflict)
	})
}

var (
	acpConflict = `{"type":"invalid_request","code":"idempotency_conflict","message":"` + problem.New(problem.KeyReused, "").Detail + `"}`
	acpInFlight = `{"type":"invalid_request","code":"idempotency_in_flight","message":"` + problem.New(problem.InProgress, "").Detail + `"}`
)

// 6.3: the same key and body get the original response, marked, on every endpoint, and nothing
// runs again. 3.1: the key comes back with every response.
func TestACP63Replay(t *testing.T) {
	t.Parallel()
	onRouters(t, commerce.ACP(), func(t *testing.T, start starter) {
		refused := endpoint{http.MethodPost, "/refused", create(http.StatusUnprocessableEntity), nil}
		s := start(t, append(acpEndpoints(), refused)...)
		for _, path := range append(acpPaths, "/refused") {
			first := s.runsOnce(post(path, "k", items))
			for range 3 {
				again := s.answers(post(path, "k", items), first.Code, first.Body.String())
				if again.Header().Get("Idempotent-Replayed") != "true" || first.Header().Get("Idempotent-Replayed") != "" {
					t.Errorf("%s: a replay has %v, the first response %v", path, again.Header(), first.Header())
				}
				if again.Header().Get("Idempotency-Key") != "k" || first.Header().Get("Idempotency-Key") != "k" {
					t.Errorf("%s: the key does not come back: %v, %v", path, first.Header(), again.Header())
				}
			}
		}
	})
}

// 6.4: while the original request runs, an equal one gets 409 with Retry-After, and another
// payload 422.
func TestACP64InFlight(t *testing.T) {
	t.Parallel()
	onRouters(t, commerce.ACP(), func(t *testing.T, start starter) {
		handler, began, end := slow(create(http.StatusCreated))
		s := start(t, endpoint{http.MethodPost, sessions, handler, nil})
		s.meets(post(sessions, "k", items), began, end, func() {
			w := s.answers(post(sessions, "k", items), http.StatusConflict, acpInFlight)
			if w.Header().Get("Retry-After") != "1" || w.Header().Get("Idempotency-Key") != "k" || w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("the 409 has the header %v", w.Header())
			}
			s.answers(post(sessions, "k", `{}`), http.StatusUnprocessableEntity, acpConflict)
		})
	})
}

// 6.5: a 5xx is not kept, and the retry is a new request, which may have another body. So is
// the retry after a panic.
func TestACP65ServerErrorsAreNotKept(t *testing.T) {
	t.Parallel()
	for _, status := range []int{500, 501, 502, 503, 504, 507, 599, 0} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			onRouters(t, commerce.ACP(), func(t *testing.T, start starter) {
				fails := func(w http.ResponseWriter, _ *http.Request) {
					if status == 0 {
						panic("broken")
					}
					w.WriteHeader(status)
				}
				s := start(t, endpoint{http.MethodPost, sessions, fails, nil})
				for _, body := range []string{items, items, `{}`} {
					s.runsOnce(post(sessions, "k", body))
				}
			})
		})
	}
}

// 6.6: responses are kept for 24 hours at least, and an expired key is new.
func TestACP66Retention(t *testing.T) {
	t.Parallel()
	onRouters(t, commerce.ACP(), func(t *testing.T, start starter) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, acpEndpoints()...)
			first := s.runsOnce(post(sessions, "k", items))
			later(24*time.Hour - time.Second)
			s.answers(post(sessions, "k", items), first.Code, first.Body.String())
			later(2 * time.Second)
			if second := s.runsOnce(post(sessions, "k", `{}`)); second.Code != http.StatusCreated {
				t.Errorf("an expired key got %d %s", second.Code, second.Body)
			}
		})
	})
}

// 6.8: an operation that calls another service resumes at its recovery point.
func TestACP68RecoveryPoints(t *testing.T) {
	t.Parallel()
	onRouters(t, commerce.ACP(), func(t *testing.T, start starter) {
		charges := 0
		completes := func(w http.ResponseWriter, r *http.Request) {
			charge, err := core.Step(r.Context(), "charge", func(context.Context) (int, error) { charges++; return charges, nil })
			if err != nil || r.Header.Get("Fail") != "" {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			w.WriteHeader(http.StatusOK)
			_, _ = w.Write([]byte{byte('0' + charge)})
		}
		s := start(t, endpoint{http.MethodPost, sessions + "/{id}/complete", completes, nil})
		s.runsOnce(post(sessions+"/1/complete", "k", items, header("Fail", "1")))
		if w := s.runsOnce(post(sessions+"/1/complete", "k", items)); w.Code != http.StatusOK || w.Body.String() != "1" || charges != 1 {
			t.Errorf("the retry got %d %s after %d charges", w.Code, w.Body, charges)
		}
	})
}

// Every problem of the engine has ACP's flat form and one of its types.
func TestACPProblems(t *testing.T) {
	t.Parallel()
	everyProblem(t, commerce.ACP(), func(t *testing.T, p *problem.Problem, status int, body map[string]any) {
		if status != p.Status || len(body) != 3 || body["message"] == "" || body["code"] == "" {
			t.Errorf("got %d %v", status, body)
		}
		want := map[int]string{4: "invalid_request", 5: "processing_error"}[status/100]
		if status == http.StatusServiceUnavailable {
			want = "service_unavailable"
		}
		testkit.Equal(t, body["type"], any(want), "the type of a %d", status)
	})
}
