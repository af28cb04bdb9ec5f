package soak

import (
	"os"
	"testing"
	"time"
)

// For calls round repeatedly for the [Duration] of a soak. It ends after the first round that
// fails the test.
func For(t *testing.T, round func()) {
	t.Helper()
	for end := time.Now().Add(Duration(t)); time.Now().Before(end) && !t.Failed(); {
		round()
	}
}

// Duration returns the length of a soak: ONCEKEY_SOAK, such as 10m. Without it, the test is
// skipped.
func Duration(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("ONCEKEY_SOAK")
	if text == "" {
		t.Skip("ONCEKEY_SOAK says how long, such as 10m: see make soak")
	}
	duration, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("ONCEKEY_SOAK: %v", err)
	}
	return duration
}
