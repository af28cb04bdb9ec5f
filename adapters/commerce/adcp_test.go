package commerce_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/adapters/commerce"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// The rules of "Idempotency" of AdCP's security.mdx that HTTP can show, one test a rule.

const buys = "/create_media_buy"

// buy is a payload with members beside its key.
func buy(key, members string) string {
	return `{"idempotency_key":"` + key + `","packages":[{"product_id":"p","budget":5000}]` + members + `}`
}

const adcpKey = "5b0f6f0e-0a52-4d9b-9f42-000000000001"

func adcpEndpoints(handler http.HandlerFunc) endpoint {
	return endpoint{http.MethodPost, buys, handler, nil}
}

// expectError expects an error of AdCP, with these members alone. A recovery of "" is none.
func (s *shop) expectError(r *http.Request, code, recovery string, more ...string) map[string]any {
	s.Helper()
	before := s.runs.Load()
	w := s.do(r)
	var body struct{ Errors []map[string]any }
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || len(body.Errors) != 1 || w.Code < 400 {
		s.Fatalf("got %d %s", w.Code, w.Body)
	}
	got := body.Errors[0]
	said, _ := got["recovery"].(string)
	if got["code"] != code || said != recovery || got["message"] == "" || len(got) != 2+min(len(recovery), 1)+len(more) {
		s.Errorf("got %v, want %s, %s and %q alone", got, code, recovery, more)
	}
	for _, name := range more {
		if got[name] == nil {
			s.Errorf("%v has no %s", got, name)
		}
	}
	testkit.Equal(s, s.runs.Load(), before, "a handler ran")
	return got
}

// A request without a key, or with a malformed one, is INVALID_REQUEST.
func TestAdCPKeyIsRequired(t *testing.T) {
	t.Parallel()
	onRouters(t, commerce.AdCP(), func(t *testing.T, start starter) {
		s := start(t, adcpEndpoints(create(http.StatusOK)))
		for _, body := range []string{`{}`, `{"idempotency_key":null}`, buy("short", ""), buy("sixteen characters", ""), `{"idempotency_key":{}}`, `{"packages":[{"idempotency_key":"` + adcpKey + `"}]}`, ``} {
			got := s.expectError(post(buys, "", body), "INVALID_REQUEST", "correctable", "field")
			testkit.Equal(t, got["field"], "idempotency_key", "%s: the field of %v", body, got)
		}
		s.expectError(post(buys, adcpKey, `{}`), "INVALID_REQUEST", "correctable", "field") // the header alone
	})
}

