package tiered

import (
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/sealedstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/tieredstore"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/internal/testkit/stepmatrix"
)

// A handler of four steps ends at every point, in every way, over real servers.
func TestStepMatrixOnServers(t *testing.T) {
	t.Parallel()
	rdb, pool := connect(t), openPool(t, 40)
	database := func(name string) storage.Store {
		must(t, pgstore.Migrate(t.Context(), pool, pgstore.Table(name)))
		return pgstore.New(pool, pgstore.Table(name))
	}
	for name, store := range map[string]storage.Store{
		"redisstore":  redisstore.New(rdb, redisstore.Prefix("alone:")),
		"pgstore":     database("alone"),
		"sealedstore": sealedstore.New(redisstore.New(rdb, redisstore.Prefix("sealed:")), testkit.NewGCM(1)),
		"tieredstore": tieredstore.New(redisstore.New(rdb, redisstore.Prefix("hot:")), database("durable"), tieredstore.Logger(silent)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stepmatrix.Run(t, store, 6*time.Second)
		})
	}
}
