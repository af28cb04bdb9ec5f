package redisstore_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/core/internal/redistest"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	t.Parallel()
	conform(t, connect(t, redistest.Start(t), func(options *redis.Options) { options.ContextTimeoutEnabled = true }))
}

// An AutoPipeliner pays no attention to contexts: the store does.
func TestConformanceOnAutoPipeline(t *testing.T) {
	t.Parallel()
	pipeliner, err := connect(t, redistest.Start(t), nil).AutoPipeline()
	if err != nil {
		t.Fatal(err)
	}
	conform(t, pipeliner)
}

// What WaitReplicas adds is no exception to the contract.
func TestConformanceWithReplicas(t *testing.T) {
	t.Parallel()
	conform(t, startReplicated(t).rdb, redisstore.WaitReplicas(1, late))
}

// conform gives each case a prefix of its own, which is as good as an empty server.
func conform(t *testing.T, client redis.UniversalClient, options ...redisstore.Option) {
	t.Helper()
	var cases atomic.Int32
	storetest.Run(t, storetest.Config{
		New: func(testing.TB) storage.Store {
			prefix := redisstore.Prefix(fmt.Sprintf("case%d:", cases.Add(1)))
			return redisstore.New(client, append([]redisstore.Option{prefix}, options...)...)
		},
		Unit: 100 * time.Millisecond,
	})
}

// connect returns a client that is closed after the test.
func connect(t *testing.T, server *redistest.Server, change func(*redis.Options)) *redis.Client {
	t.Helper()
	options := &redis.Options{Addr: server.Addr()}
	if change != nil {
		change(options)
	}
	rdb := redis.NewClient(options)
	t.Cleanup(func() { rdb.Close() })
	return rdb
}
