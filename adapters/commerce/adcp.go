package commerce

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/oncekey/oncekey/adapters/internal/calls"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// AdCP returns the profile of the Ad Context Protocol, whose ten rules are in "Idempotency"
// of docs/building/by-layer/L1/security.mdx. adapters/mcp serves the protocol's binding to
// MCP; the profile fits a HTTP API too:
//
//   - The key is the member idempotency_key of the body, and required. Keys are separate for
//     each scope: the Scope names the authenticated agent and its account.
//   - Equal requests have the same JSON by value without the closed list of members:
//     idempotency_key, context, governance_context and
//     push_notification_config.authentication.credentials. No route may change the list.
//   - Only successful responses are kept. Every other response releases the key.
//   - An error is {"code", "message", "recovery"}, with retry_after where the same request may
//     succeed later. A conflict has only code and message. The error is the member adcp_error,
//     and the one element of errors, as docs/building/operating/transport-errors.mdx wants.
//   - Responses are kept for 24 hours and a minute: declare replay_ttl_seconds of 86400, and
//     the minute is the tolerance at the end. The key is then remembered until seven days
//     are over, and gets IDEMPOTENCY_EXPIRED.
//   - New keys of an agent are limited by core.WithScopeLimit, which the program adds with numbers
//     of its own. A refused key gets RATE_LIMITED with retry_after, and is not stored.
//
// Numbers are compared by their exact value, and not as doubles, as RFC 8785 would: two
// integers above 2^53 that are one double are different here.
func AdCP() Profile {
	return Profile{
		Policy: must(policy.TTL(24*time.Hour+tolerance), policy.Remember(6*24*time.Hour), policy.KeyField("idempotency_key"),
			policy.KeyFormat(policy.KeyPattern(`[A-Za-z0-9_.:-]{16,255}`)), policy.ExcludeFields(notCompared...),
			policy.Classifier(failure.OnlySuccess), policy.Methods(http.MethodPost, http.MethodPatch, storage.MethodTool)),
		Check: checkAdCP, WriteProblem: writeAdCP,
	}
}

// tolerance at the end of the declared window (rule 6).
const tolerance = time.Minute

// notCompared is the closed list of "Payload equivalence".
var notCompared = []string{".idempotency_key", ".context", ".governance_context", "push_notification_config.authentication.credentials"}

func checkAdCP(p *policy.Policy) error {
	var broken contradictions
	broken.unless(p.Required, "Required", p.Required, "true (AdCP, Idempotency)")
	broken.unless(p.SkipIf == nil, "SkipIf", "a function", "left out: every change of state needs a key (AdCP, Idempotency)")
	broken.unless(p.KeyField == "idempotency_key", "KeyField", p.KeyField, "idempotency_key (AdCP, Idempotency)")
	excluded := slices.Sorted(slices.Values(p.ExcludeFields))
	broken.unless(slices.Equal(excluded, slices.Sorted(slices.Values(notCompared))), "ExcludeFields", p.ExcludeFields, "the closed list of the profile (AdCP, Payload equivalence)")
	broken.unless(len(p.IncludeHeaders) == 0, "IncludeHeaders", p.IncludeHeaders, "left out: only the payload counts (AdCP, Payload equivalence)")
	broken.unless(len(p.RedactFields) == 0, "RedactFields", p.RedactFields, "left out: a replay is the stored response (AdCP, rule 4)")
	status := keeps(p, http.StatusMultipleChoices, true)
	broken.unless(status == 0, "Keep or Classifier", status, "a rule that keeps only successful responses (AdCP, rule 3)")
	broken.unless(p.OnStoreError == policy.FailClosed, "OnStoreError", p.OnStoreError, "FailClosed (AdCP, rule 6)")
	broken.unless(p.TTL >= time.Hour && p.TTL <= 7*24*time.Hour+tolerance, "TTL", p.TTL, "from 1h0m0s to 168h0m0s, and a minute of tolerance (AdCP, rules 6 and 7)")
	return broken.joined()
}

var adcpCodes = map[string]string{
	problem.PrincipalMissing: "AUTH_REQUIRED",
	problem.KeyMissing:       "INVALID_REQUEST",
	problem.KeyInvalid:       "INVALID_REQUEST",
	problem.BodyTooLarge:     "INVALID_REQUEST",
	problem.BodyUnreadable:   "INVALID_REQUEST",
	problem.InProgress:       "IDEMPOTENCY_IN_FLIGHT",
	problem.KeyReused:        "IDEMPOTENCY_CONFLICT",
	problem.KeyExpired:       "IDEMPOTENCY_EXPIRED",
	problem.ScopeLimited:     "RATE_LIMITED",
	problem.StoreUnavailable: "SERVICE_UNAVAILABLE",
	problem.ShuttingDown:     "SERVICE_UNAVAILABLE",
	problem.HandlerCancelled: "SERVICE_UNAVAILABLE",
	problem.NotConfirmed:     "SERVICE_UNAVAILABLE",
}

// writeAdCP writes a problem as core/error.json of the protocol. Rule 9 names the member
// details.retry_after, and the schema retry_after: an error has both.
func writeAdCP(w http.ResponseWriter, _ *http.Request, p problem.Problem) {
	about := map[string]any{"code": strings.ToUpper(codeOf(adcpCodes, &p)), "message": calls.Message(&p), "recovery": recoveryOf(&p)}
	if seconds := int64((p.RetryAfter + time.Second - 1) / time.Second); seconds > 0 {
		about["retry_after"], about["details"] = seconds, map[string]int64{"retry_after": seconds}
	}
	switch p.Code {
	case problem.KeyMissing, problem.KeyInvalid:
		about["field"] = "idempotency_key"
	case problem.KeyReused: // nothing else, or a conflict could leak (rule 5)
		delete(about, "recovery")
	}
	respond(w, p.Status, map[string]any{"adcp_error": about, "errors": []any{about}})
}

// recoveryOf says whether the same request may succeed later, another request may, or none.
func recoveryOf(p *problem.Problem) string {
	switch {
	case p.RetryAfter > 0:
		return "transient"
	case p.Status < http.StatusInternalServerError && p.Code != problem.NotReplayable && p.Code != problem.OutcomeUnknown:
		return "correctable"
	default:
		return "terminal"
	}
}
