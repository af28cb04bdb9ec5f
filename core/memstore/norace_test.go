//go:build !race

package memstore

import "testing"

// NeedsNoRaceDetector skips a test under the race detector.
func NeedsNoRaceDetector(testing.TB) {}
