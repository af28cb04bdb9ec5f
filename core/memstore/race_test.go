//go:build race

package memstore

import "testing"

// NeedsNoRaceDetector skips a long test of one goroutine, or of the heap's size,
// under the race detector: the test would take ten times as long, and find no race.
func NeedsNoRaceDetector(t testing.TB) {
	t.Helper()
	t.Skip("it needs no race detector")
}
