package core

import (
	"errors"

	"github.com/oncekey/oncekey/core/internal/ledger"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
)

// The sentinels of this package. Test for them with errors.Is, because most errors
// are wrapped with the operation and the store's error text.
var (
	// ErrLeaseLost says that another attempt holds or has settled the key. A handler's
	// context has this cause when the lease was lost while the handler ran.
	// Engine.Finish returns ErrLeaseLost when the response was not stored for that
	// reason.
	ErrLeaseLost = storage.ErrLeaseLost

	// ErrRunTooLong is the cause of a handler's context when the handler ran
	// longer than the policy's MaxRun. The engine no longer renews the lease.
	ErrRunTooLong = ledger.ErrRunTooLong

	// ErrNotConfirmed says that the store did not confirm a response, and that the
	// lease may have ended, or that the reply to a transaction's commit was lost.
	// Engine.Finish then returns ErrNotConfirmed. The response must not be shown, and
	// the client's retry gets the result.
	ErrNotConfirmed = ledger.ErrNotConfirmed

	// ErrInProgress is returned by Do while another call with the key runs.
	ErrInProgress = errors.New("oncekey: a call with this key is in progress")

	// ErrKeyReused is returned by Do for a key that was used with another input.
	ErrKeyReused = errors.New("oncekey: this key was used with another input")

	// ErrNotReplayable is returned by Do when an earlier call ran the function, and
	// the result was not kept.
	ErrNotReplayable = errors.New("oncekey: the call has finished, but its result was not kept")

	// ErrKeyExpired is returned by Do when an earlier call ran the function, and the time
	// for which its result was kept is over (policy.Remember), and for a key that is older
	// than policy.KeyAge and has no result: an earlier call may have run the function.
	ErrKeyExpired = errors.New("oncekey: the key has expired, and no result is kept for it")

	// ErrOutcomeUnknown is returned by Do when an earlier attempt was abandoned and
	// the policy allows no other attempt.
	ErrOutcomeUnknown = errors.New("oncekey: an earlier attempt was cut off, and its outcome is not known")

	// ErrScopeLimited is returned by Do when the scope of a new key has too many of them
	// (WithScopeLimit). The Problem of the RefusedError says when to repeat the call.
	ErrScopeLimited = errors.New("oncekey: this scope has too many new keys")

	// ErrUnavailable is returned by Do when the store is unavailable or the engine
	// shuts down. This call did not run the function. An earlier call with the key may
	// have run the function.
	ErrUnavailable = ledger.ErrUnavailable

	// ErrShutdown is returned by Engine.Shutdown, wrapped with the context's error,
	// when the context ended before all work was finished.
	ErrShutdown = errors.New("oncekey: shut down before all work was finished")
)

// RefusedError is returned by Do when the engine did not run the function. It wraps
// the sentinel of the Problem's code. key_missing and key_invalid have none.
type RefusedError struct {
	Problem problem.Problem
	// Cause is the store's error, or nil. It is not wrapped: it may be the end of a context of the engine.
	Cause error
}

// Error returns "oncekey: in_progress: …", with the Cause at its end.
func (e *RefusedError) Error() string {
	text := "oncekey: " + e.Problem.Code + ": " + e.Problem.Detail
	if e.Cause != nil {
		text += " (" + e.Cause.Error() + ")"
	}
	return text
}

// Unwrap returns the sentinel of the problem's code.
func (e *RefusedError) Unwrap() error { return refusals[e.Problem.Code] }

var refusals = map[string]error{
	problem.InProgress:       ErrInProgress,
	problem.KeyReused:        ErrKeyReused,
	problem.NotReplayable:    ErrNotReplayable,
	problem.KeyExpired:       ErrKeyExpired,
	problem.OutcomeUnknown:   ErrOutcomeUnknown,
	problem.ScopeLimited:     ErrScopeLimited,
	problem.StoreUnavailable: ErrUnavailable,
	problem.ShuttingDown:     ErrUnavailable,
}
