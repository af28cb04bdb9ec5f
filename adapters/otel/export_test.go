package idemotel

import (
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/storage"
)

// MaxSeries is maxSeries.
const MaxSeries = maxSeries

// Knows reports whether a result has a line of its own among the effects.
func Knows(result event.Result) bool {
	_, ok := effects[result]
	return ok
}

// Kept returns how many series the observer keeps ready.
func (o *Observer) Kept() int { return len(o.series.known) }

// Pending returns how many runs the observer waits for.
func (o *Observer) Pending() int { return len(o.pending.by) }

// FillPending makes the observer wait for as many runs as it can.
func (o *Observer) FillPending() {
	for len(o.pending.by) < maxPending {
		o.pending.by[storage.NewToken()] = new(series)
	}
}
