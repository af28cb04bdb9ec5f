package core

import (
	"context"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/ledger"
	"github.com/oncekey/oncekey/core/internal/panicked"
)

// shared has the parts of an engine that all requests use: its names, its callbacks and its
// ledger.
type shared struct {
	ledger     *ledger.Ledger
	scope      Scope
	service    string
	observer   guardedObserver
	responder  responder
	keyHeaders []string                     // canonical names, at least one
	trace      func(context.Context) string // nil: none
	instance   string
	began      time.Time // of the engine: a time since then is read in half the time of a time.Time
	holder     string    // instance, as records have it
	program    string    // or the service, as records have it
	mixed      onceFlag  // the report that another program uses the store
	explain    bool      // of WithDiffers
	waiters    waiters
}

// guardedObserver logs an Observer's panics, which the Observer cannot report.
type guardedObserver struct{ own event.Observer }

// Observe passes on an event, which is large: up to here, callers pass its address.
func (o guardedObserver) Observe(ctx context.Context, happened *event.Event) {
	defer func() {
		if err := panicked.Error("Observer", recover()); err != nil {
			event.Log(nil).Observe(context.Background(), event.Event{Result: event.CallbackPanicked, Err: err})
		}
	}()
	o.own.Observe(ctx, *happened)
}
