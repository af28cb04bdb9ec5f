package core

import (
	"context"
	"encoding/hex"
	"log/slog"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core/internal/frame"
)

// EventResult is what was decided or what became of a run.
type EventResult string

// Decisions: one for each guarded request.
const (
	ResultExecute        EventResult = "execute"         // the handler runs
	ResultReplay         EventResult = "replay"          // the stored answer was sent
	ResultInProgress     EventResult = "in_progress"     // 409: a concurrent request
	ResultKeyReused      EventResult = "key_reused"      // 422: another payload
	ResultNotReplayable  EventResult = "not_replayable"  // 409: finished, answer not kept
	ResultOutcomeUnknown EventResult = "outcome_unknown" // 409: abandoned, not run again
	ResultRefused        EventResult = "refused"         // 400, 401 or 413: never reached the store
	ResultUnprotected    EventResult = "unprotected"     // store unavailable, FailOpen: ran without protection
	ResultUnavailable    EventResult = "unavailable"     // 503: store unavailable, or shutting down
	ResultNoKey          EventResult = "no_key"          // no key, and none required: ran unguarded
	ResultWrongSetup     EventResult = "wrong_setup"     // refused with 500, or let pass (no Code): Err says what to declare otherwise
)

// Settlements: one for each run, more when the store fails.
const (
	ResultCompleted    EventResult = "completed"       // answer stored
	ResultFailed       EventResult = "failed"          // answer stored: a lasting no
	ResultUnreplayable EventResult = "unreplayable"    // finished, answer not kept
	ResultDeleteKey    EventResult = "delete_key"      // key freed: the run broke down
	ResultRetryable    EventResult = "retryable"       // key freed: nothing happened yet
	ResultDeferred     EventResult = "settle_deferred" // the store failed: settled in the background from now on
	ResultAnswerLost   EventResult = "answer_lost"     // the background gave up
	ResultNotConfirmed EventResult = "not_confirmed"   // a transaction's commit failed, or its reply was lost
	ResultLeaseLost    EventResult = "lease_lost"      // somebody else holds the key
	ResultLeaseExpired EventResult = "lease_expired"   // an abandoned attempt was seen
	ResultRunTooLong   EventResult = "run_too_long"    // the handler passed MaxRun
	ResultStoreError   EventResult = "store_error"     // one call at the store failed
	ResultRecoverError EventResult = "recover_error"   // the policy's RecoverFunc returned an error

	ResultCallbackPanicked EventResult = "callback_panicked" // a function or store of the program panicked
)

// Event is one decision, or one thing that happened to a run.
type Event struct {
	Result EventResult
	// Route is the route's pattern, or "" when it is not known (yet).
	Route string
	// Code of the problem that was sent, if one was.
	Code string
	// Attempt is the claim's number; zero when there is none.
	Attempt uint64
	// Duration since the request was admitted.
	Duration time.Duration
	// StoreLatency is the time spent waiting for the store in this step.
	StoreLatency time.Duration
	// Reason is the text that the handler gave to failure.MarkRetryable.
	Reason string
	// Differs names the members that differ from the key's first request, when
	// the response is key_reused. If they change in every attempt, give them to
	// policy.ExcludeFields, which takes them as they are spelled here. At most 16
	// names, and only text that looks like a name (fingerprint.LooksLikeName): a
	// client may send values where names belong. Others counts the differing
	// members that are not named. Missing counts the members that only the first
	// request had.
	Differs         []string
	Others, Missing int
	// Observed says that the route only observes: Result is what would have been,
	// and the handler ran as if there were no guard.
	Observed bool
	// Err is the store's error, the function's or handler's, or the cause that cut
	// the run short. Its text may quote the request: log ErrorText instead.
	Err error

	// Subject is the request or call; nil when there is none.
	Subject *Subject
}

// Subject is the request or call that an event is about: opaque, because an observer
// must not see a key or a scope. All events of a request share one.
type Subject struct{ method, path, scope, key, instance string }

// About returns the subject of events about a request, or a call of core.Do (its
// method is MethodCall, its path the function's name). Tests of observers make
// events with it.
func About(method, path, scope, key, instance string) Subject {
	return Subject{method, path, scope, key, instance}
}

