//go:build !race

package testkit

// RaceDetector reports whether the tests run under the race detector, which takes ten times as long.
const RaceDetector = false
