package commerce

import (
	"net/http"
	"strings"
	"time"

	"github.com/oncekey/oncekey/adapters/internal/calls"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/policy"
)

// ACP returns the profile of the Agentic Commerce Protocol, whose rules are in section 6 of
// rfcs/rfc.agentic_checkout.md, release 2026-04-17:
//
//   - Every POST needs a key of 1 to 255 visible characters. Keys are separate for each scope
//     and path: the Scope names the authenticated client.
//   - Equal requests have the same JSON by value: the order of members does not count, 1.0 is
//     1, null is not an absent member, and arrays keep their order. Headers do not count.
//   - A replay has the first response's status and body, and Idempotent-Replayed: true. The
//     key comes back with every response.
//   - The errors are {"type", "code", "message"}: 400 idempotency_key_required, 422
//     idempotency_conflict, 409 idempotency_in_flight with Retry-After. Other problems keep
//     the engine's codes.
//   - A 5xx is never kept. Responses are kept for 24 hours, and a route may choose more.
//
// One deviation is stricter: the query counts, which no endpoint of ACP has.
func ACP() Profile {
	return Profile{
		Policy: must(policy.TTL(24*time.Hour), policy.Methods(http.MethodPost, storage.MethodTool)),
		Check:  checkACP, WriteProblem: writeACP, ReplayHeader: "Idempotent-Replayed", EchoKey: true,
	}
}

func checkACP(p *policy.Policy) error {
	var broken contradictions
	broken.unless(p.Required, "Required", p.Required, "true (ACP 6.1)")
	broken.unless(p.Guards(http.MethodPost), "Methods", strings.Join(p.Methods, ","), "a list with POST (ACP 6.1)")
	broken.unless(p.SkipIf == nil, "SkipIf", "a function", "left out: every POST needs a key (ACP 6.1)")
	broken.unless(p.KeyField == "", "KeyField", p.KeyField, "left out: the header carries the key (ACP 6.1)")
	broken.unless(p.KeyFormat == policy.KeySyntax{}, "KeyFormat", p.KeyFormat, "left out: keys are opaque (ACP 6.1)")
	broken.unless(p.KeyAge == 0, "KeyAge", p.KeyAge, "0: keys are opaque, and an expired key is new (ACP 6.1, 6.6)")
	broken.unless(!p.ExactBytes, "ExactBytes", p.ExactBytes, "false: bodies are equal by value (ACP 6.2)")
	broken.unless(len(p.ExcludeFields) == 0, "ExcludeFields", p.ExcludeFields, "left out: the whole body counts (ACP 6.2, 6.7)")
	broken.unless(len(p.IncludeFields) == 0, "IncludeFields", p.IncludeFields, "left out: the whole body counts (ACP 6.2, 6.7)")
	broken.unless(len(p.IncludeHeaders) == 0, "IncludeHeaders", p.IncludeHeaders, "left out: headers do not count (ACP 6.2)")
	broken.unless(len(p.RedactFields) == 0, "RedactFields", p.RedactFields, "left out: a replay is the first response (ACP 6.3)")
	broken.unless(p.OnStoreError == policy.FailClosed, "OnStoreError", p.OnStoreError, "FailClosed: no side effect happens twice (ACP 6.3)")
	broken.unless(!p.OnAbandoned.Refuses(), "OnAbandoned", p.OnAbandoned, "Reexecute or Recover: a retry after a 5xx is a new request (ACP 6.5)")
	if recovers := p.OnAbandoned.RecoverFunc() != nil; !p.OnAbandoned.Refuses() {
		status := keeps(p, http.StatusInternalServerError, recovers)
		broken.unless(status == 0, "Keep, Uncertain or Classifier", status, "a rule that releases the key after every 5xx (ACP 6.5)")
	}
	broken.unless(p.TTL >= 24*time.Hour, "TTL", p.TTL, "at least 24h0m0s (ACP 6.6)")
	broken.unless(p.Remember == 0, "Remember", p.Remember, "0: an expired key is new (ACP 6.6)")
	return broken.joined()
}

var acpCodes = map[string]string{
	problem.KeyMissing: "idempotency_key_required",
	problem.KeyReused:  "idempotency_conflict",
	problem.InProgress: "idempotency_in_flight",
}

// writeACP writes a problem as ACP's section 6.4 wants.
func writeACP(w http.ResponseWriter, _ *http.Request, p problem.Problem) {
	kind := "invalid_request"
	switch {
	case p.Status == http.StatusServiceUnavailable:
		kind = "service_unavailable"
	case p.Status >= http.StatusInternalServerError:
		kind = "processing_error"
	}
	respond(w, p.Status, struct {
		Type    string `json:"type"`
		Code    string `json:"code"`
		Message string `json:"message"`
	}{kind, codeOf(acpCodes, &p), calls.Message(&p)})
}
