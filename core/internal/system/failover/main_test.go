package failover

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	postgrestest "github.com/oncekey/oncekey/core/internal/testkit/postgres"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{}) // go-redis logs each connection that a kill has cut
	// After many failed dials, a pool of go-redis checks only once a second whether it was
	// closed.
	goleak.VerifyTestMain(postgrestest.Main(m), goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// silent is a logger of go-redis.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

const (
	// patience bounds every wait. It is generous: only a failure takes that long.
	patience = 2 * time.Minute
	// pollInterval is how often a wait looks.
	pollInterval = 10 * time.Millisecond
)

// eventually fails the test if the condition does not become true in time.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	if !poll(patience, condition) {
		t.Fatalf("still waiting after %v %s", patience, what)
	}
}

// poll waits until the condition holds, and reports whether it does in time. It is the only
// function that waits.
func poll(limit time.Duration, condition func() bool) bool {
	deadline := time.Now().Add(limit)
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			return false
		}
		<-ticker.C
	}
	return true
}

// heavy bounds the concurrent tests with half a dozen servers each. With more of them, busy
// servers would look dead.
var heavy = make(chan struct{}, 2)

// takeTurn waits until the test may start its servers. They are stopped before the next
// test's turn.
func takeTurn(t *testing.T) {
	t.Helper()
	heavy <- struct{}{}
	t.Cleanup(func() { <-heavy })
}
