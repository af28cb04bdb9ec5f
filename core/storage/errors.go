package storage

import (
	"errors"

	"github.com/oncekey/oncekey/core/internal/cause"
)

// The errors that a Store returns. Test for them with errors.Is, because a store
// wraps them with the operation and the text of the database's error.
var (
	// ErrLeaseLost says that another attempt holds or has settled the key. Complete,
	// Release and Extend return ErrLeaseLost. A handler's context has this cause when
	// the lease was lost while the handler ran. Engine.Finish returns ErrLeaseLost
	// when the response was not stored for that reason.
	ErrLeaseLost = cause.New("oncekey: lease lost: another attempt holds this key")

	// ErrCorruptRecord says that this version cannot read the key's entry: the entry
	// is truncated, half-written, foreign, or of a future version. Acquire and
	// Inspector.Lookup return ErrCorruptRecord. The engine responds with 503 and runs
	// no handler, even under FailOpen, because a handler may have run for that entry.
	ErrCorruptRecord = errors.New("oncekey: the key's entry in the store is not a record that this version can read")

	// ErrUnreadable says that the store may hold a finished record under the key and
	// cannot read it at the moment, because the service that decrypts it is unreachable.
	// A store that seals records returns ErrUnreadable from Acquire, its Inspector from
	// Lookup. Waiting helps. The engine responds with 503 and runs no handler, even
	// under FailOpen, because a handler may have run.
	ErrUnreadable = errors.New("oncekey: the record cannot be read at the moment")

	// ErrStoreFull says that a bounded store accepts no new key at present.
	// Existing records, in progress or finished, stay unchanged.
	ErrStoreFull = errors.New("oncekey: the store is full")

	// ErrStoreForbidden says that this process lacks a right at the store (a Redis
	// ACL, a PostgreSQL grant). A Store wraps ErrStoreForbidden with the name of the
	// right. The engine responds with 503, runs no handler (even under FailOpen) and
	// does not repeat the call, because waiting does not help.
	ErrStoreForbidden = errors.New("oncekey: this process lacks a right that it needs at the store")

	// ErrNotStorable says that the store refuses these bytes for good: the response or the
	// steps are too large for the server or for a column, or a constraint forbids them. The
	// call has changed no record, and repeating it does not help. A Store wraps
	// ErrNotStorable with the database's error, and returns it for no fault that may pass.
	// Acquire and Checker.Check return it for a table that can keep no record: the engine
	// then responds with 503 and runs no handler, even under FailOpen. After it from
	// Complete, the engine completes the lease again at once without the response (State
	// Unreplayable, no Sketch), so retries get 409 not_replayable. Transaction.Commit
	// returns it together with ErrRolledBack.
	ErrNotStorable = errors.New("oncekey: the store refuses to keep this, now and later")

	// ErrRolledBack says that a transaction was certainly rolled back: the database
	// refused the commit, or the commit was never sent. Transaction.Commit returns
	// ErrRolledBack wrapped with the database's error. The engine then releases the
	// key, and Engine.Finish returns ErrRolledBack: the response must not be shown.
	ErrRolledBack = errors.New("oncekey: the transaction was rolled back")

	// ErrTransactionEnded says that a handler has ended its transaction by itself, for
	// example by COMMIT. Its writes may be committed, and the response is not stored.
	// Transaction.Commit returns ErrTransactionEnded wrapped. The engine then leaves the
	// key abandoned, and the policy's OnAbandoned decides about the next request.
	ErrTransactionEnded = errors.New("oncekey: the handler has ended its transaction")

	// ErrNotAbandoned says that a key is not abandoned under the attempt that the caller
	// named: it has no record, its lease runs, another attempt has begun, or it is
	// settled. Inspector.Settle returns ErrNotAbandoned. Look the record up again.
	ErrNotAbandoned = errors.New("oncekey: the key is not abandoned under this attempt: look it up again")
)