// Rule 2: the first success is canonical, also for a task that is only submitted.
// Rule 4: a replay returns it, marked, and runs nothing.
func TestAdCPReplay(t *testing.T) {
	t.Parallel()
	onRouters(t, commerce.AdCP(), func(t *testing.T, start starter) {
		status := "submitted"
		s := start(t, adcpEndpoints(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"status":"` + status + `","task_id":"t_1"}`))
		}))
		first := s.runsOnce(post(buys, "", buy(adcpKey, "")))
		status = "completed"
		again := s.answers(post(buys, "", buy(adcpKey, "")), http.StatusOK, first.Body.String())
		testkit.Equal(t, again.Header().Get("X-Idempotent-Replay"), "true", "a replay has the header %v", again.Header())
	})
}

// Rule 3: only successful responses are kept, and an error of any kind frees the key for any
// payload.
func TestAdCPKeepsOnlySuccess(t *testing.T) {
	t.Parallel()
	onRouters(t, commerce.AdCP(), func(t *testing.T, start starter) {
		status := 0
		s := start(t, adcpEndpoints(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		for _, status = range []int{400, 402, 403, 404, 409, 422, 429, 500, 502, 503} {
			s.runsOnce(post(buys, "", buy(adcpKey, "")))
		}
		status = http.StatusOK
		s.runsOnce(post(buys, "", buy(adcpKey, `,"po_number":"1"`)))
		s.answers(post(buys, "", buy(adcpKey, `,"po_number":"1"`)), http.StatusOK, "")
	})
}

// Rule 5: another payload under the key is IDEMPOTENCY_CONFLICT, whose body has a code and a
// message and no hint of the first payload. The closed list of members does not count, at the
// root alone, and null is not an absent member.
func TestAdCPPayloads(t *testing.T) {
	t.Parallel()
	first := `,"context":{"id":1},"governance_context":"g1","ext":{"a":1},"push_notification_config":{"url":"https://b.example/1","authentication":{"schemes":["Bearer"],"credentials":"secret-of-first"}}`
	type row struct {
		from, to string
		equal    bool
	}
	testkit.Each(t, map[string]row{
		"context":                {`"context":{"id":1}`, `"context":{"id":2,"more":[1]}`, true},
		"governance_context":     {`"g1"`, `"g2"`, true},
		"no governance_context":  {`"governance_context":"g1",`, ``, true},
		"credentials":            {`secret-of-first`, `rotated`, true},
		"the webhook's URL":      {`b.example/1`, `b.example/2`, false},
		"the webhook's scheme":   {`["Bearer"]`, `["HMAC"]`, false},
		"ext":                    {`"ext":{"a":1}`, `"ext":{"a":2}`, false},
		"a context inside":       {`"ext":{"a":1}`, `"ext":{"a":1,"context":1}`, false},
		"credentials inside":     {`"ext":{"a":1}`, `"ext":{"a":1,"credentials":1}`, false},
		"null is not absent":     {`"ext":{"a":1}`, `"ext":{"a":1,"b":null}`, false},
		"members in other order": {`"schemes":["Bearer"],"credentials":"secret-of-first"`, `"credentials":"x","schemes":["Bearer"]`, true},
	}, func(t *testing.T, row row) {
		onRouters(t, commerce.AdCP(), func(t *testing.T, start starter) {
			s := start(t, adcpEndpoints(create(http.StatusOK)))
			body := buy(adcpKey, first)
			other := strings.Replace(body, row.from, row.to, 1)
			if other == body {
				t.Fatalf("%s is not in %s", row.from, body)
			}
			answer := s.runsOnce(post(buys, "", body))
			if row.equal {
				s.answers(post(buys, "", other), answer.Code, answer.Body.String())
			} else {
				s.expectError(post(buys, "", other), "IDEMPOTENCY_CONFLICT", "")
			}
		})
	})
}

// Rule 6: a response is kept for the declared window and a minute of tolerance. Afterwards the
// key is IDEMPOTENCY_EXPIRED, and nothing runs. While the store fails, nothing runs either.
func TestAdCPExpiry(t *testing.T) {
	t.Parallel()
	onRouters(t, commerce.AdCP(), func(t *testing.T, start starter) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, adcpEndpoints(create(http.StatusOK)))
			first := s.runsOnce(post(buys, "", buy(adcpKey, "")))
			later(24*time.Hour + 59*time.Second)
			s.answers(post(buys, "", buy(adcpKey, "")), http.StatusOK, first.Body.String())
			for range 3 {
				later(40 * time.Hour)
				s.expectError(post(buys, "", buy(adcpKey, "")), "IDEMPOTENCY_EXPIRED", "correctable")
			}
		})
	})
	testkit.Each(t, routers, func(t *testing.T, mount mounting) {
		s := open(t, commerce.AdCP(), broken(), mount, []endpoint{adcpEndpoints(create(http.StatusOK))})
		s.expectError(post(buys, "", buy(adcpKey, "")), "SERVICE_UNAVAILABLE", "transient", "retry_after", "details")
	})
}

// Rule 7: the window that a seller declares, replay_ttl_seconds, is from an hour to seven days.
func TestAdCPWindow(t *testing.T) {
	t.Parallel()
	profile := commerce.AdCP()
	testkit.Equal(t, profile.Policy.TTL-time.Minute, 24*time.Hour, "the window")
	for hours, want := range map[int]bool{0: false, 1: true, 168: true, 169: false} {
		declared, err := policy.New(policy.From(profile.Policy), policy.TTL(max(time.Duration(hours)*time.Hour, time.Minute)))
		if err == nil {
			err = profile.Check(&declared)
		}
		testkit.Equal(t, err == nil, want, "a window of %d hours is valid (%v)", hours, err)
	}
}

// Rule 9: the first insert wins. The second request gets IDEMPOTENCY_IN_FLIGHT with
// details.retry_after, and another payload gets the conflict at once. A failure releases the
// key, and so does a handler that runs for too long.
func TestAdCPInFlight(t *testing.T) {
	t.Parallel()
	onRouters(t, commerce.AdCP(), func(t *testing.T, start starter) {
		handler, began, end := slow(create(http.StatusBadGateway))
		s := start(t, adcpEndpoints(handler))
		s.meets(post(buys, "", buy(adcpKey, "")), began, end, func() {
			got := s.expectError(post(buys, "", buy(adcpKey, "")), "IDEMPOTENCY_IN_FLIGHT", "transient", "retry_after", "details")
			if details, _ := got["details"].(map[string]any); details["retry_after"] != 1.0 || got["retry_after"] != 1.0 {
				t.Errorf("got %v", got)
			}
			s.expectError(post(buys, "", buy(adcpKey, `,"ext":1`)), "IDEMPOTENCY_CONFLICT", "")
		})
		s.meets(post(buys, "", buy(adcpKey, `,"ext":1`)), began, end, func() {}) // released
	})
	onRouters(t, commerce.AdCP(), func(t *testing.T, start starter) {
		synctest.Test(t, func(t *testing.T) {
			hangs := adcpEndpoints(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			hangs.options = []policy.Option{policy.MaxRun(time.Minute)}
			s := start(t, hangs)
			for range 2 {
				began := time.Now()
				if s.runsOnce(post(buys, "", buy(adcpKey, ""))); time.Since(began) != time.Minute {
					t.Errorf("the handler ran for %v", time.Since(began))
				}
			}
		})
	})
}

// Rule 10: a downstream system gets a key that is derived for it, the same in each attempt, and
// never the buyer's. A recorded step is not invoked again.
func TestAdCPDownstream(t *testing.T) {
	t.Parallel()
	onRouters(t, commerce.AdCP(), func(t *testing.T, start starter) {
		var ads, billing []string
		s := start(t, adcpEndpoints(func(w http.ResponseWriter, r *http.Request) {
			_, err := core.Step(r.Context(), "order", func(ctx context.Context) (int, error) {
				ads = append(ads, core.DeriveKey(ctx, "ad server"))
				return 1, nil
			})
			billing = append(billing, core.DeriveKey(r.Context(), "billing"))
			if err != nil || len(billing) == 1 {
				w.WriteHeader(http.StatusBadGateway)
			}
		}))
		s.runsOnce(post(buys, "", buy(adcpKey, "")))
		s.runsOnce(post(buys, "", buy(adcpKey, "")))
		if len(ads) != 1 || len(billing) != 2 || billing[0] != billing[1] || billing[0] == ads[0] || strings.Contains(billing[0]+ads[0], adcpKey) {
			t.Errorf("the ad server got the keys %q, and billing %q", ads, billing)
		}
	})
}

// Every problem of the engine is one error with a recovery, in the envelope and in the payload
// (transport-errors.mdx).
func TestAdCPProblems(t *testing.T) {
	t.Parallel()
	everyProblem(t, commerce.AdCP(), func(t *testing.T, p *problem.Problem, status int, body map[string]any) {
		all, _ := body["errors"].([]any)
		if len(all) != 1 || !reflect.DeepEqual(all[0], body["adcp_error"]) || status != p.Status {
			t.Fatalf("got %d %v", status, body)
		}
		about, _ := all[0].(map[string]any)
		code, _ := about["code"].(string)
		transient, final := p.RetryAfter > 0, p.Status >= 500 || p.Code == problem.NotReplayable || p.Code == problem.OutcomeUnknown
		if transient != (about["recovery"] == "transient") || (final && !transient) != (about["recovery"] == "terminal") || code == "" || strings.ToUpper(code) != code || about["message"] == "" {
			t.Errorf("got %v", about)
		}
	})
}

// Rule 8: an agent with a flood of new keys gets RATE_LIMITED with retry_after, and the seller
// stores nothing of it. Its replays and the keys of other agents pass.
func TestAdCPFloodOfKeys(t *testing.T) {
	t.Parallel()
	testkit.EachInBubble(t, routers, func(t *testing.T, mount mounting) {
		store, limit := memstore.New(), core.WithScopeLimit(core.ScopeLimit{InFlight: 10, PerMinute: 20})
		s := open(t, commerce.AdCP(), store, mount, []endpoint{adcpEndpoints(create(http.StatusOK))}, limit)
		for n := range 20 {
			s.runsOnce(post(buys, "", buy(fmt.Sprintf("%s-%d", adcpKey, n), "")))
		}
		kept := store.Len()
		for n := range 200 {
			got := s.expectError(post(buys, "", buy(fmt.Sprintf("%s-flood-%d", adcpKey, n), "")), "RATE_LIMITED", "transient", "retry_after", "details")
			if got["retry_after"] != 60.0 {
				t.Fatalf("got %v, want retry_after 60", got)
			}
		}
		testkit.Equal(t, store.Len(), kept, "records after the flood")
		replay := s.do(post(buys, "", buy(adcpKey+"-0", "")))
		if replay.Code != http.StatusOK || replay.Header().Get("X-Idempotent-Replay") != "true" {
			t.Errorf("a replay got %d %s", replay.Code, replay.Body)
		}
		s.runsOnce(post(buys, "", buy(adcpKey+"-other", ""), header("Authorization", "Bearer other")))
		later(time.Minute)
		s.runsOnce(post(buys, "", buy(adcpKey+"-flood-0", "")))
	})
}
