package core

import (
	"cmp"
	"errors"
	"net/http"
	"strings"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/cause"
	"github.com/oncekey/oncekey/core/internal/panicked"
	"github.com/oncekey/oncekey/core/internal/rules"
	"github.com/oncekey/oncekey/core/internal/wire"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// errHandlerPanicked is the Err of events about a handler's panic.
var errHandlerPanicked = cause.New("oncekey: the handler panicked")

// end is Finish.
func (r *Run) end(outcome failure.Outcome, response Response) error {
	return r.finish(r.conclude(&outcome), outcome, response)
}

// endByAnswer keeps the response, or releases the key if it is nil. No Classifier decides,
// because no handler has run. The ledger reports and repeats failures.
func (r *Run) endByAnswer(response *Response, done event.Event) {
	defer r.hold.End()
	r.hold.Stop()
	if response == nil {
		_ = r.hold.GiveUp(rules.Release, done)
		return
	}
	_ = r.hold.Keep(r.resultOf(*response), done)
}

// conclude ends the renewals and the marks of a run whose handler has returned, and
// returns its class. A response that depends on the class is made after it. A Classifier
// that ends its goroutine leaves the key abandoned.
func (r *Run) conclude(outcome *failure.Outcome) failure.Class {
	classified := false
	defer func() {
		if !classified {
			_ = r.finish(failure.ClassUncertain, *outcome, Response{}) // as after a crash
		}
	}()
	if r.hold.Stop() {
		failure.MarkUncertain(&r.context, "the handler returned during a step")
	}
	if outcome.Panicked && outcome.Err == nil {
		outcome.Err = errHandlerPanicked
	}
	r.marks.Seal()
	class := r.classify(*outcome)
	classified = true
	return class
}

// classify calls the policy's Classifier with the handler's marks, and failure.Classify
// if the Classifier panics.
func (r *Run) classify(outcome failure.Outcome) (class failure.Class) {
	outcome, _ = r.marks.Read(outcome)
	defer func() {
		if err := panicked.Error("Classifier", recover()); err != nil {
			r.report(event.Event{Result: event.CallbackPanicked, Err: err})
			class = failure.Classify(outcome)
		}
	}()
	return r.identity.route.policy.Classify(outcome)
}

// finish settles and ends a run that is concluded.
func (r *Run) finish(class failure.Class, outcome failure.Outcome, response Response) error {
	defer r.hold.End()
	return r.settle(class, outcome, response)
}

// settle settles a run of this class, whose handler may still be running. The run takes no
// more marks, and its lease is not renewed any more.
func (r *Run) settle(class failure.Class, outcome failure.Outcome, response Response) error {
	done := event.Event{Status: cmp.Or(response.Status, outcome.Status), Panicked: outcome.Panicked, Err: outcome.Err}
	fate := r.hold.Fate(class)
	if fate == rules.Keep {
		result := r.resultOf(response)
		done.Result = r.resultStored(&result)
		r.reportUnusedTransaction(outcome, done.Status)
		return r.hold.Keep(result, done)
	}
	_, done.Reason = r.marks.Read(outcome)
	done.Result = rules.EventOf(fate, class)
	return r.hold.GiveUp(fate, done)
}

// resultOf returns the part of a response that the store keeps, and for how long.
func (r *Run) resultOf(response Response) storage.Result {
	route := r.identity.route
	result := storedResult(&route.policy, response)
	route.redactions.Apply(&result)
	result.Retain, result.Remember, result.Sketch = r.hold.Retention(), route.policy.Remember, r.sketch
	return result
}

// storedResult returns the part of a response that the store keeps.
func storedResult(p *policy.Policy, response Response) storage.Result {
	if response.Status = cmp.Or(response.Status, http.StatusOK); response.Status < 100 || response.Status > 999 {
		response = Response{Status: http.StatusInternalServerError, Unreplayable: true} // stores read no such status back
	}
	result := storage.Result{State: stateOf(response.Status), Status: response.Status}
	header := storedHeader(p, response.Header)
	size := int64(len(response.Body))
	for _, field := range header {
		size += int64(len(field.Name) + len(field.Value))
	}
	if response.Unreplayable || size > p.MaxResponseBytes {
		result.State = storage.Unreplayable
		return result
	}
	result.Header, result.Body = header, response.Body
	return result
}

// stateOf returns the state of a kept response.
func stateOf(status int) storage.State {
	if status >= http.StatusBadRequest {
		return storage.Failed
	}
	return storage.Completed
}

// storedHeader removes fields that the policy does not keep, such as fields of one
// connection, one moment or one browser. HTTP allows all fields of header.
func storedHeader(p *policy.Policy, header storage.Header) storage.Header {
	nominated := connectionOptions(header)
	return wire.Without(header, func(f storage.Field) bool {
		return !p.KeepsHeader(strings.TrimPrefix(f.Name, http.TrailerPrefix)) || nominated != "" && nominates(nominated, f.Name)
	})
}

// connectionOptions returns the joined values of the Connection fields. These values
// name more fields of one connection (RFC 9110, section 7.6.1).
func connectionOptions(header storage.Header) (options string) {
	for _, f := range header {
		if strings.EqualFold(f.Name, "Connection") {
			options += f.Value + ","
		}
	}
	return options
}

// nominates reports whether a list of connection options contains the name.
func nominates(options, name string) bool {
	for option := range strings.SplitSeq(options, ",") {
		if strings.EqualFold(strings.TrimSpace(option), strings.TrimPrefix(name, http.TrailerPrefix)) {
			return true
		}
	}
	return false
}

// resultStored returns the event result for a stored response. For an observed run, the
// result is the one that a guard would have caused.
func (r *Run) resultStored(result *storage.Result) event.Result {
	switch {
	case result.State == storage.Unreplayable && !r.wouldKeep:
		return event.Unreplayable
	case result.State == storage.Failed, result.State == storage.Unreplayable && result.Status >= http.StatusBadRequest:
		return event.Failed
	default:
		return event.Completed
	}
}

// endUnused releases the key of a run whose handler could not begin.
func (r *Run) endUnused(why error) {
	defer r.hold.End()
	r.hold.Stop()
	fate := r.hold.Fate(failure.ClassDeleteKey)
	_ = r.hold.GiveUp(fate, event.Event{Result: rules.EventOf(fate, failure.ClassDeleteKey), Err: why}) // GiveUp reports and repeats failures
}

var errTransactionUnused = errors.New("oncekey: the policy is Transactional, and the handler has not taken the transaction, so its effects and this response are not " +
	"committed together: take it by pgstore.Tx or sqlstore.Tx, with the handler's context, or declare the route without Transactional")

// reportUnusedTransaction reports a run with effects outside of its transaction: its
// response is kept, and the handler never took the transaction. An error response counts
// only after failure.MarkExecuted, because most handlers refuse a request before they take
// the transaction. A run that releases its key is not reported.
func (r *Run) reportUnusedTransaction(outcome failure.Outcome, status int) {
	if !r.hold.InTransaction() || storage.TransactionTaken(r.handler) {
		return
	}
	if outcome, _ = r.marks.Read(outcome); status >= http.StatusBadRequest && !outcome.Executed {
		return
	}
	r.report(event.Event{Result: event.TransactionUnused, Status: status, Err: errTransactionUnused})
}
