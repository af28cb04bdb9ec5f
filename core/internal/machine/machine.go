// Package machine lets a simulation stand in for the machine that an engine runs
// on. Only this module's own tests can: the type is internal.
package machine

import "time"

// WallClock returns the wall clock's time at the instant now of the process. The
// result has no monotonic reading.
type WallClock func(now time.Time) time.Time

// Simulated is a store on a simulated machine. An engine made on it reads that
// machine's wall clock in place of the real one.
type Simulated interface{ WallClock() WallClock }
