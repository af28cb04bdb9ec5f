package soak

import (
	"os"
	"testing"
	"time"
)

// For calls round repeatedly for the time in ONCEKEY_SOAK, such as 10m, or for the time
// otherwise. It ends after the first round that fails the test. If otherwise is zero,
// the test is skipped without ONCEKEY_SOAK.
func For(t *testing.T, otherwise time.Duration, round func(number int)) {
	t.Helper()
	end := time.Now().Add(Duration(t, otherwise))
	for number := 0; time.Now().Before(end) && !t.Failed(); number++ {
		round(number)
	}
}

// Duration returns the length of a soak: ONCEKEY_SOAK, or otherwise. If both are
// missing, it skips the test.
func Duration(t *testing.T, otherwise time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv("ONCEKEY_SOAK")
	if text == "" && otherwise == 0 {
		t.Skip("ONCEKEY_SOAK says how long, such as 10m: see make soak")
	}
	if text == "" {
		return otherwise
	}
	duration, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("ONCEKEY_SOAK: %v", err)
	}
	return duration
}
