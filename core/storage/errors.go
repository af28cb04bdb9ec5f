package storage

import (
	"errors"

	"github.com/oncekey/oncekey/core/internal/cause"
)

// The errors that a Store returns. Test for them with errors.Is: a store wraps them
// with the operation and the system's own words.
var (
	// ErrLeaseLost says that another attempt holds the key now, or has settled it. A
	// Store returns it from Complete, Release and Extend. It is the cause of a
	// handler's context when the lease was lost while the handler ran. Engine.Finish
	// returns it when the response was not stored for that reason.
	ErrLeaseLost = cause.New("oncekey: lease lost: another attempt holds this key")

	// ErrCorruptRecord says that what the store holds under a key is no record
	// this version can read: truncated, half-written, foreign, or of a future
	// version. A Store returns it from Acquire, an Inspector from Lookup. The
	// engine answers 503 and runs nothing, under FailOpen too: a record was there,
	// so a handler may have run.
	ErrCorruptRecord = errors.New("oncekey: the store holds something that is not a record")

	// ErrStoreFull says that a bounded store takes no new key at the moment.
	// Finished and running ones stay as they are.
	ErrStoreFull = errors.New("oncekey: the store is full")

	// ErrStoreForbidden says that the store refuses this process for want of rights
	// (a Redis ACL, a PostgreSQL grant). A Store returns it, wrapped with the missing
	// right. Waiting does not help: the engine answers 503, runs nothing (under
	// FailOpen neither) and does not repeat the call.
	ErrStoreForbidden = errors.New("oncekey: the store forbids this process what it needs")

	// ErrRolledBack says that a transaction was certainly rolled back: the database
	// refused the commit, or the commit was never sent. Transaction.Commit returns
	// it, wrapped with the database's error. The engine then releases the key, and
	// Engine.Finish returns it: the handler's response is not shown.
	ErrRolledBack = errors.New("oncekey: the transaction was rolled back")
)
