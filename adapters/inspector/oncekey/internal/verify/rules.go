package verify

// Level is the force of a rule.
type Level string

// The levels, as RFC 2119 has them. For a text without its words, MUST is a statement about the server's
// behaviour, and SHOULD a remark.
const (
	Must   Level = "MUST"
	Should Level = "SHOULD"
)

// Protocol is a text that has rules.
type Protocol struct {
	Name, Source string
}

// Protocols are all texts, in the order in which they are printed.
var Protocols = []Protocol{
	{"draft", "draft-ietf-httpapi-idempotency-key-header-07"},
	{"acp", "Agentic Commerce Protocol, rfc.agentic_checkout.md, 2026-04-17"},
	{"ucp", "Universal Commerce Protocol, signatures.md, Replay Protection"},
	{"stripe", "Stripe API reference, Idempotent requests"},
}

// rule is a rule of a protocol.
type rule struct {
	id      string
	section string
	level   Level
	text    string
	probes  []Probe // none: the rule cannot be seen from outside
	judge   judge
}

func by(all ...Probe) []Probe { return all }

// rules is the table of all rules.
var rules = map[string][]rule{
	"draft": {
		{"key-required", "2.7", Should, "without a key, where one is required: 400", by(NoKey), requiresKey(false)},
		{"retry", "2.6", Should, "a retry gets the result of the completed request", by(EqualRetry), afterFirst(replays)},
		{"once", "2.6", Must, "of concurrent duplicates one runs", by(Duplicates), responded(once)},
		{"in-progress", "2.7", Should, "a duplicate of a request in progress: 409", by(Duplicates), responded(conflicts)},
		{"reuse-fails", "2.7", Must, "another payload under the same key fails", by(OtherAfter, OtherDuring), responded(refusesOther)},
		{"reuse-status", "2.7", Should, "another payload under the same key: 422", by(OtherAfter), afterFirst(refusesWith(422))},
		{"lost-response", "2.6", Should, "a retry after a lost response gets that of the only run", by(CutInResponse, CutBefore), responded(survivesLoss)},
		{"expiry", "2.3", Should, "keys expire as the documentation says", nil, nil},
	},
	"acp": {
		{"key-required", "6.1", Must, "without a key: 400", by(NoKey), requiresKey(true)},
		{"key-255", "6.1", Must, "a key of 255 characters is accepted", by(LongestKey), accepts},
		{"key-256", "6.1", Should, "a key of 256 characters is refused", by(TooLongKey), refuses},
		{"path-scope", "6.1", Must, "the same key at another path is another key", by(OtherEndpoint), afterFirst(scopedToPath)},
		{"member-order", "6.2", Must, "the order of members does not count", by(MemberOrder), afterFirst(countsAsEqual)},
		{"number-spelling", "6.2", Must, "1.0 equals 1", by(NumberSpelling), afterFirst(countsAsEqual)},
		{"null-differs", "6.2", Must, "null differs from an absent member", by(NullMember), afterFirst(countsAsOther)},
		{"array-order", "6.2", Must, "the order of an array counts", by(ArrayOrder), afterFirst(countsAsOther)},
		{"replay", "6.3", Must, "a retry gets the same status and response", by(EqualRetry), afterFirst(replays)},
		{"replay-header", "6.3", Should, "a replay has Idempotent-Replayed: true", by(EqualRetry), afterFirst(marks)},
		{"once", "6.3", Must, "a replay has no side effects", by(EqualRetry, Duplicates), responded(once)},
		{"lost-response", "6.3", Must, "a retry after a lost response gets that of the only run", by(CutInResponse, CutBefore), responded(survivesLoss)},
		{"other-body", "6.4", Must, "another body: 422", by(OtherAfter), afterFirst(refusesWith(422))},
		{"other-body-fails", "6.4", Must, "another body at the same time fails", by(OtherDuring), responded(refusesOther)},
		{"in-flight", "6.4", Must, "a duplicate in flight: 409", by(Duplicates), responded(conflicts)},
		{"retry-after", "6.4", Should, "that 409 has Retry-After", by(Duplicates), responded(namesPause)},
		{"error-body", "6.4", Must, "errors have type, code and message", by(NoKey, OtherAfter, Duplicates), hasCode},
		{"echo", "3.1", Should, "responses have the request's Idempotency-Key", by(EqualRetry, OtherAfter), afterFirst(echoes)},
		{"no-5xx", "6.5", Must, "5xx is not kept: a retry runs", by(ServerError), forgetsErrors},
		{"retention", "6.6", Must, "keys are kept for at least 24 hours", nil, nil},
	},
	"ucp": {
		{"replay", "", Must, "a duplicate gets the cached response", by(EqualRetry), afterFirst(replays)},
		{"once", "", Must, "a duplicate does not run again", by(EqualRetry, Duplicates), responded(once)},
		{"lost-response", "", Must, "a retry after a lost response gets that of the only run", by(CutInResponse, CutBefore), responded(survivesLoss)},
		{"other-body", "", Must, "another body: 409, and it does not run", by(OtherAfter), afterFirst(refusesWith(409))},
		{"other-body-fails", "", Must, "another body at the same time fails", by(OtherDuring), responded(refusesOther)},
		{"raw-bytes", "", Must, "another spelling of the same JSON is another body", by(MemberOrder, NumberSpelling), afterFirst(countsAsOther)},
		{"fail-closed", "", Must, "without its store the server responds 503", nil, nil},
		{"retention", "", Must, "keys are kept for at least 24 hours", nil, nil},
	},
	"stripe": {
		{"key-optional", "", Must, "a request without a key runs", by(NoKey), accepts},
		{"key-255", "", Must, "a key of 255 characters is accepted", by(LongestKey), accepts},
		{"replay", "", Must, "a retry gets the same status and body", by(EqualRetry), afterFirst(replays)},
		{"replay-header", "", Must, "a replay has Idempotent-Replayed: true", by(EqualRetry), afterFirst(marks)},
		{"once", "", Must, "a retry does not run again", by(EqualRetry, Duplicates), responded(once)},
		{"lost-response", "", Must, "a retry after a lost response gets that of the only run", by(CutInResponse, CutBefore), responded(survivesLoss)},
		{"other-parameters", "", Must, "other parameters: 400 with the type idempotency_error", by(OtherAfter), afterFirst(refusesParameters)},
		{"other-at-once", "", Must, "other parameters at the same time fail", by(OtherDuring), responded(refusesOther)},
		{"other-endpoint", "Errors", Must, "the key of another endpoint: 400 with the type idempotency_error", by(OtherEndpoint), afterFirst(refusesOtherEndpoint)},
		{"concurrent", "", Must, "a duplicate of a running request: 409", by(Duplicates), responded(conflicts)},
		{"keeps-500", "", Must, "the result is kept, 500 too", by(ServerError), keepsErrors},
		{"invalid", "", Must, "a request that fails validation is not kept", by(MalformedPayload), forgetsInvalid},
		{"get", "", Should, "a key has no effect on GET", by(KeyOnGet), ignoresKeyOnGet},
		{"retention", "", Must, "keys are kept for at least 24 hours", nil, nil},
	},
}
