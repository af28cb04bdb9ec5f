// Package core runs a handler once for each idempotency key, and replays its
// answer to every retry.
//
//	engine, err := core.New(memstore.New(), core.ScopeBy(userID))
//	mux.Handle("POST /payments", engine.Handler(pay, policy.TTLHours(48)))
//
// Routers have adapters of their own: adapters/chi and adapters/gin. Stores are
// the sibling folders: core/memstore is embedded, core/redisstore is shared by
// the processes of a service, core/pgstore lives in a database, in which handlers
// may write in one transaction with their answer, and core/tieredstore is one over
// another.
//
// # A request's way
//
// The engine admits a request (method, key, scope, body), takes its fingerprint,
// and acquires the lease of its key at the store: one of any number of
// concurrent callers gets it. That one runs the handler, with a context that the
// client's disconnect does not cancel, while the lease is renewed. Its answer is
// held back until the store has it: record first, respond after. The others get
// the stored answer, 409 while there is none, or 422 when their payload differs.
//
// What is no HTTP handler runs under the same rules by Do. A route, or a whole
// engine, may also only observe (policy.Observe, WithObserveOnly): it reports what
// it would do, and changes nothing.
//
// # What it promises
//
// As long as the store keeps what it was told, no two handlers run for one key
// unless the first was abandoned (its process died, or could not reach the store
// for a whole LockTTL) or said that the key may be used again. A client that
// hangs up, a store that fails while the answer is saved, a handler that
// outlives its LockTTL, and an answer that is large or flushed are no exceptions.
//
// # What it does not promise
//
// A process that dies after its side effect and before its answer is stored
// leaves a key of which nobody knows the outcome: policy.OnAbandoned decides.
// A handler that ignores its cancelled context can run beside the next attempt:
// Lease.Attempt is the fencing token to turn it away with. And a store can
// forget: what each one can lose stands in its package's comment.
package core
