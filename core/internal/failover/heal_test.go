package failover

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/redisstore"
)

const (
	// healing is what a process may take until its writes succeed again, after
	// the servers have found out that the master is dead: their election, and its
	// own search for the winner.
	healing = 5 * time.Second
	// slack is for machines with much else to do.
	slack = time.Second
)

// Case 16, under steady traffic of new keys and of replays. What is measured is
// the time from the moment that the master was killed to the first answer of a
// handler whose key belongs to the dead master's slots, and after which new keys
// go on to run. In it are the servers' own time to find out and to elect, so the
// bound is the time that this takes, and healing.
func TestWritesHealAfterTheMasterIsKilled(t *testing.T) {
	t.Parallel()
	for name, deploy := range deployments {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deploy(t)
			effects := newLedger()
			all := newTraffic(t)
			var doomed, others []*stream
			for n := range 2 {
				p := effects.start(t, redisstore.New(d.client()))
				for client := range 2 {
					doomed = append(doomed, all.start(p, d.keys(fmt.Sprintf("doomed-%d-%d", n, client), true)))
				}
				if name == "cluster" {
					others = append(others, all.start(p, d.keys(fmt.Sprintf("other-%d", n), false)))
				}
			}
			streams := slices.Concat(doomed, others)
			begin := time.Now()
			eventually(t, "for the traffic to flow", func() bool {
				for _, s := range streams {
					if len(s.since(begin)) < streak {
						return false
					}
				}
				return true
			})

			kill := time.Now()
			d.victim.Kill()
			control := all.watch(d, kill)
			d.awaitSuccessor()
			elected := time.Since(kill)
			bound := max(elected, d.decision) + healing
			poll(bound+slack-elected, func() bool {
				for _, s := range doomed {
					if _, healed := s.healed(kill); !healed {
						return false
					}
				}
				return true
			})
			until := time.Since(kill)
			all.end()
			t.Logf("the servers had elected a new master %v after the kill", elected)

			for n, s := range doomed {
				after, healed := s.healed(kill)
				t.Logf("stream %d at the dead master: healed is %t, %v after the kill", n, healed, after)
				if !healed || after > bound {
					t.Errorf("writes healed is %t, %v after the kill, want true and at most %v", healed, after, bound)
				}
			}
			for n, s := range others {
				longest := s.silence(kill)
				_, failures := s.slowest(kill)
				t.Logf("stream %d at the other masters: %d failures, silent for at most %v", n, failures, longest)
				if longest > storeTimeout+slack {
					t.Errorf("keys of other masters were not answered for %v, want at most %v", longest, storeTimeout)
				}
			}
			for n, s := range streams {
				// A claim and a settlement have a deadline each.
				if slowest, _ := s.slowest(begin); slowest > 2*storeTimeout+slack {
					t.Errorf("stream %d: a request took %v, want at most twice %v", n, slowest, storeTimeout)
				}
			}
			if after, healed := control(); healed {
				t.Logf("a client of go-redis alone wrote again %v after the kill", after)
			} else {
				t.Logf("a client of go-redis alone did not write again until %v after the kill, when it was stopped", until)
			}
			repeated, total := effects.repeated()
			t.Logf("%d of %d keys ran twice: see TestAsynchronousFailoverCanLoseAClaim", len(repeated), total)
		})
	}
}

// watch writes with a client of go-redis that no store helps, and returns how
// long after the kill that worked again, if it did before the traffic's end.
func (a *traffic) watch(d *deployment, kill time.Time) func() (after time.Duration, healed bool) {
	client, name := d.client(), nameOf(d.key("control"))
	var after time.Duration
	a.group.Go(func() {
		ticker := time.NewTicker(pace)
		defer ticker.Stop()
		for a.ctx.Err() == nil && after == 0 {
			ctx, cancel := context.WithTimeout(a.ctx, storeTimeout)
			if client.Set(ctx, name, "written", time.Minute).Err() == nil {
				after = time.Since(kill)
			}
			cancel()
			<-ticker.C
		}
	})
	return func() (time.Duration, bool) { return after, after > 0 }
}
