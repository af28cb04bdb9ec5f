// Package idemotel turns the engine's events into OpenTelemetry metrics and spans.
//
//	observer, err := idemotel.New(idemotel.WithNext(event.Log(nil))) // metrics, spans and the log
//	if err != nil { ... }
//	engine, err := core.New(store, scope, core.WithObserver(observer))
//
// The package uses only the OpenTelemetry API, and the global providers unless options
// set others. Without an SDK it records no data and costs very little.
//
// # Metrics
//
//	idempotency.requests            counter, {request}           decisions, one for each request of a guarded route
//	idempotency.conflicts           counter, {request}           requests with a 409 or 422 response
//	idempotency.settlements         counter, {settlement}        results of runs: at least one for each run
//	idempotency.running             up-down counter, {run}       runs whose handler has begun and that have not ended
//	idempotency.settlement.pending  up-down counter, {settlement} runs whose settlement the store has not accepted yet
//	idempotency.settlement.pending.age  gauge, s                 age of the oldest pending settlement of the process; zero without one
//	idempotency.store.records       gauge, {record}              records in the program's store; only with WithRecords
//	idempotency.store.swept         counter, {record}            expired records that sweeps removed; only with WithSwept
//	idempotency.waiting             gauge, {request}             requests that wait for a concurrent one; only with WithWaiting
//	idempotency.lease.expired       counter, {lease}             abandoned attempts that the engine found
//	idempotency.lease.renewals      counter, {renewal}           renewals of leases whose handlers ran on: lease_renewed, store_error
//	                                                             (also with error.type) or lease_lost
//	idempotency.store.errors        counter, {error}             failed store calls, also with error.type
//	idempotency.decision.duration   histogram, s                 from a request's arrival to its decision, including a Wait
//	idempotency.run.duration        histogram, s                 from a request's arrival to its run's last settlement
//	idempotency.store.duration      histogram, s                 time spent in the store in one step
//
// Counters never decrease, so that rates survive a restart. Units and names follow the
// semantic conventions for metrics. instruments.go has the boundaries of the histograms
// with their reasons; a View of the SDK replaces the boundaries.
//
// All attributes have few values:
//
//	idempotency.result    an event.Result; only on counters and decision.duration
//	idempotency.code      shutting_down or store_unavailable; only on requests with the result unavailable
//	idempotency.observed  true if the engine only observes and does not enforce the policy
//	http.request.method   GET, POST, ..., or _OTHER; CALL for core.Do, TOOL for adapters/mcp
//	http.route            the route's pattern without method and host, or the name of the call or tool;
//	                      "unmatched" while no route is known
//	error.type            corrupt_record, store_full, timeout, canceled or _OTHER; only on store.errors and lease.renewals
//
// A route has about 120 series in Prometheus, of which decision.duration has 20 for each
// result that occurs. run.duration and store.duration have no result for that reason. A
// View of the SDK that drops a histogram's boundaries makes fewer.
//
// A counter begins with the first event that it counts. A rule about an event that must
// not happen even once has to match a series that was not there before, as the rules of
// examples/observability do.
//
// The method and the route have the spelling of the HTTP server's own metrics, so that
// both can be joined. A key, a scope or a path is never an attribute of a metric.
//
// # Spans
//
// The observer makes one span for each guarded request, after its end: "idempotency POST
// /payments". The span lasts from the request's arrival to its decision (a replay, a
// conflict, a refusal). If the handler ran, the span lasts to the run's last settlement,
// which may follow the response. The span is a child of the span in the request's
// context, beside the handler's own spans, whose parents do not change. It has the
// attributes above, and
//
//	idempotency.attempt         the claim's number: above 1, an earlier attempt was abandoned or had recorded steps
//	idempotency.key.hash        16 hex digits; a run and all its replays have the same. Never the key
//	idempotency.code            the code of the problem response
//	idempotency.reason          the handler's reason for failure.MarkRetryable or MarkUncertain, or the operator's
//	idempotency.store.duration  seconds spent in the store in the last step
//
// The span's status is Error if an operator should act: the store was unavailable, the
// outcome is unknown, the run failed, its lease or its response was lost. A client's
// mistake is not a server error.
//
// Intermediate steps are events of the span in the request's context:
// idempotency.execute when the handler begins, idempotency.settle_deferred,
// idempotency.lease_expired, and so on.
//
// With core.WithTrace(idemotel.TraceOf) the span of a replay has a link to the span of the
// request that ran. Without it, search for the key's hash.
package idemotel
