//go:build race

package fingerprint_test

import "testing"

// needsNoRaceDetector skips a long test of one goroutine under the race detector: it would take ten times as long, and
// one goroutine has no races.
func needsNoRaceDetector(t testing.TB) {
	t.Helper()
	t.Skip("it needs no race detector")
}
