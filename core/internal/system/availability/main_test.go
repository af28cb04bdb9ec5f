package availability

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/internal/testkit"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{})               // go-redis logs each connection that a kill has cut
	_ = mysql.SetLogger(&mysql.NopLogger{}) // the driver logs them too
	if os.Getenv(redisURL) != "" {
		if err := serve(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// After many failed dials, a pool of go-redis checks only once a second whether it was
	// closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// patience bounds every wait. It is generous: only a failure takes that long.
const patience = 2 * time.Minute

func poll(limit time.Duration, condition func() bool) bool { return testkit.Poll(limit, condition) }

// wait lets the load run, or an outage last. Nothing is judged by it.
func wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}
