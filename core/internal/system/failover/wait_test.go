package failover

import (
	"testing"

	"github.com/oncekey/oncekey/core/redisstore"
)

// Case 17, with redisstore.WaitReplicas for all replicas: the fail-over of
// TestAsynchronousFailoverCanLoseAClaim. What it loses there never began here,
// because the replicas did not have its claim, and the claims that they had
// survive. So does an answer that they did not have: its process tells it to the
// new master.
//
// The replicas are not waited for by the test itself: that they have caught up is
// what the store has to see to.
func TestClaimThatAllReplicasHaveSurvivesAFailover(t *testing.T) {
	t.Parallel()
	for name, deploy := range deployments {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deploy(t)
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
			eventually(t, "for the claim to be given back", func() bool { return !d.knows(d.victim, refused) })
			effects.expectRuns(t, refused)
			second.expect(t, finished, replayed)
			second.expect(t, running, inProgress)

			// The handler ends while nobody but the victim can be told its answer.
			first.finish <- struct{}{}
			if got := <-answers; !got.is(created) {
				t.Errorf("the handler answers %+v, want %+v", got, created)
			}

			successor := d.replaceVictim()
			d.expectKnown(successor, finished, true)
			d.expectKnown(successor, running, true)
			d.expectKnown(successor, refused, false)
			for _, p := range []*process{first, second} {
				if got := p.insist(t, finished); !got.is(replayed) {
					t.Errorf("a key that was finished is answered with %+v, want %+v", got, replayed)
				}
			}
			eventually(t, "for the answer to reach the new master", func() bool {
				got := second.insist(t, running)
				if got.is(created) {
					t.Errorf("the retry of a key that ran is answered with %+v", got)
				}
				return !got.is(inProgress)
			})

			// New keys need the replicas: the new master lacks one until the old one is back.
			first.expect(t, refused, unavailable)
			d.victim.Restart()
			d.awaitReplicas(successor)
			eventually(t, "for the replicas", func() bool {
				got := first.insist(t, refused)
				if got.is(replayed) {
					t.Errorf("a key that never ran is answered with %+v", got)
				}
				return !got.is(inProgress) // a claim that is just being given back
			})
			second.expect(t, refused, replayed)
			effects.expectRuns(t, finished, 1)
			effects.expectRuns(t, running, 1)
			// A refused claim that a busy machine did not give back in its time stood for
			// its lease: what ran was then the next attempt, and still the only one.
			if ran := effects.of(refused); len(ran) != 1 {
				t.Errorf("%s ran as the attempts %d, want one", refused, ran)
			}
			first.shutdown(t)
			second.shutdown(t)
		})
	}
}
