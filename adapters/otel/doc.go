// Package idemotel turns the engine's events into OpenTelemetry metrics and spans.
//
//	observer, err := idemotel.New(idemotel.WithNext(event.Log(nil))) // measured, and logged as before
//	if err != nil { ... }
//	engine, err := core.New(store, scope, core.WithObserver(observer))
//
// It uses the OpenTelemetry API alone, and the global providers unless it is
// given others: without an SDK it measures nothing and costs next to nothing.
//
// # Metrics
//
//	idempotency.requests            counter, {request}           decisions, one for each request of a guarded route
//	idempotency.conflicts           counter, {request}           those of them that were answered with 409 or 422
//	idempotency.settlements         counter, {settlement}        what became of runs: at least one for each
//	idempotency.settlement.pending  up-down counter, {settlement} runs whose settlement the store has not taken yet
//	idempotency.lease.expired       counter, {lease}             abandoned attempts that were seen
//	idempotency.store.errors        counter, {error}             failed calls at the store, with error.type as well
//	idempotency.decision.duration   histogram, s                 from a request's admission to its decision, a Wait included
//	idempotency.run.duration        histogram, s                 from a request's admission to its run's last settlement
//	idempotency.store.duration      histogram, s                 waiting for the store in one step
//
// Counters count what never decreases, so that rates survive a restart; times are
// in seconds and names singular or plural as the semantic conventions for metrics
// ask. The boundaries of the histograms stand, with the reasons, in instruments.go;
// a View of the SDK replaces them.
//
// Their attributes, all of few values, are
//
//	idempotency.result    an EventResult of package core; not on settlement.pending
//	idempotency.observed  true where the engine only says what it would have done
//	http.request.method   GET, POST, ..., or _OTHER; CALL for core.Do
//	http.route            the route's pattern without the method, or the name of the call;
//	                      "unmatched" while none is known
//	error.type            corrupt_record, store_full, timeout, canceled or _OTHER; on store.errors alone
//
// The method and the route are spelled as the HTTP server's own metrics spell
// them, so that the two can be joined. A key, a scope or a path is never an
// attribute of a metric.
//
// # Spans
//
// Each guarded request makes one span, after the fact: "idempotency POST
// /payments", from its admission to its decision (a replay, a conflict, a refusal)
// or, if its handler ran, to the run's last settlement, be it after the response.
// It is a child of the span in the request's context, beside the handler's own
// spans, whose parents stay what they were. It has the attributes above, and
//
//	idempotency.attempt         the claim's number: above 1, an earlier attempt was abandoned
//	idempotency.key.hash        16 hex digits; a run and all its replays have the same. Never the key
//	idempotency.code            of the problem that was sent
//	idempotency.reason          what the handler gave to failure.MarkRetryable
//	idempotency.store.duration  seconds of waiting for the store in the last step
//
// Its status is Error where an operator should look: the store was unavailable,
// the outcome is unknown, the run broke down, its lease or its answer was lost.
// What clients do wrong is no error of the server.
//
// What happens in between is an event of the span in the request's context:
// idempotency.execute as the handler begins, idempotency.settle_deferred,
// idempotency.lease_expired, and so on. A replay has no link to the run whose
// answer it sent, because stores keep no trace context: search for the key's hash.
package idemotel
