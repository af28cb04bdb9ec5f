package idemotel

import (
	"github.com/oncekey/oncekey/core/event"
)

// effect is what an event does to metrics and spans.
type effect uint

const (
	isDecision     effect = 1 << iota // counts in requests and decision.duration
	isConflict                        // counts in conflicts
	isSettlement                      // counts in settlements
	isLeaseExpired                    // counts in lease.expired
	isStoreError                      // counts in store.errors
	isPending                         // the settlement goes on in the background
	endsRun                           // nothing more comes of this run
	endsSpan                          // the request's span is complete
	marksSpan                         // an event of the span in the context
	isFailure                         // a span that ends in it has the status Error
)

// effects has a line for every EventResult of package core.
var effects = map[event.Result]effect{
	event.Execute:        isDecision | marksSpan,
	event.Replay:         isDecision | endsSpan,
	event.InProgress:     isDecision | isConflict | endsSpan,
	event.KeyReused:      isDecision | isConflict | endsSpan,
	event.NotReplayable:  isDecision | isConflict | endsSpan,
	event.OutcomeUnknown: isDecision | isConflict | endsSpan | isFailure,
	event.Refused:        isDecision | endsSpan,
	event.Unprotected:    isDecision | endsSpan | isFailure,
	event.Unavailable:    isDecision | endsSpan | isFailure,
	event.NoKey:          isDecision,
	event.WrongSetup:     isDecision | endsSpan | isFailure,

	event.Completed:    isSettlement | endsRun | endsSpan,
	event.Failed:       isSettlement | endsRun | endsSpan,
	event.Unreplayable: isSettlement | endsRun | endsSpan,
	event.DeleteKey:    isSettlement | endsRun | endsSpan | isFailure,
	event.Retryable:    isSettlement | endsRun | endsSpan,
	event.Uncertain:    isSettlement | endsRun | endsSpan | isFailure,
	event.Deferred:     isSettlement | isStoreError | isPending | marksSpan,
	event.AnswerLost:   isSettlement | endsRun | endsSpan | isFailure,
	event.NotConfirmed: isSettlement | isStoreError | isPending | marksSpan,
	event.LeaseLost:    isSettlement | marksSpan | isFailure, // see ending
	event.LeaseExpired: isLeaseExpired | marksSpan,
	event.RunTooLong:   isSettlement | marksSpan,
	event.StoreError:   isStoreError | marksSpan | isFailure, // see ending
	event.RecoverError: isSettlement | marksSpan,

	event.CallbackPanicked: isSettlement | marksSpan | isFailure,
}

// effectsOf returns what an event with this result does; one that this package
// does not know yet is counted as something that became of a run.
func effectsOf(result event.Result) effect {
	if known, ok := effects[result]; ok {
		return known
	}
	return isSettlement | marksSpan
}

// ending adds that the run ends here to the two results of which the name alone
// does not tell. A lost lease is noticed by a renewal, and the handler goes on; or
// by the settlement, which has waited for the store. And a store's error is the
// last word on a key that could not be freed in the background.
func (e effect) ending(happened *event.Event, wasPending bool) effect {
	last := false
	switch happened.Result {
	case event.LeaseLost:
		last = wasPending || happened.StoreLatency > 0
	case event.StoreError:
		last = wasPending
	default:
	}
	if last {
		return e&^marksSpan | endsRun | endsSpan
	}
	return e
}

func (e effect) has(one effect) bool { return e&one != 0 }
