package openapi

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/policy"
)

// keyFieldName is the member of an operation that names policy.KeyField.
const keyFieldName = "x-idempotency-key-field"

// engineResponse is a problem response that the engine writes in place of the handler.
// Responses with one status are alternatives: the first one whose filter matches a policy
// is the policy's. The name is that of a component.
type engineResponse struct {
	status      int
	name        string
	when        func(*policy.Policy) bool // nil: every policy
	description string
	retryAfter  bool
	codes       []code
}

// code is a problem code of package core, and what a client does about the problem.
type code struct {
	name, action string
	noExample    bool // core's text for this problem depends on the policy
}

var (
	keyInvalid     = code{problem.KeyInvalid, "Do not retry: correct the key.", false}
	bodyUnreadable = code{problem.BodyUnreadable, "Retry the whole request with the same Idempotency-Key.", false}
	inProgress     = code{problem.InProgress, "Retry with the same Idempotency-Key, after the time in Retry-After.", false}
	notReplayable  = code{problem.NotReplayable, "Do not retry: the operation was handled, and its response was not kept. Look up the result.", false}
	keyTooOld      = code{problem.KeyExpired, "Do not retry: the operation may have been handled, and no response is kept. Look up the result before you use a new Idempotency-Key.", true}
	outcomeUnknown = code{problem.OutcomeUnknown, "Do not retry without a Retry-After: the operation may have taken effect. Look up the result before you use a new Idempotency-Key.", false}
	handlerFailed  = code{problem.HandlerFailed, "Do not retry: the operation may have taken effect. Look up the result.", false}
)

const (
	badRequest = "The request has to be changed before another attempt."
	conflict   = "The operation was not started again. Only a response with Retry-After is temporary."
	failed     = "The response of the operation was lost."
)

var engineResponses = []engineResponse{
	{http.StatusBadRequest, "IdempotencyBadRequestOptionalKey", func(p *policy.Policy) bool { return !p.Required }, badRequest, false, []code{keyInvalid, bodyUnreadable}},
	{http.StatusBadRequest, "IdempotencyBadRequestKeyField", func(p *policy.Policy) bool { return p.KeyField != "" }, badRequest, false, []code{
		{problem.KeyMissing, "Do not retry: send a key in the member of the body that " + keyFieldName + " names.", true}, keyInvalid, bodyUnreadable,
	}},
	{http.StatusBadRequest, "IdempotencyBadRequest", nil, badRequest, false, []code{
		{problem.KeyMissing, "Do not retry: make a key for the operation, and send it with every attempt.", false}, keyInvalid, bodyUnreadable,
	}},
	{http.StatusUnauthorized, "IdempotencyUnauthorized", nil, "The request has no credentials, or they are not accepted.", false, []code{
		{problem.PrincipalMissing, "Authenticate, then retry with the same Idempotency-Key.", false},
	}},
	{http.StatusConflict, "IdempotencyConflictKeyAgeOutcomeUnknown", func(p *policy.Policy) bool {
		return p.KeyAge > 0 && (p.Remember > 0 || decidesAbandoned(p))
	}, conflict, true, []code{inProgress, notReplayable, keyTooOld, outcomeUnknown}},
	{http.StatusConflict, "IdempotencyConflictKeyAge", func(p *policy.Policy) bool { return p.KeyAge > 0 }, conflict, true, []code{inProgress, notReplayable, keyTooOld}},
	{http.StatusConflict, "IdempotencyConflictKeyExpired", func(p *policy.Policy) bool { return p.Remember > 0 }, conflict, true, []code{
		inProgress, notReplayable,
		{problem.KeyExpired, "Do not retry: the operation was handled, and its response is no longer kept. Look up the result.", false},
		outcomeUnknown, // an abandoned key is remembered too
	}},
	{http.StatusConflict, "IdempotencyConflictOutcomeUnknown", decidesAbandoned, conflict, true, []code{inProgress, notReplayable, outcomeUnknown}},
	{http.StatusConflict, "IdempotencyConflict", nil, conflict, true, []code{inProgress, notReplayable}},
	{http.StatusRequestEntityTooLarge, "IdempotencyBodyTooLarge", nil, "The request body is too large.", false, []code{
		{problem.BodyTooLarge, "Do not retry: send a smaller body.", false},
	}},
	{http.StatusUnprocessableEntity, "IdempotencyKeyReused", nil, "The Idempotency-Key belongs to a request with another payload.", false, []code{
		{problem.KeyReused, "Do not retry: use a new Idempotency-Key for a new operation. For a retry, send the first request's payload.", false},
	}},
	{http.StatusTooManyRequests, "IdempotencyScopeLimited", nil, "The client has too many requests with new Idempotency-Keys.", true, []code{
		{problem.ScopeLimited, "Retry with the same Idempotency-Key, after the time in Retry-After: this request was not processed.", false},
	}},
	{http.StatusInternalServerError, "IdempotencyFailedTransaction", func(p *policy.Policy) bool { return p.Transactional }, failed, false, []code{
		handlerFailed, {problem.RolledBack, "Retry with the same Idempotency-Key, if the cause was temporary: no part of the operation was stored.", false},
	}},
	{http.StatusInternalServerError, "IdempotencyFailed", nil, failed, false, []code{handlerFailed}},
	{http.StatusServiceUnavailable, "IdempotencyUnavailable", nil, "A temporary problem. Retry with the same Idempotency-Key, after the time in Retry-After.", true, []code{
		{problem.StoreUnavailable, "Retry: this request was not processed.", false}, // under FailOpen too, for a corrupt record
		{problem.ShuttingDown, "Retry: this request was not processed.", false},
		{problem.HandlerCancelled, "Retry: the operation was cut short.", false},
		{problem.NotConfirmed, "Retry to learn the result.", false},
	}},
}

