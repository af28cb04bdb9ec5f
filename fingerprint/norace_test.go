//go:build !race

package fingerprint_test

import "testing"

func needsNoRaceDetector(testing.TB) {}
