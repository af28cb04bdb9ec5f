package core

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/panicked"
	"github.com/oncekey/oncekey/core/storage"
)

// The longest texts of a storage.Origin.
const (
	maxOriginRoute = 200
	maxOriginText  = 100
)

// origin returns the origin of a claim. The router may find the pattern later: see
// Run.currentLease.
func (e *Engine) origin(ctx context.Context, a *admission) storage.Origin {
	origin := storage.Origin{Route: shortened(a.request.Pattern, maxOriginRoute), Holder: e.holder, KeyHash: a.keyHash}
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
	return shortened(e.trace(ctx), maxOriginText)
}

// shortened returns text as stores keep it: UTF-8 without NUL, cut at a rune.
func shortened(text string, limit int) string {
	if !utf8.ValidString(text) || strings.Contains(text, "\x00") {
		text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	}
	if len(text) <= limit {
		return text
	}
	for !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// currentLease returns the lease for a call of the store, with its age, with all steps so
// far, and with the pattern that a router inside of the guard has found since the claim.
func (r *Run) currentLease() storage.Lease {
	lease := r.lease
	lease.Age = time.Since(r.claimed)
	r.mu.Lock()
	defer r.mu.Unlock()
	lease.Origin.Route = shortened(r.pattern, maxOriginRoute)
	if r.steps != nil {
		lease.Steps = r.steps.text
	}
	return lease
}
