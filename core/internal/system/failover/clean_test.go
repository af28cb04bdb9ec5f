package failover

import (
	"fmt"
	"sync"
	"testing"

	"github.com/oncekey/oncekey/core/redisstore"
)

// Case 16: if the replicas have caught up, a failover loses no record. Finished keys are
// replayed. A running key stays refused, and its response is stored in the new master.
// Clients retry all the time at both processes.
func TestCleanFailoverRunsNothingTwice(t *testing.T) {
	t.Parallel()
	onDeployments(t, func(t *testing.T, d *deployment) {
		effects := newLedger()
		processes := []*process{effects.start(t, redisstore.New(d.client())), effects.start(t, redisstore.New(d.client()))}
		first, second := processes[0], processes[1]
		next, running := d.keys("finished", true), d.key(slow)
		originals := make(map[string]string)
		for n := range 100 {
			key := next()
			got := processes[n%2].post(key)
			if !got.is(created) {
				t.Fatalf("the response to %s is %+v, want %+v", key, got, created)
			}
			originals[key] = got.body
		}
		answers := first.begin(t, effects, running)

		d.awaitReplication()
		d.victim.Kill()
		var early sync.WaitGroup
		for n, p := range processes {
			early.Go(func() { p.expect(t, d.key(fmt.Sprint("early-", n)), unavailable) })
		}
		early.Wait()
		d.promote()
		for key, body := range originals {
			for _, p := range processes {
				if got := p.insist(t, key); !got.is(replayed) || got.body != body {
					t.Errorf("the response to %s is %+v, want a replay of %q", key, got, body)
				}
			}
		}
		second.insist(t, running).expect(t, "the response to the running key", inProgress)
		first.finish <- struct{}{}
		original := <-answers
		if got := second.insist(t, running); !original.is(created) || !got.is(replayed) || got.body != original.body {
			t.Errorf("the responses are %+v and then %+v, want one run and its replay", original, got)
		}
		if repeated, total := effects.repeated(); len(repeated) > 0 || total != len(originals)+1 {
			t.Errorf("of %d keys %d ran, twice: %v", len(originals)+1, total, repeated)
		}
		fresh := d.key("fresh")
		first.expect(t, fresh, created)
		second.expect(t, fresh, replayed)
	})
}
