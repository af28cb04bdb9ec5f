// Package core runs a handler once for each idempotency key, and replays the
// stored response to every retry.
//
//	engine, err := core.New(memstore.New(), core.ScopeBy(userID), core.WithService("shop"))
//	mux.Handle("POST /payments", engine.Handler(pay, policy.TTLHours(48)))
//
// Routers and protocols have adapters: adapters/chi, gin, grpc, connect and mcp. Stores are the sibling
// folders. core/memstore is embedded in the process. core/redisstore is shared by
// the processes of a service. core/pgstore keeps records in PostgreSQL, where a
// handler can write in one transaction with its response. core/sqlstore does so in other
// databases, through database/sql. core/tieredstore puts one store over another, and
// core/sealedstore encrypts records.
//
// # Vocabulary
//
//   - key: the client's header value. scope: whose key it is.
//   - fingerprint: tells a retry from a different request under the same key.
//   - lease: the right to run the handler, held by a token until it expires or is
//     settled. attempt: the number of the claim, from 1.
//   - record: the store's entry for a key. It is abandoned when its lease ended
//     before a response was stored.
//   - settle: store the response (complete), or release the key for the next request
//     (release). replay: send the stored response again.
//
// # A request's way
//
// The engine admits a request (method, key, scope, body), computes its fingerprint,
// and claims the lease of its key at the store. Of any number of concurrent
// callers, one gets the lease and runs the handler. The handler's context outlives
// the client's disconnect, and the lease is renewed while the handler runs. The
// response is stored first and sent second. A response that streams is not stored, and its
// handler follows the client (see Engine.Serve). The other callers get the stored
// response, 409 while there is none, or 422 when their payload differs.
//
// A handler with several side effects records each of them by Step, and the next
// attempt continues where the last one was.
//
// Use Do to protect a function that is not an HTTP handler, such as a queue
// consumer. A route or an engine can also observe (policy.ObserveOnly,
// WithObserveOnly): it reports what a guard would do, and changes nothing.
//
// # Operators
//
// A readiness probe calls Engine.Ready. Engine.Inspector looks records up, explains the
// response of a retry, and settles abandoned keys by hand. Engine.Running and
// Engine.Routes show this process. Package adapters/inspector makes a web page of them.
//
// # Promise
//
// One handler runs for each key. A second run can happen only if the store loses data that
// it acknowledged, if the process of the first handler crashed or lost contact with the store
// for longer than LockTTL, if the handler ran on for a LockTTL after MaxRun, or if it released
// the key or left it uncertain, for example with failure.MarkRetryable. Clients that hang up, a
// store that fails while the response is saved, and handlers that outlive their LockTTL are no
// exceptions.
//
// A response that the store has not confirmed is shown only within the lease. After
// that the client gets 503 not_confirmed, and its retry gets the stored response.
//
// # Limits
//
// A process that dies after a side effect and before its response is stored leaves
// an unknown outcome, and policy.OnAbandoned decides. A handler that ignores its
// cancelled context can run beside the next attempt: pass Lease.Attempt downstream
// as a fencing token. The package comment of each store says which data it can lose.
package core
