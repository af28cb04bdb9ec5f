// Package idemconnect guards unary procedures of connectrpc.com/connect with idempotency
// policies, and gives calls of clients a key. It serves the Connect, gRPC and gRPC-Web
// protocols alike.
//
//	table, err := policy.NewTable(
//		policy.Row("POST /shop.v1.Payments/Pay", policy.TTLHours(48)),
//		policy.Row("POST /shop.v1.Payments/Refund", policy.KeyField("request_id")), // AIP-155
//	)
//	guard, err := idemconnect.New(engine, table)
//	path, handler := shopconnect.NewPaymentsHandler(payments, connect.WithInterceptors(authenticate, guard))
//	mux.Handle(path, handler)
//
// The engine is that of package core, and may serve HTTP and gRPC too: records are equal
// to those of adapters/grpc, so that a call over one and its retry over the other are
// one operation. The key is the header Idempotency-Key, or a field of the request
// (policy.KeyField). The Scope gets a request with the call's context and header, and
// without Host, so that core.ScopeByHost refuses every call here: see ScopeBy.
//
// A call that has a stored response gets it again: message, or error with details,
// headers and trailers, and the header Idempotent-Replay: true. docs/rpc.md has the codes
// of the engine's own errors, and the codes after which a key is released.
//
// # Policies
//
// All options of a policy work as for HTTP. Fields have their names in the .proto file,
// also for clients that send JSON. Lists of statuses and classifiers see the
// HTTP status of a code (google.rpc.Code; see docs/rpc.md). MaxRequestBytes bounds the
// message in its JSON form, which has the content of the fingerprint. RedactFields is
// refused.
//
// # Handlers
//
// The functions of packages core and failure work with the handler's context, and an
// error that failure.Retryable or failure.Uncertain wraps acts as the mark. The deadline
// of the client does not end a guarded handler, and neither does a deadline that is set
// outside of the guard: policy.MaxRun bounds the run.
//
// # Limits
//
// Streams are not guarded: a table with a stream is refused. Calls over GET pass: Connect
// sends them for procedures without side effects. Requests are compared by the schema of
// the process: deploy a new schema to the servers first.
package idemconnect
