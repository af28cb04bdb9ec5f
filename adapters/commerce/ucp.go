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

// UCP returns the profile of the Universal Commerce Protocol, whose rules are in "Replay
// Protection" of docs/specification/signatures.md and "HTTP Headers" of shopping/checkout/rest.md:
//
//   - An operation that changes state needs a key with at least 128 bits: a UUID, or 22
//     characters or more. Keys are separate for each scope, method and path. A route whose
//     key is optional in the binding may declare policy.Required(false).
//   - Equal requests have equal bytes. Another spelling of the same JSON is another payload.
//   - A duplicate gets the stored response. Another payload gets 409.
//   - The errors are {"code", "content"}, with the codes of the engine. A 409 with Retry-After
//     is an operation in progress, and one without is final.
//   - Responses are kept for 48 hours, and a route may choose 24 or more.
//   - While the store fails, requests get 503.
//
// Business outcomes are responses with status 200, and so they are kept. Verify signatures
// outside of the guard.
func UCP() Profile {
	return Profile{
		Policy: must(policy.TTL(48*time.Hour), policy.ExactBytes(true), policy.KeyFormat(policy.KeyPattern(strongKey)),
			policy.Methods(http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, storage.MethodTool)),
		Check: checkUCP, WriteProblem: writeUCP, EchoKey: true,
	}
}

// strongKey matches keys that may have 128 bits: a UUID has 36 characters, and 22 letters and
// digits have 131 bits.
const strongKey = `[!-~]{22,255}`

func checkUCP(p *policy.Policy) error {
	var broken contradictions
	broken.unless(p.SkipIf == nil, "SkipIf", "a function", "left out: every change of state is guarded (UCP, Replay Protection)")
	broken.unless(p.KeyField == "", "KeyField", p.KeyField, "left out: the header carries the key (UCP, Replay Protection)")
	broken.unless(!p.KeyFormat.Allows(strings.Repeat("k", 21)), "KeyFormat", p.KeyFormat, "a format of keys with at least 128 bits, such as UUID (UCP, Replay Protection)")
	broken.unless(p.ExactBytes, "ExactBytes", p.ExactBytes, "true: the bytes of the body count (UCP, Replay Protection)")
	broken.unless(len(p.IncludeHeaders) == 0, "IncludeHeaders", p.IncludeHeaders, "left out: only the body counts (UCP, Replay Protection)")
	broken.unless(len(p.RedactFields) == 0, "RedactFields", p.RedactFields, "left out: a duplicate gets the stored response (UCP, Replay Protection)")
	broken.unless(p.OnStoreError == policy.FailClosed, "OnStoreError", p.OnStoreError, "FailClosed (UCP, Replay Protection)")
	broken.unless(p.TTL >= 24*time.Hour, "TTL", p.TTL, "at least 24h0m0s (UCP, Replay Protection)")
	return broken.joined()
}

// writeUCP writes a problem as a protocol error of UCP. A key with another payload is 409
// there, and a retry tells it from one in progress by Retry-After.
func writeUCP(w http.ResponseWriter, _ *http.Request, p problem.Problem) {
	status := p.Status
	if p.Code == problem.KeyReused {
		status = http.StatusConflict
	}
	respond(w, status, struct {
		Code    string `json:"code"`
		Content string `json:"content"`
	}{p.Code, calls.Message(&p)})
}
