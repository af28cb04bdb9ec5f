package redisstore_test

import (
	"flag"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/storetest"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// Most tests wait for leases to end, and run beside more of them than go test would choose.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "32"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// Case 49: the store needs exactly the documented rights to keep the contract.
func TestConformance(t *testing.T) {
	t.Parallel()
	rights := documentedLines(t)[0]
	server := redistest.Start(t)
	admin := connect(t, server, nil)
	must(t, admin.Do(t.Context(), rights...).Err())
	t.Run("serve", func(t *testing.T) {
		conform(t, connect(t, server, func(options *redis.Options) {
			service(options)
			options.ContextTimeoutEnabled = true
		}))
	})
	if strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		return // some cases alone do not need all rights
	}
	eachIsUsed(t, admin, rights)
}

// eachIsUsed expects that the server got each command to which there is a right.
func eachIsUsed(t *testing.T, admin *redis.Client, rights []any) {
	t.Helper()
	stats := admin.Info(t.Context(), "commandstats").Val()
	for _, word := range rights {
		if granted, is := strings.CutPrefix(word.(string), "+"); is && !strings.Contains(stats, "cmdstat_"+granted+":") {
			t.Errorf("the right to %s is not needed: the server got %s", granted, stats)
		}
	}
}

// An AutoPipeliner pays no attention to contexts: the store does.
func TestConformanceOnAutoPipeline(t *testing.T) {
	t.Parallel()
	conform(t, pipelined(t, connect(t, redistest.Start(t), nil)))
}

// The contract holds with WaitReplicas too, and at a server that refuses large values and ends their connection. Each call has its
// own: on a shared one the calls of other cases would end too.
func TestConformanceWithReplicas(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	must(t, r.rdb.ConfigSet(t.Context(), "proto-max-bulk-len", "3mb").Err())
	conformUpTo(t, 4<<20, r.rdb, redisstore.WaitReplicas(1, late))
}

// conform gives each case a prefix of its own, which is as good as an empty server.
// The unit is long: only a case that waits for the end of a lease takes that long.
func conform(t *testing.T, client redis.UniversalClient, options ...redisstore.Option) {
	t.Helper()
	conformUpTo(t, 0, client, options...)
}

// conformUpTo is conform over a server that refuses values of some size, or none.
func conformUpTo(t *testing.T, tooLarge int, client redis.UniversalClient, options ...redisstore.Option) {
	t.Helper()
	var cases atomic.Int32
	storetest.Run(t, storetest.Config{
		New: func(testing.TB) storage.Store {
			prefix := redisstore.Prefix(fmt.Sprintf("oncekey:case%d:", cases.Add(1)))
			options := append([]redisstore.Option{prefix}, options...)
			return storetest.Processes(redisstore.New(client, options...), redisstore.New(client, options...))
		},
		Unit:     600 * time.Millisecond,
		TooLarge: tooLarge,
	})
}

// start runs a server, and returns a client and a store of it.
func start(t *testing.T) (*redis.Client, *redisstore.Store) {
	t.Helper()
	rdb := connect(t, redistest.Start(t), nil)
	return rdb, redisstore.New(rdb)
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
