package failover

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
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

// patience bounds every wait. It is generous: only a failure takes that long.
const patience = 2 * time.Minute

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
