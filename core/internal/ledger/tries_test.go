package ledger

import (
	"testing"
	"time"
)

func TestBackoffIsBounded(t *testing.T) {
	t.Parallel()
	for try := range 100 {
		if d := Backoff(try, time.Millisecond, time.Second); d < time.Millisecond/2 || d > time.Second {
			t.Errorf("try %d waits %v", try, d)
		}
	}
}
