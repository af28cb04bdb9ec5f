// Package idemmcp guards tools of an MCP server with idempotency policies: an agent that
// calls a tool again, because the reply was lost, gets the first result, and the tool runs
// once. It also gives the calls of a client a key.
//
//	table, err := policy.NewTable(policy.Row("TOOL charge", policy.TTLHours(48)))
//	guard, err := idemmcp.New(engine, table)
//	server := mcp.NewServer(&mcp.Implementation{Name: "shop"}, nil)
//	mcp.AddTool(server, &mcp.Tool{Name: "charge"}, charge)
//	server.AddReceivingMiddleware(guard.Receive)
//	report, err := guard.Audit(ctx, server) // report.Err(): a row that guards no tool
//
// The engine is that of package core, and may serve HTTP too. The package works with every
// transport of the Go SDK: stdio, Streamable HTTP with and without sessions, in memory.
//
// # The key
//
// MCP has no place for an idempotency key. The guard reads the places that protocols over
// MCP use (DefaultKeyPlaces), or those of KeyIn. A call with keys in two places is refused,
// unless they are equal. Typed tools refuse members that their input type does not have, so
// a tool whose key is in its arguments declares it:
//
//	type Order struct {
//		Amount         int    `json:"amount"`
//		IdempotencyKey string `json:"idempotency_key"`
//	}
//
// Two calls are equal if their tools and arguments are. The place of the key does not count,
// and neither do the JSON-RPC id, _meta, the session and the version of the protocol.
// Absent arguments and null are equal to an empty object. ExcludeFields, IncludeFields and ExactBytes
// work on the arguments as on a JSON body.
//
// Arguments that the tool's input schema refuses never use a key: the guard responds with
// isError, as the SDK's typed tools do. If a tool is replaced while the server runs by one
// with a stricter schema, calls that only the new schema refuses count as failed runs.
//
// # Scope
//
// The core.Scope gets a request whose context is the call's (see CallFrom), and whose
// header is that of the HTTP request, if any. TokenScope is the user of a verified token.
// Do not scope by the session: a retry comes on a new one. The request has no Host, so
// core.ScopeByHost refuses every call here.
//
// # Results
//
// The guard stores the result. A replay is that result for the new call, with the member
// replayed of _meta set to true. OnReplay may change it.
//
// The engine's own errors are JSON-RPC errors with the code -32000. Their data is the body
// that the engine writes for HTTP (RFC 9457, or the form of core.WithProblemWriter), with
// retry_after in seconds where the same call may succeed later. Under AdCP they are results
// with isError.
//
// A result with isError releases the key, and so does a JSON-RPC error. For lists such as
// policy.Keep, and for a Classifier, both count as the status 500, or 422 if
// failure.Permanent wraps the error that a typed tool returned. Under OnAbandoned(Refuse) or
// Recover they are uncertain. The codes -32600, -32601 and -32602 say that no tool has run,
// and release the key. Marks of package failure come first.
//
// A result that asks for input (SEP-2322) is never stored. Its key is released, steps that
// core.Step has recorded stay, and the call with the input continues under the same key. The
// code -32042, by which a tool asks its user to visit a URL, releases the key too: call again
// under the same key, with Send by WithKey around both calls.
//
// # Sessions
//
// A guarded tool outlives its client. Its context has the values of the call's, and neither
// its cancellation nor its deadline: the result is stored, and the retry gets it.
// policy.MaxRun bounds the run, and also an elicitation or sampling to which the client does
// not respond. Progress and log messages reach the client of the call. A replay has none.
//
// Since protocol version 2026-07-28 a request for input is a result, and the input comes
// with a call of its own: two runs. Before, the SDK asks the client within the run and calls
// the tool again, so that a core.Step before the request for input is refused the second
// time. Ask first, and take steps afterwards, or serve the new version alone
// (mcp.ServerOptions.SupportedProtocolVersions).
//
// The SDK has no tasks, and results of tools are no streams.
//
// # Protocols and clients
//
// The options ACP and AdCP serve the protocols' bindings to MCP, on an engine with a profile
// of package commerce. Send is the middleware of clients: one key for all attempts of a call.
//
// # Limits
//
// MaxRequestBytes bounds the arguments, and MaxResponseBytes the stored result. A larger
// result is sent, and retries get not_replayable. So do retries of a result that is no JSON.
// RedactFields is refused, because the text of a result repeats its structured content.
package idemmcp
