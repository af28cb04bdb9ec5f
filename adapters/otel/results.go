package idemotel

import "github.com/oncekey/oncekey/core"

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
var effects = map[core.EventResult]effect{
	core.ResultExecute:        isDecision | marksSpan,
	core.ResultReplay:         isDecision | endsSpan,
	core.ResultInProgress:     isDecision | isConflict | endsSpan,
	core.ResultKeyReused:      isDecision | isConflict | endsSpan,
	core.ResultNotReplayable:  isDecision | isConflict | endsSpan,
	core.ResultOutcomeUnknown: isDecision | isConflict | endsSpan | isFailure,
	core.ResultRefused:        isDecision | endsSpan,
	core.ResultUnprotected:    isDecision | endsSpan | isFailure,
	core.ResultUnavailable:    isDecision | endsSpan | isFailure,
	core.ResultNoKey:          isDecision,
	core.ResultWrongSetup:     isDecision | endsSpan | isFailure,

	core.ResultCompleted:    isSettlement | endsRun | endsSpan,
	core.ResultFailed:       isSettlement | endsRun | endsSpan,
	core.ResultUnreplayable: isSettlement | endsRun | endsSpan,
	core.ResultDeleteKey:    isSettlement | endsRun | endsSpan | isFailure,
	core.ResultRetryable:    isSettlement | endsRun | endsSpan,
	core.ResultDeferred:     isSettlement | isStoreError | isPending | marksSpan,
	core.ResultAnswerLost:   isSettlement | endsRun | endsSpan | isFailure,
	core.ResultNotConfirmed: isSettlement | isStoreError | isPending | marksSpan,
	core.ResultLeaseLost:    isSettlement | marksSpan | isFailure, // see ending
	core.ResultLeaseExpired: isLeaseExpired | marksSpan,
	core.ResultRunTooLong:   isSettlement | marksSpan,
	core.ResultStoreError:   isStoreError | marksSpan | isFailure, // see ending
	core.ResultRecoverError: isSettlement | marksSpan,

	core.ResultCallbackPanicked: isSettlement | marksSpan | isFailure,
}

// effectsOf returns what an event with this result does; one that this package
// does not know yet is counted as something that became of a run.
func effectsOf(result core.EventResult) effect {
	if known, ok := effects[result]; ok {
		return known
	}
	return isSettlement | marksSpan
}

// ending adds that the run ends here to the two results of which the name alone
// does not tell. A lost lease is noticed by a renewal, and the handler goes on; or
// by the settlement, which has waited for the store. And a store's error is the
// last word on a key that could not be freed in the background.
func (e effect) ending(event *core.Event, wasPending bool) effect {
	last := false
	switch event.Result {
	case core.ResultLeaseLost:
		last = wasPending || event.StoreLatency > 0
	case core.ResultStoreError:
		last = wasPending
	default:
	}
	if last {
		return e&^marksSpan | endsRun | endsSpan
	}
	return e
}

func (e effect) has(one effect) bool { return e&one != 0 }
