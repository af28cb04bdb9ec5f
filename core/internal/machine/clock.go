// Package machine has the clocks of the machine that an engine runs on. A simulation
// replaces them: the package is internal, so only this module's own tests can.
package machine

import "time"

// Moment is an instant on both clocks of a machine. While the machine is suspended, the
// monotonic clock stops and the wall clock continues. The lease at the store continues
// too, so a lease has ended as soon as either clock has reached its end.
type Moment struct {
	Monotonic time.Time
	wall      int64 // in nanoseconds since 1970: computing with a time.Time takes five times as long
}

// Add returns the moment after d.
func (m Moment) Add(d time.Duration) Moment { return Moment{m.Monotonic.Add(d), m.wall + int64(d)} }

// Wall returns the time of the wall clock.
func (m Moment) Wall() time.Time { return time.Unix(0, m.wall) }

// Suspended returns the time for which the machine was suspended since an earlier moment,
// or the adjustment of the wall clock since then.
func (m Moment) Suspended(since Moment) time.Duration {
	return time.Duration(m.wall-since.wall) - m.Monotonic.Sub(since.Monotonic)
}

// Reaches reports whether either clock has reached end.
func (m Moment) Reaches(end Moment) bool { return m.Left(end) <= 0 }

// Left returns the time until end, by the clock that is ahead.
func (m Moment) Left(end Moment) time.Duration {
	return min(end.Monotonic.Sub(m.Monotonic), time.Duration(end.wall-m.wall))
}

// Clock reads both clocks of a machine. The zero value reads those of this one.
type Clock struct{ wall WallClock }

// ClockOf returns the clock of a store's simulated machine, or of this one.
func ClockOf(store any) Clock {
	if simulated, ok := store.(Simulated); ok {
		return Clock{simulated.WallClock()}
	}
	return Clock{}
}

// Now reads both clocks.
func (c Clock) Now() Moment {
	now := time.Now()
	if c.wall == nil {
		return Moment{now, now.UnixNano()}
	}
	return Moment{now, c.wall(now).UnixNano()}
}

// WallClock returns the wall clock's time at the instant now of the process. The
// result has no monotonic reading.
type WallClock func(now time.Time) time.Time

// Simulated is a store on a simulated machine. An engine with such a store reads the
// simulated wall clock in place of the real clock.
type Simulated interface{ WallClock() WallClock }
