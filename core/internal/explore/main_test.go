package explore

import (
	"log/slog"
	"os"
	"runtime/debug"
	"testing"
)

// TestMain runs the garbage collector rarely, because schedules are short. It drops
// the lines that an engine logs when an Observer panics.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}
