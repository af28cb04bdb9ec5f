// Package idemgrpc guards unary gRPC procedures with idempotency policies, and gives
// calls of clients a key.
//
//	table, err := policy.NewTable(
//		policy.Row("POST /shop.v1.Payments/Pay", policy.TTLHours(48)),
//		policy.Row("POST /shop.v1.Payments/Refund", policy.KeyField("request_id")), // AIP-155
//	)
//	guard, err := idemgrpc.New(engine, table)
//	server := grpc.NewServer(grpc.ChainUnaryInterceptor(recovery, authenticate, guard.Intercept))
//	shop.RegisterPaymentsServer(server, payments)
//	report := guard.Audit(server) // report.Err(): a row that guards no procedure of the server
//
// The engine is that of package core, and may serve HTTP too. The key is the metadata
// idempotency-key, or a field of the request (policy.KeyField). The Scope gets a request
// whose context is the call's, and whose header has the call's metadata: see ScopeBy.
//
// A call that has a stored response gets it again: message or status with details,
// header and trailer metadata, and the header idempotent-replay: true, which an error has
// in the trailer too. docs/rpc.md has the codes of the engine's own errors, and the codes after which a key is released.
//
// # Policies
//
// All options of a policy work as for HTTP, with the procedure as the path of a POST and
// the metadata as its header. Fields have their names in the .proto file.
// Lists of statuses and classifiers see the HTTP status of a code (google.rpc.Code; see
// docs/rpc.md). MaxRequestBytes bounds the message in its JSON form, which has the
// content of the fingerprint. RedactFields is refused.
//
// # Handlers
//
// The functions of packages core and failure work with the handler's context, and an
// error that failure.Retryable or failure.Uncertain wraps acts as the mark. The deadline
// of the client does not end a guarded handler, and neither does a deadline that an
// interceptor outside of the guard sets: policy.MaxRun bounds the run. Headers are sent
// when the response is stored, also after grpc.SendHeader. grpc.SetSendCompressor does
// not work in a guarded handler.
//
// # Limits
//
// Streams are not guarded: a table with a stream is refused. Requests are compared by
// the schema of the process: if a client sends a field that only some of the servers
// know, a retry to another server may get FailedPrecondition. So deploy a new schema to
// the servers first. A google.protobuf.Any is compared byte by byte.
package idemgrpc
