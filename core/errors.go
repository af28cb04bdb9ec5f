package core

import (
	"errors"

	"github.com/oncekey/oncekey/core/internal/cause"
	"github.com/oncekey/oncekey/core/storage"
)

// The sentinels of this package. Test for them with errors.Is: what arrives is
// usually wrapped with the operation and the store's own words.
var (
	// ErrLeaseLost says that another attempt holds the key now, or has settled it. It
	// is the cause of a handler's context when the lease was lost while the handler
	// ran. Engine.Finish returns it when the response was not stored for that reason.
	ErrLeaseLost = storage.ErrLeaseLost

	// ErrRunTooLong is the cause of a handler's context when the handler ran
	// longer than its policy's MaxRun. The lease is renewed no more.
	ErrRunTooLong = cause.New("oncekey: the handler ran longer than MaxRun")

	// ErrNotConfirmed says that the store did not confirm a response, and that the
	// lease may have ended, or that the reply to a transaction's commit was lost.
	// Engine.Finish returns it: the response is not shown, and the client learns the
	// result by a retry.
	ErrNotConfirmed = errors.New("oncekey: the store has not confirmed the response")

	// ErrInProgress is what Do returns while another call of the key runs.
	ErrInProgress = errors.New("oncekey: a call with this key is in progress")

	// ErrKeyReused is what Do returns for a key that was used with another input.
	ErrKeyReused = errors.New("oncekey: this key was used with another input")

	// ErrNotReplayable is what Do returns when the function ran, and its result
	// was not kept.
	ErrNotReplayable = errors.New("oncekey: the call has finished, but its result was not kept")

	// ErrOutcomeUnknown is what Do returns when an earlier attempt was cut off and
	// the policy does not let another one run.
	ErrOutcomeUnknown = errors.New("oncekey: an earlier attempt was cut off, and its outcome is not known")

	// ErrUnavailable is returned by Do when the store is unavailable or the engine
	// shuts down. This call ran nothing; an earlier one with its key may have run.
	ErrUnavailable = errors.New("oncekey: the store is unavailable, or the engine shuts down")

	// ErrShutdown is what Engine.Shutdown returns, wrapped with its context's
	// error, when work was still unfinished as that context ended.
	ErrShutdown = errors.New("oncekey: shut down before all work was finished")
)
