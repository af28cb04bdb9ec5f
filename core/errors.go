package core

import "errors"

// The sentinels of this package. Test for them with errors.Is: what arrives is
// usually wrapped with the operation and the store's own words.
var (
	// ErrLeaseLost says that somebody else holds the key now, or has settled
	// it. A Store returns it from Complete, Release and Extend; it is the cause
	// of a handler's context when the lease was lost while the handler ran; and
	// Engine.Finish returns it when the answer was not stored for that reason.
	ErrLeaseLost = errors.New("oncekey: lease lost: another attempt holds this key")

	// ErrRunTooLong is the cause of a handler's context when the handler ran
	// longer than its policy's MaxRun. The lease is renewed no more.
	ErrRunTooLong = errors.New("oncekey: the handler ran longer than MaxRun")

	// ErrNotConfirmed says that the commit of a handler's transaction failed, or
	// that its reply was lost. Engine.Finish returns it: the answer is not shown,
	// and the client learns by a retry what became of it.
	ErrNotConfirmed = errors.New("oncekey: the transaction's commit is not confirmed")

	// ErrCorruptRecord says that what the store holds under a key is no record
	// this version can read: truncated, half-written, foreign, or of a future
	// version. A Store returns it from Acquire, an Inspector from Lookup. The
	// engine answers 503 and runs nothing, under FailOpen too: a record was there,
	// so a handler may have run.
	ErrCorruptRecord = errors.New("oncekey: the store holds something that is not a record")

	// ErrStoreFull says that a bounded store takes no new key at the moment.
	// Finished and running ones stay as they are.
	ErrStoreFull = errors.New("oncekey: the store is full")

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

	// ErrUnavailable is what Do returns when the store is away or the engine shuts
	// down; nothing ran.
	ErrUnavailable = errors.New("oncekey: the store is unavailable, or the engine shuts down")

	// ErrShutdown is what Engine.Shutdown returns, wrapped with its context's
	// error, when work was still unfinished as that context ended.
	ErrShutdown = errors.New("oncekey: shut down before all work was finished")
)
