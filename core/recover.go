package core

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/cause"
	"github.com/oncekey/oncekey/core/internal/wire"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// recoverAbandoned calls the policy's RecoverFunc for the result of the abandoned
// attempt. Without a record and a problem, the handler runs.
func recoverAbandoned(run *Run, find policy.RecoverFunc) (*storage.Record, *problem.Problem) {
	outcomeKnown, returned := false, false
	defer func() {
		if !returned { // find panicked, and the panic continues
			run.report(event.Event{Result: event.CallbackPanicked, Err: errors.New("oncekey: the RecoverFunc panicked"), Final: true})
		}
		if !outcomeKnown {
			run.hold.Abandon()
		}
	}()
	request := run.identity.request
	found, err := find(aside(run), policy.Abandoned{
		Key: request.Key, Scope: request.Scope,
		Method: request.Method, Path: request.Path, Attempt: run.hold.Lease.Attempt,
		Step: run.hold.Steps().CutOff(),
	})
	returned = true
	if err == nil {
		err = checkFound(run, found)
	}
	if err != nil {
		run.report(event.Event{Result: event.RecoverError, Err: err})
		unknown := problem.New(problem.OutcomeUnknown, "")
		unknown.RetryAfter = 5 * time.Second // the next retry asks again
		return nil, unknown
	}
	outcomeKnown = true
	if found == nil {
		run.hold.Clear()
		return nil, nil
	}
	result := Response{Status: found.Status, Header: wire.HeaderOf(found.Header), Body: found.Body}
	if err := run.end(failure.Outcome{Status: found.Status, Executed: true}, result); err != nil {
		return nil, unstoredProblem(err)
	}
	return recovered(run, result), nil
}

// aside returns the run's context for a function that looks for the outcome of an earlier
// attempt: its marks are not the handler's, and it calls no steps.
func aside(run *Run) context.Context {
	return context.WithValue(failure.NewContext(run.Context(), new(failure.Marks)), stepKey{}, inRecoverFunc)
}

// checkFound returns an error if a RecoverFunc's result cannot be used.
func checkFound(r *Run, found *policy.Response) error {
	switch {
	case found == nil && r.context.Err() != nil: // another attempt may hold the key
		return fmt.Errorf("oncekey: the RecoverFunc returned too late to run the handler: %w", context.Cause(&r.context))
	case found != nil && (found.Status < http.StatusOK || found.Status > 999):
		return cause.New("oncekey: the RecoverFunc's response has no status from 200 to 999")
	default:
		return nil
	}
}

// recovered returns the record of a run that ended with the response of the RecoverFunc. A
// response that is not kept is shown once, as a handler's is.
func recovered(r *Run, response Response) *storage.Record {
	record := r.hold.Record()
	if record.State != storage.Unreplayable {
		return record
	}
	record.Header, record.Body = storedHeader(&r.identity.route.policy, response.Header), response.Body
	record.State, record.Expires = stateOf(record.Status), time.Time{}
	return record
}
