package tiered

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/sealedstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/tieredstore"
	"github.com/oncekey/oncekey/internal/testkit"
)

// A handler of four steps ends at every point, in every way and under every OnAbandoned, over real servers. Its request is
// sent again to another engine. No step may be repeated whose outcome was recorded. TestStepMatrix of core/handlertest has
// the other routers.
func TestStepMatrixOnServers(t *testing.T) {
	t.Parallel()
	rdb, pool := connect(t), openPool(t, 40)
	database := func(name string) storage.Store {
		must(t, pgstore.Migrate(t.Context(), pool, pgstore.Table(name)))
		return pgstore.New(pool, pgstore.Table(name))
	}
	testkit.Each(t, map[string]storage.Store{
		"redisstore":  redisstore.New(rdb, redisstore.Prefix("alone:")),
		"pgstore":     database("alone"),
		"sealedstore": sealedstore.New(redisstore.New(rdb, redisstore.Prefix("sealed:")), testkit.NewGCM(1)),
		"tieredstore": tieredstore.New(redisstore.New(rdb, redisstore.Prefix("hot:")), database("durable"), tieredstore.Logger(silent)),
	}, func(t *testing.T, store storage.Store) {
		runMatrix(t, store, 6*time.Second)
	})
}

// steps are the names of the handler's steps, in order.
var steps = []string{"reserve", "charge", "ship", "mail"}

// death is the way in which the first attempt ends.
type death string

const (
	killed  death = "killed"    // the process: no call reaches the store any more
	timeout death = "timed out" // the context ends, and the handler returns its error
	failed  death = "failed"    // the handler returns an error, or a 503
)

var deaths = []death{killed, timeout, failed}

// The values of OnAbandoned.
var modes = []string{"Reexecute", "Refuse", "Recover"}

// point is a place of the handler: inside a step, or before it. The place before the
// step after the last one is the end of the handler.
type point struct {
	step   int
	inside bool
}

func (p point) String() string {
	switch {
	case p.inside:
		return "in " + steps[p.step]
	case p.step == len(steps):
		return "at the end"
	default:
		return "before " + steps[p.step]
	}
}

func points() (all []point) {
	for i := range steps {
		all = append(all, point{i, false}, point{i, true})
	}
	return append(all, point{len(steps), false})
}

// runMatrix runs all cells over one store. lockTTL is the policy's LockTTL and MaxRun. It must be long enough for 81 handlers
// at once to reach their last step on a busy machine.
func runMatrix(t *testing.T, store storage.Store, lockTTL time.Duration) {
	t.Helper()
	var group sync.WaitGroup
	for _, p := range points() {
		for _, d := range deaths {
			for _, m := range modes {
				c := &cell{t: t, store: store, lockTTL: lockTTL, name: fmt.Sprintf("%s %s, %s", d, p, m), point: p, death: d, mode: m}
				group.Go(c.run)
			}
		}
	}
	group.Wait()
}