// decidesAbandoned reports whether the policy can refuse an abandoned key.
func decidesAbandoned(p *policy.Policy) bool {
	return p.OnAbandoned.Refuses() || p.OnAbandoned.RecoverFunc() != nil
}

// responsesOf returns the responses that a policy can cause, one for each status. Only an engine
// that limits scopes responds with 429.
func responsesOf(p *policy.Policy, limits bool) (all []*engineResponse) {
	for i := range engineResponses {
		e := &engineResponses[i]
		isFirst := len(all) == 0 || all[len(all)-1].status != e.status
		if isFirst && (e.when == nil || e.when(p)) && (limits || e.status != http.StatusTooManyRequests) {
			all = append(all, e)
		}
	}
	return all
}

// text is the description in CommonMark: what to do about each code.
func (e *engineResponse) text() string {
	var b strings.Builder
	b.WriteString(e.description + "\n")
	for _, c := range e.codes {
		b.WriteString("\n- `" + c.name + "`: " + c.action)
	}
	return b.String()
}

func (e *engineResponse) names() (names []string) {
	for _, c := range e.codes {
		names = append(names, c.name)
	}
	return names
}

// problem is the problem of a code as core gives it to a writer.
func (s *settings) problem(c code, keyField string) *problem.Problem {
	message := ""
	switch {
	case c.name == problem.KeyMissing && keyField != "":
		message = keyField + " is required in the JSON body"
	case c.name == problem.KeyMissing:
		message = core.KeyHeader + " header is required"
	case c.name == problem.KeyInvalid:
		_, err := core.ParseKey("")
		message = err.Error()
	}
	p := problem.New(c.name, message)
	p.Title, p.Detail, p.Error = s.naming(p.Title), s.naming(p.Detail), s.naming(p.Error)
	return p
}

// example is a problem as core writes it.
func (s *settings) example(c code) string {
	value, err := json.Marshal(s.problem(c, ""))
	if err != nil { // cannot happen: strings and an int always marshal
		return "null"
	}
	return compact("summary", quoted(s.naming(c.action)), "value", string(value))
}
