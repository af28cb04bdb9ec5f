package soak

import (
	"os"
	"testing"
	"time"
)

// For calls round again and again for as long as ONCEKEY_SOAK says, such as 10m, or
// for otherwise. It ends after the first round that fails the test. Where otherwise
// is zero, the test is skipped without ONCEKEY_SOAK.
func For(t *testing.T, otherwise time.Duration, round func(number int)) {
	t.Helper()
	end := time.Now().Add(Duration(t, otherwise))
	for number := 0; time.Now().Before(end) && !t.Failed(); number++ {
		round(number)
	}
}

// Duration is how long a soak lasts: ONCEKEY_SOAK, or otherwise. Where both are
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
