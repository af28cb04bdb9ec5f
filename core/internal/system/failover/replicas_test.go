package failover

import (
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/internal/system/service"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/internal/testkit"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// Case 15: a master that must not write without a replica (min-replicas-to-write) replies
// NOREPLICAS without a replica. Then no handler runs, and a finished key is replayed. The
// setting limits the loss in a failover to the replica's delay, and does not prevent the loss.
func TestNothingRunsWithoutEnoughReplicas(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, "--min-replicas-to-write", "1", "--repl-diskless-sync-delay", "0")
	client := service.Redis(t, redis.Options{Addr: master.Addr()})
	effects := newLedger()
	first, second := effects.start(t, redisstore.New(client)), effects.start(t, redisstore.New(client))

	first.expect(t, "early", unavailable)
	effects.expectRuns(t, "early")

	host, port, err := net.SplitHostPort(master.Addr())
	testkit.Must(t, err)
	replica := redistest.Start(t, "--replicaof", host, port)
	first.insist(t, "early").expect(t, "the response with a replica", created)

	// The client gets the handler's response even if no server can store it.
	answers := first.begin(t, effects, slow)
	replica.Kill()
	testkit.Await(t, "for the master to refuse", func() bool { return second.post("late").is(unavailable) })
	first.finish <- struct{}{}
	(<-answers).expect(t, "the response of a handler that had begun", created)
	second.expect(t, "early", replayed)
	second.expect(t, "late", unavailable)
	second.expect(t, slow, inProgress)
	effects.expectRuns(t, "late")

	replica.Restart()
	second.insist(t, "late").expect(t, "the response with a new replica", created)
	testkit.Await(t, "for the response to be stored", func() bool { return second.post(slow).is(replayed) })
	first.expect(t, "early", replayed)
	for _, key := range []string{"early", "late", slow} {
		effects.expectRuns(t, key, 1)
	}
	testkit.End(t, first.engine)
	testkit.End(t, second.engine)
}
