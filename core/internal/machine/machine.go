// Package machine lets a simulation replace the clock of the machine that an engine
// runs on. The package is internal, so only this module's own tests can use it.
package machine

import "time"

// WallClock returns the wall clock's time at the instant now of the process. The
// result has no monotonic reading.
type WallClock func(now time.Time) time.Time

// Simulated is a store on a simulated machine. An engine with such a store reads the
// simulated wall clock in place of the real clock.
type Simulated interface{ WallClock() WallClock }
