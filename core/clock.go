package core

import (
	"time"

	"github.com/oncekey/oncekey/core/internal/machine"
	"github.com/oncekey/oncekey/core/storage"
)

// moment is an instant on both clocks of this machine. While the machine is suspended,
// the monotonic clock stops and the wall clock continues. The lease at the store
// continues too, so a lease has ended as soon as either clock has reached its end.
type moment struct{ monotonic, wall time.Time }

// now reads both clocks.
func (e *Engine) now() moment {
	now := time.Now()
	if e.wall == nil {
		return moment{now, now.Round(0)} // Round strips the monotonic reading
	}
	return moment{now, e.wall(now)}
}

func (m moment) add(d time.Duration) moment { return moment{m.monotonic.Add(d), m.wall.Add(d)} }

// reaches reports whether either clock has reached end.
func (m moment) reaches(end moment) bool {
	return m.left(end) <= 0
}

// left returns the time until end, by the clock that is ahead.
func (m moment) left(end moment) time.Duration {
	return min(end.monotonic.Sub(m.monotonic), end.wall.Sub(m.wall))
}

// wallOf returns the wall clock of a simulated machine, or nil for the real clock.
func wallOf(store storage.Store) machine.WallClock {
	if simulated, ok := store.(machine.Simulated); ok {
		return simulated.WallClock()
	}
	return nil
}
