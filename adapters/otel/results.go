package idemotel

import (
	"github.com/oncekey/oncekey/core/event"
)

// effect is the set of changes that an event makes to metrics and spans.
type effect uint

const (
	isDecision     effect = 1 << iota // counts in requests and decision.duration
	isConflict                        // counts in conflicts
	isSettlement                      // counts in settlements
	isLeaseExpired                    // counts in lease.expired
	isRenewal                         // counts in lease.renewals
	isStoreError                      // counts in store.errors
	isPending                         // the settlement goes on in the background
	hasCode                           // the problem's code is a label, because operators react by it
	beginsRun                         // the handler runs from now on
	endsRun                           // the last event of the run
	endsSpan                          // the request's span is complete
	marksSpan                         // an event of the span in the context
	isFailure                         // gives an ending span the status Error
)

// effects has a line for every event.Result.
var effects = map[event.Result]effect{
	event.Execute:        isDecision | beginsRun | marksSpan,
	event.Replay:         isDecision | endsSpan,
	event.InProgress:     isDecision | isConflict | endsSpan,
	event.KeyReused:      isDecision | isConflict | endsSpan,
	event.NotReplayable:  isDecision | isConflict | endsSpan,
	event.KeyExpired:     isDecision | isConflict | endsSpan,
	event.OutcomeUnknown: isDecision | isConflict | endsSpan | isFailure,
	event.ScopeLimited:   isDecision | endsSpan,
	event.Refused:        isDecision | endsSpan,
	event.Unprotected:    isDecision | endsSpan | isFailure,
	event.Unavailable:    isDecision | hasCode | endsSpan | isFailure,
	event.NoKey:          isDecision,
	event.Skipped:        isDecision,
	event.WrongSetup:     isDecision | endsSpan | isFailure,

	event.Completed:      isSettlement | endsRun | endsSpan,
	event.Failed:         isSettlement | endsRun | endsSpan,
	event.Unreplayable:   isSettlement | endsRun | endsSpan,
	event.DeleteKey:      isSettlement | endsRun | endsSpan | isFailure,
	event.Retryable:      isSettlement | endsRun | endsSpan,
	event.Uncertain:      isSettlement | endsRun | endsSpan | isFailure,
	event.SettleDeferred: isSettlement | isStoreError | isPending | marksSpan,
	event.ResponseLost:   isSettlement | endsRun | endsSpan | isFailure,
	event.NotConfirmed:   isSettlement | isStoreError | isPending | marksSpan,
	event.LeaseLost:      isSettlement | marksSpan | isFailure, // see effect.of
	event.LeaseExpired:   isLeaseExpired | marksSpan,
	event.RunTooLong:     isSettlement | marksSpan,
	event.LeaseRenewed:   isRenewal,
	event.StoreError:     isStoreError | marksSpan | isFailure, // see effect.of
	event.RecoverError:   isSettlement | marksSpan,

	event.TransactionUnused: isSettlement | marksSpan | isFailure,

	event.CallbackPanicked: isSettlement | marksSpan | isFailure,

	event.Reconciled:      isSettlement | endsRun | endsSpan,
	event.ReconcileGaveUp: isSettlement | marksSpan | isFailure,

	event.SettledByHand: isSettlement | marksSpan,
	event.Forgotten:     isSettlement | marksSpan,
	event.Revealed:      isSettlement | marksSpan,
}

// effectsOf returns the effects of an event with this result. An unknown result counts as
// a settlement.
func effectsOf(result event.Result) effect {
	if known, ok := effects[result]; ok {
		return known
	}
	return isSettlement | marksSpan
}

// of adds what the result does not tell: that a renewal of the lease has failed, and that
// the event ends its run. A lease is lost to a renewal or to the settlement, for example
// (see event.Event.Ends). A wrong setup without a code is a warning: the request may
// have a decision of its own.
func (e effect) of(happened *event.Event) effect {
	if happened.Result == event.WrongSetup && happened.Code == "" {
		return isSettlement | marksSpan | isFailure
	}
	if happened.Renewal {
		e |= isRenewal
	}
	if happened.Final && happened.Ends() {
		return e&^marksSpan | endsRun | endsSpan
	}
	return e
}

func (e effect) has(one effect) bool { return e&one != 0 }
