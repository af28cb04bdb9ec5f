package failover

import (
	"testing"

	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/internal/testkit"
)

// Case 17, with redisstore.WaitReplicas for all replicas: the failover of
// TestAsynchronousFailoverCanLoseAClaim. The keys that are lost there never began here,
// because the replicas did not have their claims. The claims on the replicas survived. A
// response that the replicas did not have survives too: its process stores it in the new
// master.
//
// The test itself does not wait for the replicas, because the store has to ensure that they
// have caught up.
func TestClaimThatAllReplicasHaveSurvivesAFailover(t *testing.T) {
	t.Parallel()
	onDeployments(t, func(t *testing.T, d *deployment) {
		effects := newLedger()
		all := redisstore.WaitReplicas(len(d.replicas), storeTimeout/2)
		first := effects.start(t, redisstore.New(d.client(), all))
		second := effects.start(t, redisstore.New(d.client(), all))
		finished, running, refused := d.key("finished"), d.key(slow), d.key("refused")

		warm(t, d, first, second)
		first.expect(t, finished, created)
		answers := first.begin(t, effects, running)
		d.loseReplication()
		first.expect(t, refused, unavailable)
		testkit.Await(t, "for the claim to be given back", func() bool { return !d.knows(d.victim, refused) })
		effects.expectRuns(t, refused)
		second.expect(t, finished, replayed)
		second.expect(t, running, inProgress)

		// The handler ends while only the victim could store its response.
		first.finish <- struct{}{}
		(<-answers).expect(t, "the handler's response", created)

		successor := d.replaceVictim()
		d.expectKnown(successor, finished, true)
		d.expectKnown(successor, running, true)
		d.expectKnown(successor, refused, false)
		for _, p := range []*process{first, second} {
			p.insist(t, finished).expect(t, "the response to a finished key", replayed)
		}
		testkit.Await(t, "for the response to reach the new master", func() bool {
			got := second.insist(t, running)
			if got.is(created) {
				t.Errorf("the response to the retry of a running key is %+v", got)
			}
			return !got.is(inProgress)
		})

		// New keys need the replicas: the new master has too few until the old master is back.
		first.expect(t, refused, unavailable)
		d.victim.Restart()
		d.awaitReplicas(successor)
		testkit.Await(t, "for the replicas", func() bool {
			got := first.insist(t, refused)
			if got.is(replayed) {
				t.Errorf("the response to a key that never ran is %+v", got)
			}
			return !got.is(inProgress) // the claim is still being released
		})
		second.expect(t, refused, replayed)
		effects.expectRuns(t, finished, 1)
		effects.expectRuns(t, running, 1)
		// On a busy machine a refused claim that was not released in time lasted for its
		// lease. The run was then the next attempt, and still the only run.
		testkit.Equal(t, len(effects.of(refused)), 1, "attempts of %s", refused)
		testkit.End(t, first.engine)
		testkit.End(t, second.engine)
	})
}
