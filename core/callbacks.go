package core

import (
	"context"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/panicked"
)

// guardedObserver logs an Observer's panics, which the Observer cannot report.
type guardedObserver struct{ event.Observer }

func (o guardedObserver) Observe(ctx context.Context, happened event.Event) {
	defer func() {
		if err := panicked.Error("Observer", recover()); err != nil {
			event.Log(nil).Observe(context.Background(), event.Event{Result: event.CallbackPanicked, Err: err})
		}
	}()
	o.Observer.Observe(ctx, happened)
}