// Endpoint returns the method and the route's pattern. When the pattern is not
// known, it returns the method and the path. Each segment of that path that does not
// look like a name (fingerprint.LooksLikeName), such as a card number or a mail
// address, is a star. Only the pattern may label a metric: see Route.
func (e *Event) Endpoint() string {
	if e.Subject == nil {
		return ""
	}
	if e.Subject.method != MethodCall && !strings.HasPrefix(e.Route, "/") && strings.Contains(e.Route, " ") {
		return e.Route // net/http's patterns name the method
	}
	name := e.Route
	if name == "" {
		name = shownPath(e.Subject.path)
	}
	return printable(e.Subject.method) + " " + name
}

// KeyHash returns 16 hex digits that stand for the idempotency key; "" when
// there is none. The key itself is the client's and never shown.
func (e *Event) KeyHash() string {
	if e.Subject == nil {
		return ""
	}
	return KeyHash(e.Subject.key)
}

// ScopeHash returns 16 hex digits that stand for the scope; "" when there is none.
func (e *Event) ScopeHash() string {
	if e.Subject == nil {
		return ""
	}
	return KeyHash(e.Subject.scope)
}

// Instance returns the name of the process, see the option Instance.
func (e *Event) Instance() string {
	if e.Subject == nil {
		return ""
	}
	return e.Subject.instance
}

// KeyHash returns 16 hex digits that stand for an idempotency key or a scope, as
// Event.KeyHash and Event.ScopeHash do; "" for "".
func KeyHash(key string) string {
	if key == "" {
		return ""
	}
	sum := frame.Sum(key)
	return hex.EncodeToString(sum[:8])
}

// Observer is told what happens. Observe is called from the request's own
// goroutine or the engine's background ones, concurrently, and should return
// at once.
type Observer interface {
	Observe(ctx context.Context, event Event)
}

// LogObserver returns the default observer. It writes to logger, or to
// slog.Default() as it is at that moment when logger is nil: what goes well at
// level Debug, what clients do wrong and what frees a key at Info, what
// operators should know at Warn, and lost answers at Error.
func LogObserver(logger *slog.Logger) Observer { return logObserver{logger} }

type logObserver struct{ logger *slog.Logger }

func (o logObserver) Observe(ctx context.Context, event Event) {
	logger := o.logger
	if logger == nil {
		logger = slog.Default()
	}
	level := event.level()
	if !logger.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("event", "idempotency."+string(event.Result)),
		slog.String("result", string(event.Result)),
		slog.String("endpoint", event.Endpoint()),
		slog.String("idempotency_key", event.KeyHash()),
		slog.String("instance", event.Instance()),
		slog.Float64("duration_ms", float64(event.Duration)/float64(time.Millisecond)),
	}
	if event.Attempt > 0 {
		attrs = append(attrs, slog.Uint64("attempt", event.Attempt))
	}
	if event.Reason != "" {
		attrs = append(attrs, slog.String("reason", printable(event.Reason)))
	}
	if len(event.Differs) > 0 || event.Others > 0 || event.Missing > 0 {
		attrs = append(attrs, slog.Any("differs", event.Differs))
		if event.Others > 0 {
			attrs = append(attrs, slog.Int("others", event.Others))
		}
		attrs = append(attrs, slog.Int("missing", event.Missing))
	}
	if event.Observed {
		attrs = append(attrs, slog.Bool("observed", true))
	}
	if event.Err != nil {
		attrs = append(attrs, slog.String("error", printable(event.ErrorText())))
	}
	logger.LogAttrs(ctx, level, "idempotency", attrs...)
}

func (e *Event) level() slog.Level {
	switch e.Result {
	case ResultExecute, ResultReplay, ResultNoKey, ResultCompleted, ResultFailed, ResultUnreplayable:
		return slog.LevelDebug
	case ResultInProgress, ResultKeyReused, ResultNotReplayable, ResultRefused, ResultRetryable, ResultDeleteKey:
		return slog.LevelInfo
	case ResultAnswerLost, ResultCallbackPanicked:
		return slog.LevelError
	default:
		return slog.LevelWarn
	}
}
