// Package event describes the engine's decisions and settlements, and sends them to
// an [Observer].
//
//	core.New(store, scope, core.WithObserver(event.Log(logger)))
//
// Log, the default observer, writes lines of package log/slog. Package adapters/otel
// makes metrics and spans. Test your own observer with subjects that [About] makes:
//
//	subject := event.About("POST", "/payments", "alice", "k1", "pod-1")
//	observer.Observe(ctx, event.Event{Result: event.Replay, Subject: &subject})
package event

import (
	"context"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core/internal/frame"
	"github.com/oncekey/oncekey/core/storage"
)

// Result names a decision, or the outcome of a run.
type Result string

// Decisions: one for each guarded request.
const (
	Execute        Result = "execute"         // the handler runs
	Replay         Result = "replay"          // the stored response was sent
	InProgress     Result = "in_progress"     // 409: a concurrent request
	KeyReused      Result = "key_reused"      // 422: another payload
	NotReplayable  Result = "not_replayable"  // 409: finished, response not kept
	KeyExpired     Result = "key_expired"     // 409: finished, response expired (policy.Remember)
	OutcomeUnknown Result = "outcome_unknown" // 409: abandoned, not run again
	ScopeLimited   Result = "scope_limited"   // 429: too many new keys of the scope (core.WithScopeLimit)
	Refused        Result = "refused"         // 400, 401 or 413: never reached the store
	Unprotected    Result = "unprotected"     // store unavailable, FailOpen: ran without protection
	Unavailable    Result = "unavailable"     // 503: store unavailable, or shutting down
	NoKey          Result = "no_key"          // no key, and none required: ran unguarded
	Skipped        Result = "skipped"         // policy.SkipIf let the request pass: ran unguarded
	WrongSetup     Result = "wrong_setup"     // refused with 500, or a warning (no Code): Err names the setting to change
)

// Settlements: one for each run, more when the store fails.
const (
	Completed      Result = "completed"       // response stored
	Failed         Result = "failed"          // error response stored: retries get it too
	Unreplayable   Result = "unreplayable"    // finished, response not kept
	DeleteKey      Result = "delete_key"      // key released: the run failed
	Retryable      Result = "retryable"       // key released: the handler had no effect yet
	Uncertain      Result = "uncertain"       // key left abandoned: the side effect may have happened, and OnAbandoned decides
	SettleDeferred Result = "settle_deferred" // the store failed: the engine settles in the background from now on
	ResponseLost   Result = "response_lost"   // response not stored: the background gave up
	NotConfirmed   Result = "not_confirmed"   // a transaction's commit failed, or its reply was lost
	LeaseLost      Result = "lease_lost"      // another attempt holds the key
	LeaseExpired   Result = "lease_expired"   // an abandoned attempt was seen
	RunTooLong     Result = "run_too_long"    // the handler passed MaxRun
	LeaseRenewed   Result = "lease_renewed"   // the handler still runs
	StoreError     Result = "store_error"     // one call at the store failed
	RecoverError   Result = "recover_error"   // the policy's RecoverFunc returned an error

	// TransactionUnused: a run of a transactional route keeps its response, and its handler
	// never took the transaction. The handler's effects were outside of it.
	TransactionUnused Result = "transaction_unused"

	CallbackPanicked Result = "callback_panicked" // a function or store of the program panicked
)

// Results of core.Engine.Reconcile, about abandoned keys.
const (
	Reconciled      Result = "reconciled"        // settled by a FindFunc: Reason is response, happened or did not happen
	ReconcileGaveUp Result = "reconcile_gave_up" // still unknown after MaxAttempts: an operator has to settle the key
)

// Changes by hand: Operator and Reason name the person and the reason.
const (
	SettledByHand Result = "settled_by_hand" // an abandoned key was settled
	Forgotten     Result = "forgotten"       // a record was removed: the next request runs
	Revealed      Result = "revealed"        // a stored response was shown
)

