// Package problem defines the engine's own error responses: RFC 9457 problems with a
// code for programs. docs/problems.md explains each code.
//
// To send errors in another form, pass a [Writer] to core.WithProblemWriter.
package problem

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// The codes of a Problem.
const (
	PrincipalMissing = "principal_missing"
	KeyMissing       = "key_missing"
	KeyInvalid       = "key_invalid"
	BodyTooLarge     = "body_too_large"
	BodyUnreadable   = "body_unreadable"
	InProgress       = "in_progress"
	KeyReused        = "key_reused"
	NotReplayable    = "not_replayable"
	KeyExpired       = "key_expired"
	OutcomeUnknown   = "outcome_unknown"
	ScopeLimited     = "scope_limited"
	StoreUnavailable = "store_unavailable"
	ShuttingDown     = "shutting_down"
	HandlerCancelled = "handler_cancelled"
	HandlerFailed    = "handler_failed"
	NotConfirmed     = "not_confirmed"
	RolledBack       = "rolled_back"

	// WrongSetup is the code of a 500: the guard cannot protect the operation where
	// the guard is mounted. The handler did not run. The event and the problem's
	// error member name the right setup.
	WrongSetup = "wrong_setup"
)

// Problem is an error response of the engine: an RFC 9457 problem with the extension
// members code and error.
type Problem struct {
	// Type is a URI that names the kind of problem.
	Type string `json:"type"`
	// Title is the same for every problem with the same Code.
	Title string `json:"title"`
	// Status is the HTTP status.
	Status int `json:"status"`
	// Detail advises the client.
	Detail string `json:"detail"`
	// Code is for programs: one of the constants of this package.
	Code string `json:"code"`
	// Error is one sentence, for clients that read a member of this name.
	Error string `json:"error"`
	// Differs names the members of the request that differ from the key's first
	// request. Set only with core.WithDiffers.
	Differs []string `json:"differs,omitempty"`
	// Others counts the differing members that Differs does not name, because
	// their names could be values (see fingerprint.LooksLikeName).
	Others int `json:"others,omitempty"`
	// RetryAfter is sent as the Retry-After header, in whole seconds rounded up. Zero
	// sends no header. RetryAfter is above zero where the problem passes by itself, and
	// the client should send the same request later: a 409 without Retry-After is final.
	RetryAfter time.Duration `json:"-"`
	// Challenge is sent as the WWW-Authenticate header, unless empty. The value comes
	// from the scope function, see core.Challenge.
	Challenge string `json:"-"`
}

// Writer writes a problem as a response, with the status p.Status. The header of w
// already has the problem's Cache-Control (no-store), Retry-After and
// WWW-Authenticate, which the writer may change. A Writer must be safe for
// concurrent use.
type Writer func(w http.ResponseWriter, r *http.Request, p Problem)

// problemTypes is the documentation page with a heading for each code.
const problemTypes = "https://github.com/oncekey/oncekey/blob/main/docs/problems.md#"

// New returns the problem of a code, which must be one of [Codes]: any other gives a
// problem without a status. The message is the Error; empty means the problem's title.
// All clients get the same text, so that no client can tell a foreign key from an
// unknown key.
func New(code, message string) *Problem {
	kind := kinds[code]
	if message == "" {
		message = kind.title
	}
	return &Problem{
		Type: problemTypes + code, Title: kind.title, Status: kind.status,
		Detail: kind.detail, Code: code, Error: message, RetryAfter: kind.retryAfter,
	}
}

// Codes returns all codes, sorted.
func Codes() []string { return slices.Sorted(maps.Keys(kinds)) }

var kinds = map[string]struct {
	status     int
	title      string
	detail     string
	retryAfter time.Duration
}{
	PrincipalMissing: {http.StatusUnauthorized, "Principal missing", "Authenticate to use an Idempotency-Key.", 0},
	KeyMissing:       {http.StatusBadRequest, "Idempotency-Key missing", "Send the header Idempotency-Key, new for every operation and the same for every retry of it.", 0},
	KeyInvalid:       {http.StatusBadRequest, "Idempotency-Key invalid", "Send one key of 1 to 255 visible ASCII characters, such as a random UUID.", 0},
	BodyTooLarge:     {http.StatusRequestEntityTooLarge, "Request body too large", "Send a smaller request body.", 0},
	BodyUnreadable:   {http.StatusBadRequest, "Request body unreadable", "Send the request again with its whole body.", 0},
	InProgress:       {http.StatusConflict, "Request in progress", "A request with this Idempotency-Key is in progress, or has only just ended: retry later with the same key.", time.Second},
	KeyReused:        {http.StatusUnprocessableEntity, "Idempotency-Key reused", "This Idempotency-Key was used with another payload: use a new key for a new operation.", 0},
	NotReplayable:    {http.StatusConflict, "Response not replayable", "An earlier request with this Idempotency-Key was handled, but its response was not kept: look up its result, and do not send it with a new key.", 0},
	KeyExpired:       {http.StatusConflict, "Idempotency-Key expired", "An earlier request with this Idempotency-Key was handled, and the time for which its response was kept is over: look up its result, and do not send it with a new key.", 0},
	OutcomeUnknown:   {http.StatusConflict, "Outcome unknown", "An earlier attempt was cut off, and whether it took effect is not known: look up its result before you send it with a new key.", 0},
	ScopeLimited:     {http.StatusTooManyRequests, "Too many new keys", "This client has too many requests with new Idempotency-Keys, and this one was not processed: retry later with the same key.", time.Second},
	StoreUnavailable: {http.StatusServiceUnavailable, "Idempotency store unavailable", "This request was not processed, but an earlier one with the same Idempotency-Key may have been: retry later with the same key.", time.Second},
	ShuttingDown:     {http.StatusServiceUnavailable, "Shutting down", "This request was not processed, but an earlier one with the same Idempotency-Key may have been: retry with the same key.", time.Second},
	HandlerCancelled: {http.StatusServiceUnavailable, "Request cancelled", "The operation was cut short, and may have taken effect in part: retry later with the same Idempotency-Key.", time.Second},
	NotConfirmed:     {http.StatusServiceUnavailable, "Response not confirmed", "The result of the operation is not known yet. Retry with the same Idempotency-Key to learn it.", time.Second},
	RolledBack:       {http.StatusInternalServerError, "Rolled back", "The database refused to commit the operation, and stored no part of it. The Idempotency-Key can be used again.", 0},
	WrongSetup:       {http.StatusInternalServerError, "Idempotency guard set up wrongly", "The operation was not started, because this service could not protect it from running twice.", 0},
	HandlerFailed:    {http.StatusInternalServerError, "Request failed", "The operation may have taken effect, but its response was lost: look up its result, and do not send it with a new key.", 0},
}

// SetHeader sets the header fields of the problem: Cache-Control (no-store, because
// the next request may succeed), Retry-After and WWW-Authenticate.
func (p *Problem) SetHeader(h http.Header) {
	h.Set("Cache-Control", "no-store")
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((p.RetryAfter+time.Second-1)/time.Second), 10))
	}
	if p.Challenge != "" {
		h.Set("WWW-Authenticate", p.Challenge)
	}
}

// Write is the default Writer: application/problem+json.
func Write(w http.ResponseWriter, _ *http.Request, p Problem) {
	body, err := json.Marshal(p)
	if err != nil { // strings and an int always marshal
		panic(err)
	}
	header := w.Header()
	header.Set("Content-Type", "application/problem+json")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(p.Status)
	w.Write(append(body, '\n')) //nolint:errcheck // a disconnected client needs no error
}
