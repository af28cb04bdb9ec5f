package core

import (
	"context"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/ledger"
	"github.com/oncekey/oncekey/core/internal/panicked"
	"github.com/oncekey/oncekey/core/storage"
)

// origin returns the origin of a claim. The router may find the pattern later: see
// ledger.Hold.
func (e *Engine) origin(ctx context.Context, a *admission) storage.Origin {
	origin := storage.Origin{Route: ledger.Shortened(a.request.Pattern, ledger.MaxOriginRoute), Holder: e.holder, KeyHash: a.keyHash}
	if e.trace != nil {
		origin.Trace = e.traceOf(ctx, a)
	}
	return origin
}

// traceOf calls the function of WithTrace.
func (e *Engine) traceOf(ctx context.Context, a *admission) (trace string) {
	defer func() {
		if err := panicked.Error("Trace", recover()); err != nil {
			e.report(ctx, a, event.Event{Result: event.CallbackPanicked, Err: err})
		}
	}()
	return ledger.Shortened(e.trace(ctx), ledger.MaxOriginText)
}
