package core

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// The codes of a Problem.
const (
	CodePrincipalMissing = "principal_missing"
	CodeKeyMissing       = "key_missing"
	CodeKeyInvalid       = "key_invalid"
	CodeBodyTooLarge     = "body_too_large"
	CodeBodyUnreadable   = "body_unreadable"
	CodeInProgress       = "in_progress"
	CodeKeyReused        = "key_reused"
	CodeNotReplayable    = "not_replayable"
	CodeOutcomeUnknown   = "outcome_unknown"
	CodeStoreUnavailable = "store_unavailable"
	CodeShuttingDown     = "shutting_down"
	CodeHandlerCancelled = "handler_cancelled"
	CodeHandlerFailed    = "handler_failed"
	CodeNotConfirmed     = "not_confirmed"
)

// Problem is an answer that the engine gives in place of the handler's: an
// RFC 9457 problem with the extension members code and error.
type Problem struct {
	// Type is a URI that names the kind of problem.
	Type string `json:"type"`
	// Title is the same for every problem of a kind.
	Title string `json:"title"`
	// Status is the HTTP status.
	Status int `json:"status"`
	// Detail says what the client can do.
	Detail string `json:"detail"`
	// Code is for programs: one of the Code constants.
	Code string `json:"code"`
	// Error is one sentence for clients that look for this member.
	Error string `json:"error"`
	// Differs names the members of the request that are not those of the key's
	// first, when the engine tells clients so (WithDiffers).
	Differs []string `json:"differs,omitempty"`
	// RetryAfter is sent as the Retry-After header, in whole seconds rounded up;
	// zero sends none.
	RetryAfter time.Duration `json:"-"`
}

// ProblemWriter writes a problem as a response.
type ProblemWriter func(w http.ResponseWriter, r *http.Request, p Problem)

const problemTypes = "https://github.com/oncekey/oncekey#"

// problem makes the problem of a code; its words are the same for everybody,
// so that a foreign key and an unknown one look the same from outside.
func problem(code, message string) *Problem {
	kind := problemKinds[code]
	if message == "" {
		message = kind.title
	}
	return &Problem{
		Type: problemTypes + code, Title: kind.title, Status: kind.status,
		Detail: kind.detail, Code: code, Error: message, RetryAfter: kind.retryAfter,
	}
}

var problemKinds = map[string]struct {
	status     int
	title      string
	detail     string
	retryAfter time.Duration
}{
	CodePrincipalMissing: {http.StatusUnauthorized, "Principal missing", "Idempotency keys belong to somebody: authenticate and try again.", 0},
	CodeKeyMissing:       {http.StatusBadRequest, "Idempotency-Key missing", "Send an Idempotency-Key header that is new for every operation and the same for every retry of it.", 0},
	CodeKeyInvalid:       {http.StatusBadRequest, "Idempotency-Key invalid", "Send one key of 1 to 255 visible ASCII characters, such as a random UUID.", 0},
	CodeBodyTooLarge:     {http.StatusRequestEntityTooLarge, "Request body too large", "Send a smaller request body.", 0},
	CodeBodyUnreadable:   {http.StatusBadRequest, "Request body unreadable", "Send the request again with its whole body.", 0},
	CodeInProgress:       {http.StatusConflict, "Request in progress", "A request with this Idempotency-Key has not finished yet: retry later.", time.Second},
	CodeKeyReused:        {http.StatusUnprocessableEntity, "Idempotency-Key reused", "This Idempotency-Key was used with another payload: use a new key for a new operation.", 0},
	CodeNotReplayable:    {http.StatusConflict, "Response not replayable", "The operation has finished, but its response was not kept: look up its result, and do not send it with a new key.", 0},
	CodeOutcomeUnknown:   {http.StatusConflict, "Outcome unknown", "An earlier attempt was cut off, and whether it took effect is not known: look up its result before you send it with a new key.", 0},
	CodeStoreUnavailable: {http.StatusServiceUnavailable, "Idempotency store unavailable", "The operation was not started: retry later with the same Idempotency-Key.", time.Second},
	CodeShuttingDown:     {http.StatusServiceUnavailable, "Shutting down", "The operation was not started: retry with the same Idempotency-Key.", time.Second},
	CodeHandlerCancelled: {http.StatusServiceUnavailable, "Request cancelled", "The operation was cut short before it took effect: retry later with the same Idempotency-Key.", time.Second},
	CodeNotConfirmed:     {http.StatusServiceUnavailable, "Commit not confirmed", "Whether the operation took effect is not known yet: retry with the same Idempotency-Key to learn it.", time.Second},
	CodeHandlerFailed:    {http.StatusInternalServerError, "Request failed", "The operation took effect, but its response was lost: look up its result, and do not send it with a new key.", 0},
}

// writeProblem is the ProblemWriter unless an option replaces it.
func writeProblem(w http.ResponseWriter, _ *http.Request, p Problem) {
	body, err := json.Marshal(p)
	if err != nil { // strings and an int always marshal
		panic(err)
	}
	header := w.Header()
	header.Set("Content-Type", "application/problem+json")
	header.Set("X-Content-Type-Options", "nosniff")
	if p.RetryAfter > 0 {
		header.Set("Retry-After", strconv.FormatInt(int64((p.RetryAfter+time.Second-1)/time.Second), 10))
	}
	w.WriteHeader(p.Status)
	w.Write(append(body, '\n')) //nolint:errcheck // a client that is gone cannot be told
}
