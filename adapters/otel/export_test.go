package idemotel

import "github.com/oncekey/oncekey/core/event"

// MaxSeries is maxSeries.
const MaxSeries = maxSeries

// Knows reports whether effects has a line for a result.
func Knows(result event.Result) bool {
	_, ok := effects[result]
	return ok
}

// Kept returns the number of cached series.
func (o *Observer) Kept() int { return len(o.series.known) }

// Pending returns the number of pending runs.
func (o *Observer) Pending() int { return len(o.pending.by) }

// Running returns the number of runs that are under way.
func (o *Observer) Running() int { return len(o.running.by) }

// FillPending fills the table of pending runs.
func (o *Observer) FillPending() {
	for len(o.pending.by) < maxRuns {
		o.pending.by[new(event.Subject)] = begun{series: new(series)}
	}
}
