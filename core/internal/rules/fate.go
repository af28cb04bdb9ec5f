// Package rules has the decisions of a guard as pure functions: about a request, from the
// record of its key; about a key, from the end of its run; and about a call of a store,
// from its error. It calls nothing and keeps nothing.
package rules

import (
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/failure"
)

// Fate is the end of a key's run at the store.
type Fate uint8

// The fates of a key.
const (
	// Keep: the store keeps the response, and retries get it.
	Keep Fate = iota + 1
	// Release: the next request may run. If a step of the run is recorded, only a retry
	// may (see storage.Released).
	Release
	// Abandon: the side effect may have happened. The policy's OnAbandoned decides about
	// the next request.
	Abandon
)

// Ending has the facts that decide about a key beside the class of its outcome.
type Ending struct {
	// TookOver says that the run took over an abandoned key, and that no RecoverFunc has
	// found that nothing happened: the outcome of the earlier attempt is still unknown.
	TookOver bool
	// UnknownStep says that a step has ended with an unknown outcome, or still runs.
	UnknownStep bool
}

// FateOf returns the fate of a key whose run has ended with an outcome of this class.
func FateOf(class failure.Class, end Ending) Fate {
	switch {
	case class == failure.ClassCache:
		return Keep
	case class == failure.ClassUncertain, end.TookOver, end.UnknownStep:
		return Abandon
	default:
		return Release
	}
}

// EventOf returns the result of the event about a key that keeps no response.
func EventOf(fate Fate, class failure.Class) event.Result {
	switch {
	case fate == Abandon:
		return event.Uncertain
	case class == failure.ClassRetryable:
		return event.Retryable
	default:
		return event.DeleteKey
	}
}
