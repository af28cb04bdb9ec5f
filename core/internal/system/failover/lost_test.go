package failover

import (
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core/internal/system/service"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/tieredstore"
	"github.com/oncekey/oncekey/internal/testkit"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
)

// Case 17. This test shows a limit of the promise. Redis acknowledges a write before its
// replicas have the write, so a dying master can lose a claim, and the response too. The
// replica that takes over does not know the key, so a retry is a first-time request and the
// handler runs again. The attempt number starts again too, so a fencing token does not
// notice.
//
// For the documentation: with redisstore alone, a key runs twice if its master dies within
// the replication delay after the claim (normally about a millisecond, more while a replica
// is unreachable), and the client retries. If that is unacceptable, use pgstore, or
// tieredstore as in the test below. redisstore.WaitReplicas makes it improbable.
func TestAsynchronousFailoverCanLoseAClaim(t *testing.T) {
	t.Parallel()
	onDeployments(t, func(t *testing.T, d *deployment) {
		effects := newLedger()
		first := effects.start(t, redisstore.New(d.client()))
		second := effects.start(t, redisstore.New(d.client()))
		finished, running, answers := effects.runUnreplicated(t, d, first, second)

		successor := d.replaceVictim()
		d.expectKnown(successor, finished, false)
		d.expectKnown(successor, running, false)
		second.insist(t, finished).expect(t, "the response to the retry of a lost key", created)
		effects.expectRuns(t, finished, 1, 1)

		// Of two handlers that run at the same time, one response is kept. No client gets
		// the other response while its process reaches the new master.
		first.insist(t, finished).expect(t, "the response to a retry after that", replayed)
		second.finish <- struct{}{}
		second.insist(t, running).expect(t, "the response to the retry of a lost key", created)
		first.finish <- struct{}{}
		(<-answers).expect(t, "the response of the holder whose claim was lost", inProgress)
		effects.expectRuns(t, running, 1, 1)
		for _, p := range []*process{first, second} {
			p.expect(t, finished, replayed)
			p.expect(t, running, replayed)
		}
	})
}

// Case 17: the same failover, with a durable tier behind Redis. PostgreSQL has the records
// that Redis has lost: each key runs once, and retries get a response even before Redis has
// a new master.
func TestTieredStoreLosesNothingInAFailover(t *testing.T) {
	t.Parallel()
	onDeployments(t, func(t *testing.T, d *deployment) {
		effects := newLedger()
		address := postgrestest.Shared(t)
		first := effects.start(t, tiered(t, d, address))
		second := effects.start(t, tiered(t, d, address))
		finished, running, answers := effects.runUnreplicated(t, d, first, second)

		d.victim.Kill()
		second.expect(t, finished, replayed)
		second.expect(t, running, inProgress)

		successor := d.replaceVictim()
		d.expectKnown(successor, running, false)
		second.expect(t, finished, replayed)
		second.expect(t, running, inProgress)
		first.finish <- struct{}{}
		(<-answers).expect(t, "the response of the holder of the claim that Redis lost", created)
		for _, p := range []*process{first, second} {
			p.expect(t, finished, replayed)
			p.expect(t, running, replayed)
		}
		effects.expectRuns(t, finished, 1)
		effects.expectRuns(t, running, 1)
	})
}

// tiered returns a store with new connections to both tiers.
func tiered(t *testing.T, d *deployment, database string) storage.Store {
	t.Helper()
	pool := service.Pool(t, database, func(c *pgxpool.Config) { c.MaxConns = 8 })
	testkit.Must(t, pgstore.Migrate(t.Context(), pool))
	return tieredstore.New(redisstore.New(d.client()), pgstore.New(pool), tieredstore.Logger(slog.New(slog.DiscardHandler)))
}

// runUnreplicated finishes a key, and begins another one in the first process, while the victim's replicas are cut off.
func (l *ledger) runUnreplicated(t *testing.T, d *deployment, first, second *process) (finished, running string, answers <-chan answer) {
	t.Helper()
	finished, running = d.key("finished"), d.key(slow)
	warm(t, d, first, second)
	d.loseReplication()
	first.expect(t, finished, created)
	second.expect(t, finished, replayed)
	answers = first.begin(t, l, running)
	second.expect(t, running, inProgress)
	return finished, running, answers
}

// warm lets the processes find the victim. A new client may ask a frozen replica for the
// master, and wait.
func warm(t *testing.T, d *deployment, first, second *process) {
	t.Helper()
	key := d.key("warm")
	first.expect(t, key, created)
	second.expect(t, key, replayed)
}