// Event is one decision about a request, or one change of a run.
type Event struct {
	Result Result
	// Route is the route's pattern, or "" when it is not known (yet).
	Route string
	// Code of the problem that was sent, if one was.
	Code string
	// Status is the HTTP status of the response: the handler's, the stored one, or the
	// problem's. Zero where the event has no response, and for Refused and WrongSetup.
	Status int
	// Record is the storage key, or "" where the request did not get so far. An
	// Inspector's Lookup takes it.
	Record string
	// Attempt is the claim's number; zero when there is none.
	Attempt uint64
	// Holder is the process that holds the key (core.WithInstance), when another attempt
	// is in progress or abandoned. "" where it is not known.
	Holder string
	// Panicked says that the handler or function panicked.
	Panicked bool
	// Trace is the trace of the run whose response is replayed (core.WithTrace), or "".
	Trace string
	// Final says that a LeaseLost, StoreError or CallbackPanicked ends its run, see Ends.
	Final bool
	// Renewal says that the event is about the renewal of a lease: a LeaseRenewed, or a
	// StoreError or LeaseLost from it. What core.Step stores is no renewal.
	Renewal bool
	// Duration since the request was admitted.
	Duration time.Duration
	// StoreLatency is the time spent waiting for the store in this step.
	StoreLatency time.Duration
	// Operator is the person who made a change by hand (core.ByHand), or "".
	Operator string
	// Reason is the text that the handler gave to failure.MarkRetryable or failure.MarkUncertain,
	// or the operator's reason for a change by hand.
	Reason string
	// Differs names the members that differ from the key's first request, when
	// the response is key_reused. For members that change in every attempt, pass
	// these names to policy.ExcludeFields. At most 16 names, and only text that looks
	// like a name (fingerprint.LooksLikeName), because a client may send values where
	// names belong. Others counts the differing members that are not named. Missing
	// counts the members that only the first request had.
	Differs         []string
	Others, Missing int
	// Observed says that the route only observes. The handler ran without a guard, and
	// Result is the decision that a guard would have made.
	Observed bool
	// Err is the store's error, the function's, handler's or Scope's, the cause that ended the run early, or the
	// limit at which a request may not wait. An Unreplayable whose Err wraps storage.ErrNotStorable was
	// refused by the store. The text may quote the request: log ErrorText instead.
	Err error

	// Subject is the request or call; nil when there is none.
	Subject *Subject
}

// Subject is the request or call that an event is about. All events of a request
// share one Subject. The fields are hidden, because an observer must not see a key
// or a scope.
type Subject struct{ method, path, scope, key, instance string }

// About returns the subject of events about a request, or about a call of core.Do:
// then method is storage.MethodCall, and path is the function's name. For a tool of an MCP
// server they are storage.MethodTool and the tool's name. Use About in tests of observers.
func About(method, path, scope, key, instance string) Subject {
	return Subject{method, path, scope, key, instance}
}

// Ends reports whether the event ends its run. A run begins when the engine has claimed
// the key, and exactly one event ends it: the settlement of its key at the store, or the
// report that the store will not be called again. A run that is settled in the
// background ends there. A handler that streams its response may still be writing.
func (e *Event) Ends() bool {
	switch e.Result {
	case Completed, Failed, Unreplayable, DeleteKey, Retryable, Uncertain, ResponseLost, RecoverError, Reconciled:
		return true
	case LeaseLost, StoreError, CallbackPanicked:
		return e.Final
	default:
		return false
	}
}

// Endpoint returns the method and the route's pattern, or the method and the path
// when the pattern is not known. Path segments that do not look like a name
// (fingerprint.LooksLikeName), such as a card number or a mail address, are replaced
// by a star. Only the pattern may label a metric: see Route.
func (e *Event) Endpoint() string {
	if e.Subject == nil {
		return ""
	}
	if e.Subject.method == "" { // a change by hand: the record has the route only
		return printable(e.Route)
	}
	if e.Subject.method != storage.MethodCall && !strings.HasPrefix(e.Route, "/") && strings.Contains(e.Route, " ") {
		return e.Route // net/http's patterns name the method
	}
	name := e.Route
	if name == "" {
		name = shownPath(e.Subject.path)
	}
	return printable(e.Subject.method) + " " + name
}

// KeyHash returns 16 hex digits that stand for the idempotency key, or "" without a
// key. Only the hash is shown, because the key belongs to the client.
func (e *Event) KeyHash() string {
	if e.Subject == nil {
		return ""
	}
	return KeyHash(e.Subject.key)
}

// ScopeHash returns 16 hex digits that stand for the scope, or "" without a scope.
func (e *Event) ScopeHash() string {
	if e.Subject == nil {
		return ""
	}
	return KeyHash(e.Subject.scope)
}

// Instance returns the name of the process (core.WithInstance).
func (e *Event) Instance() string {
	if e.Subject == nil {
		return ""
	}
	return e.Subject.instance
}

// KeyHash returns 16 hex digits that stand for an idempotency key or a scope, as
// Event.KeyHash and Event.ScopeHash do, and "" for "".
func KeyHash(key string) string {
	if key == "" {
		return ""
	}
	sum := frame.Sum(key)
	return string(frame.AppendShort(nil, &sum))
}

// Observer receives events. The engine calls Observe concurrently, on goroutines of requests
// and on its own. Observe should return at once, and must return: after runtime.Goexit, as by
// FailNow of a test, the run would never end, and Shutdown would wait for it.
type Observer interface {
	Observe(ctx context.Context, event Event)
}
