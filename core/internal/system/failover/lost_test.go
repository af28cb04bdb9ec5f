package failover

import (
	"context"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	postgrestest "github.com/oncekey/oncekey/core/internal/testkit/postgres"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/tieredstore"
)

// Case 17. This is no promise but its limit: Redis acknowledges a write before
// its replicas have it, so a master that dies can take the claim of a key with
// it, and the answer too. The replica that takes over has never heard of the
// key, a retry is a first-time request to it, and the handler runs again. Even
// the attempt number begins anew, so that a fencing token notices nothing.
//
// For the README: with redisstore alone, a key runs twice if its master dies
// within the replication's delay (normally about a millisecond, more while a
// replica is away) after the claim, and the client retries. Where that must not
// happen, use pgstore, or tieredstore as in the test below. To make it improbable,
// use redisstore.WaitReplicas.
func TestAsynchronousFailoverCanLoseAClaim(t *testing.T) {
	t.Parallel()
	for name, deploy := range deployments {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deploy(t)
			effects := newLedger()
			first := effects.start(t, redisstore.New(d.client()))
			second := effects.start(t, redisstore.New(d.client()))
			finished, running := d.key("finished"), d.key(slow)

			warm(t, d, first, second)
			d.loseReplication()
			first.expect(t, finished, created)
			second.expect(t, finished, replayed)
			answers := first.begin(t, effects, running)
			second.expect(t, running, inProgress)

			successor := d.replaceVictim()
			d.expectKnown(successor, finished, false)
			d.expectKnown(successor, running, false)
			if got := second.insist(t, finished); !got.is(created) {
				t.Errorf("the retry of a key that was lost is answered with %+v, want it to run again", got)
			}
			effects.expectRuns(t, finished, 1, 1)

			// Of two handlers that run at the same time, one answer is kept. The other
			// is shown to nobody, as long as its process reaches the new master.
			if got := first.insist(t, finished); !got.is(replayed) {
				t.Errorf("a retry after that is answered with %+v, want %+v", got, replayed)
			}
			second.finish <- struct{}{}
			if got := second.insist(t, running); !got.is(created) {
				t.Errorf("the retry of a key that was lost is answered with %+v, want it to run again", got)
			}
			first.finish <- struct{}{}
			if got := <-answers; !got.is(inProgress) {
				t.Errorf("the holder whose claim was lost answers %+v, want %+v", got, inProgress)
			}
			effects.expectRuns(t, running, 1, 1)
			for _, p := range []*process{first, second} {
				p.expect(t, finished, replayed)
				p.expect(t, running, replayed)
			}
		})
	}
}

// Case 17: the same fail-over, with a durable tier behind Redis. PostgreSQL
// knows what Redis has lost: each key runs once, and retries are answered even
// before Redis has a new master.
func TestTieredStoreLosesNothingInAFailover(t *testing.T) {
	t.Parallel()
	for name, deploy := range deployments {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deploy(t)
			effects := newLedger()
			address := postgrestest.Shared(t)
			first := effects.start(t, tiered(t, d, address))
			second := effects.start(t, tiered(t, d, address))
			finished, running := d.key("finished"), d.key(slow)

			warm(t, d, first, second)
			d.loseReplication()
			first.expect(t, finished, created)
			second.expect(t, finished, replayed)
			answers := first.begin(t, effects, running)
			second.expect(t, running, inProgress)

			d.victim.Kill()
			second.expect(t, finished, replayed)
			second.expect(t, running, inProgress)

			successor := d.replaceVictim()
			d.expectKnown(successor, running, false)
			second.expect(t, finished, replayed)
			second.expect(t, running, inProgress)
			first.finish <- struct{}{}
			if got := <-answers; !got.is(created) {
				t.Errorf("the holder of the claim that Redis lost answers %+v, want %+v", got, created)
			}
			for _, p := range []*process{first, second} {
				p.expect(t, finished, replayed)
				p.expect(t, running, replayed)
			}
			effects.expectRuns(t, finished, 1)
			effects.expectRuns(t, running, 1)
		})
	}
}

// tiered returns a store with connections of its own to both tiers.
func tiered(t *testing.T, d *deployment, database string) storage.Store {
	t.Helper()
	config, err := pgxpool.ParseConfig(database)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 8
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(t.Context()), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if err := pgstore.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	return tieredstore.New(redisstore.New(d.client()), pgstore.New(pool), tieredstore.Logger(slog.New(slog.DiscardHandler)))
}

// warm has the processes find their way to the victim. A client that is new may
// ask a frozen replica for it, and wait.
func warm(t *testing.T, d *deployment, first, second *process) {
	t.Helper()
	key := d.key("warm")
	first.expect(t, key, created)
	second.expect(t, key, replayed)
}
