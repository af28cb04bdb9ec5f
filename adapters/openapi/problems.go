package openapi

import (
	"net/http"

	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/policy"
)

// engineResponse is a problem response that the engine writes in place of the handler.
type engineResponse struct {
	status      int
	description string
	retryAfter  bool
	codes       []code
}

// code is a problem code of package core and a filter of the policies that can cause the
// problem. A nil filter matches every policy.
type code struct {
	name string
	when func(*policy.Policy) bool
}

var engineResponses = []engineResponse{
	{http.StatusBadRequest, "The Idempotency-Key is missing or malformed, or the body could not be read.", false, []code{
		{problem.KeyMissing, func(p *policy.Policy) bool { return p.Required }},
		{problem.KeyInvalid, nil},
		{problem.BodyUnreadable, nil},
	}},
	{http.StatusUnauthorized, "Authenticate to use an Idempotency-Key.", false, []code{
		{problem.PrincipalMissing, nil},
	}},
	{http.StatusConflict, "A request with this Idempotency-Key is in flight, or its response cannot be replayed.", true, []code{
		{problem.InProgress, nil},
		{problem.NotReplayable, nil},
		{problem.KeyExpired, func(p *policy.Policy) bool { return p.Remember > 0 }},
		{problem.OutcomeUnknown, func(p *policy.Policy) bool { // an abandoned key is remembered too
			return p.OnAbandoned.Refuses() || p.OnAbandoned.RecoverFunc() != nil || p.Remember > 0
		}},
	}},
	{http.StatusRequestEntityTooLarge, "The request body is too large.", false, []code{
		{problem.BodyTooLarge, nil},
	}},
	{http.StatusUnprocessableEntity, "This Idempotency-Key was used with another payload.", false, []code{
		{problem.KeyReused, nil},
	}},
	{http.StatusInternalServerError, "The operation may have taken effect, but its response was lost; or the database refused to commit it.", false, []code{
		{problem.HandlerFailed, nil},
		{problem.RolledBack, func(p *policy.Policy) bool { return p.Transactional }},
	}},
	{http.StatusServiceUnavailable, "The request was not processed, or its outcome is not certain: retry with the same Idempotency-Key.", true, []code{
		{problem.StoreUnavailable, nil}, // under FailOpen too, for a corrupt record
		{problem.ShuttingDown, nil},
		{problem.HandlerCancelled, nil},
		{problem.NotConfirmed, nil},
	}},
}

// codesOf returns the codes that a policy can cause.
func (e *engineResponse) codesOf(p *policy.Policy) (names []string) {
	for _, c := range e.codes {
		if c.when == nil || c.when(p) {
			names = append(names, c.name)
		}
	}
	return names
}
