package failover

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/internal/system/soak"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// Cases 16 and 17, for the time in ONCEKEY_SOAK: one master after another is killed without
// notice, replaced, and restarted as a replica. Every other time the replica does not have
// the latest writes. Customers of two processes repeat each request until a response, and
// earlier requests too. With the tiered store each key runs exactly once. The keys that
// redisstore alone lost are logged.
func TestSoakFailover(t *testing.T) {
	t.Parallel()
	soak.Duration(t, 0)
	takeTurn(t)
	cluster := redistest.StartCluster(t, 3, 1)
	d := &deployment{
		t: t,
		connect: func() redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), ContextTimeoutEnabled: true})
		},
	}
	d.promote = func() *redistest.Server { t.Helper(); return cluster.Promote(d.replicas[0]) }
	database := postgrestest.Shared(t)
	alone := newShop(t, "alone", func() storage.Store { return redisstore.New(d.client(), redisstore.Prefix("alone:")) })
	durable := newShop(t, "tiered", func() storage.Store { return tiered(t, d, database) })

	kills := 0
	soak.For(t, 0, func(int) {
		serve(t, 100, alone, durable)
		shards := cluster.Shards()
		shard := shards[rand.IntN(len(shards))]
		d.victim, d.replicas = shard.Master, shard.Replicas
		if kills%2 == 1 {
			d.loseReplication()
			serve(t, 50, alone, durable)
		}
		d.replaceVictim() // only a restart would leave an empty master
		d.victim.Restart()
		cluster.AwaitHealthy()
		kills++
	})
	alone.close(t)
	durable.close(t)

	for _, s := range []*shop{alone, durable} {
		repeated, total := s.effects.repeated()
		t.Logf("%s: %d kills, %d keys, %d responses, %d keys ran twice", s.name, kills, total, s.served.Load(), len(repeated))
	}
	if repeated, total := durable.effects.repeated(); len(repeated) > 0 || total == 0 {
		t.Errorf("with the tiered store %d of %d keys ran twice, want none: %v", len(repeated), total, repeated)
	}
}

// serve waits until the customers of each shop have had this many more responses.
func serve(t *testing.T, answers int64, shops ...*shop) {
	t.Helper()
	for _, s := range shops {
		enough := s.served.Load() + answers
		testkit.Await(t, "for customers to be served", func() bool { return s.served.Load() >= enough })
	}
}

// shop is two processes and their customers.
type shop struct {
	name      string
	effects   *ledger
	processes []*process
	customers *traffic
	served    atomic.Int64
}

func newShop(t *testing.T, name string, newStore func() storage.Store) *shop {
	t.Helper()
	s := &shop{name: name, effects: newLedger()}
	for range 2 {
		s.processes = append(s.processes, s.effects.start(t, newStore()))
	}
	s.customers = newTraffic(t)
	for n := range 4 {
		s.customers.group.Go(func() { s.visit(t, s.customers.ctx, n) })
	}
	return s
}

// close returns when the customers have ended and no work is left.
func (s *shop) close(t *testing.T) {
	t.Helper()
	s.customers.end()
	for _, p := range s.processes {
		testkit.End(t, p.engine)
	}
}

// visit is one customer, who repeats the last thousand requests.
func (s *shop) visit(t *testing.T, ctx context.Context, customer int) {
	const memory = 1000
	known := make([]string, 0, memory)
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		key := fmt.Sprintf("%s-%d-%d", s.name, customer, n)
		if !s.buy(ctx, key) {
			return
		}
		if runs := s.effects.of(key); len(runs) == 0 {
			t.Errorf("%s got a response and never ran", key)
		}
		if len(known) < memory {
			known = append(known, key)
		} else {
			known[n%memory] = key
		}
		s.buy(ctx, known[rand.IntN(len(known))])
		<-ticker.C
	}
}

// buy repeats a request at either process until it gets a response. It reports whether that
// was before the shop's end.
func (s *shop) buy(ctx context.Context, key string) bool {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if got := s.processes[rand.IntN(len(s.processes))].post(key); got.is(created) || got.is(replayed) {
			s.served.Add(1)
			return true
		}
		<-ticker.C
	}
	return false
}
