package event

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// Log returns the default observer, which writes to logger. A nil logger means
// slog.Default() at the time of the event. Plain runs, replays and unguarded requests are
// logged at level Debug, so that a service at Info is silent while all is well. Refusals,
// released keys, responses that are not kept and changes by hand are at Info. Events for
// operators are at Warn. Lost responses, runs without protection and panics of callbacks
// are at Error. LogAt changes a level.
func Log(logger *slog.Logger, options ...LogOption) Observer {
	o := &logObserver{logger: logger}
	for i, option := range options {
		if option == nil {
			panic(fmt.Sprintf("event: option %d of Log is nil: leave it out", i+1))
		}
		option(o)
	}
	return o
}

// LogOption is a setting of Log.
type LogOption func(*logObserver)

// LogAt sets the level at which these results are logged.
func LogAt(level slog.Level, results ...Result) LogOption {
	return func(o *logObserver) {
		if o.levels == nil {
			o.levels = make(map[Result]slog.Level)
		}
		for _, result := range results {
			o.levels[result] = level
		}
	}
}

type logObserver struct {
	logger *slog.Logger
	levels map[Result]slog.Level
}

func (o *logObserver) Observe(ctx context.Context, event Event) {
	logger := o.logger
	if logger == nil {
		logger = slog.Default()
	}
	level, chosen := o.levels[event.Result]
	if !chosen {
		level = levelOf(&event)
	}
	if logger.Enabled(ctx, level) {
		logger.LogAttrs(ctx, level, "idempotency", attributesOf(&event)...)
	}
}

// attributesOf returns the fields of a log line. The order is the same in all lines.
func attributesOf(e *Event) []slog.Attr {
	attrs := []slog.Attr{
		slog.String("event", "idempotency."+string(e.Result)),
		slog.String("result", string(e.Result)),
		slog.String("endpoint", e.Endpoint()),
	}
	if e.Status > 0 {
		attrs = append(attrs, slog.Int("status", e.Status))
	}
	if e.Code != "" && e.Code != string(e.Result) {
		attrs = append(attrs, slog.String("code", e.Code))
	}
	if e.Attempt > 0 {
		attrs = append(attrs, slog.Uint64("attempt", e.Attempt))
	}
	if e.Record != "" {
		attrs = append(attrs, slog.String("record", e.Record))
	}
	attrs = append(attrs,
		slog.String("idempotency_key", e.KeyHash()),
		slog.String("instance", e.Instance()),
		slog.Float64("duration_ms", float64(e.Duration)/float64(time.Millisecond)))
	if e.Holder != "" {
		attrs = append(attrs, slog.String("holder", printable(e.Holder)))
	}
	if e.Operator != "" {
		attrs = append(attrs, slog.String("operator", printable(e.Operator)))
	}
	if e.Reason != "" {
		attrs = append(attrs, slog.String("reason", printable(e.Reason)))
	}
	attrs = appendDifferences(attrs, e)
	if e.Panicked {
		attrs = append(attrs, slog.Bool("panicked", true))
	}
	if e.Observed {
		attrs = append(attrs, slog.Bool("observed", true))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.String("error", printable(e.ErrorText())))
	}
	return attrs
}

func appendDifferences(attrs []slog.Attr, e *Event) []slog.Attr {
	if len(e.Differs) == 0 && e.Others == 0 && e.Missing == 0 {
		return attrs
	}
	attrs = append(attrs, slog.Any("differs", e.Differs))
	if e.Others > 0 {
		attrs = append(attrs, slog.Int("others", e.Others))
	}
	return append(attrs, slog.Int("missing", e.Missing))
}

// levelOf returns Debug while all is well: plain runs, replays, requests that need no guard, and
// steps in between. An event about one client or one handler is at Info. An operator may have to
// look at a Warn, and has to look at an Error.
func levelOf(e *Event) slog.Level {
	switch e.Result {
	case Execute, NoKey, Skipped, LeaseRenewed:
		return slog.LevelDebug
	case Replay:
		if e.Observed { // the handler ran again: a guard would have replayed
			return slog.LevelInfo
		}
		return slog.LevelDebug
	case Completed, Failed, Unreplayable:
		return levelOfRun(e)
	case InProgress, KeyReused, NotReplayable, KeyExpired, ScopeLimited, Refused, Retryable, DeleteKey,
		Reconciled, SettledByHand, Forgotten, Revealed:
		return slog.LevelInfo
	case ResponseLost, Unprotected, CallbackPanicked:
		return slog.LevelError
	case StoreError:
		if e.Attempt == 0 && e.Subject != nil { // the decision about the request follows, with the same error
			return slog.LevelDebug
		}
	default:
	}
	return slog.LevelWarn
}

// levelOfRun is the level of a run whose outcome is stored.
func levelOfRun(e *Event) slog.Level {
	switch {
	case e.Panicked || e.isRefused(): // after MarkExecuted, a 500; or retries get no response
		return slog.LevelWarn
	case e.Result == Unreplayable && !e.Observed, e.Status >= 500: // for every retry too
		return slog.LevelInfo
	default:
		return slog.LevelDebug
	}
}
