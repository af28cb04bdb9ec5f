package failover

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

const (
	// impatience is the default time-out of the processes' calls, so that a blocked call
	// fails soon.
	impatience = policy.DefaultStoreTimeout
	// slack is for busy machines.
	slack = 10 * time.Second
	// searching bounds the failed requests of a stream while its process looks for the new
	// master.
	searching = 50
)

// Case 16, under steady traffic of new keys and of replays. While the dead master is not
// replaced, the keys of the other masters' slots still run. After the replacement the
// victim's keys run again, as soon as the process has found the new master. The test does
// not judge the time of the election, because the test itself starts the election.
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
				p := effects.startWith(t, redisstore.New(d.client()), policy.StoreTimeout(impatience))
				for client := range 2 {
					doomed = append(doomed, all.start(p, d.keys(fmt.Sprintf("doomed-%d-%d", n, client), true)))
				}
				if name == "cluster" {
					others = append(others, all.start(p, d.keys(fmt.Sprintf("other-%d", n), false)))
				}
			}
			streams := slices.Concat(doomed, others)
			begin := time.Now()
			testkit.Await(t, "for the traffic to flow", func() bool { return each(streams, begin, (*stream).flows) })

			d.victim.Kill()
			kill := time.Now()
			control := all.watch(d, kill)
			testkit.Await(t, "for writes to fail", func() bool { return each(doomed, kill, (*stream).fails) })
			testkit.Await(t, "for the other masters", func() bool { return each(others, kill, (*stream).flows) })
			d.promote()
			elected := time.Now()
			testkit.Await(t, "for writes to heal", func() bool { return each(doomed, elected, (*stream).flows) })
			until := time.Since(kill)
			all.end()
			t.Logf("the servers had a new master %v after the kill", elected.Sub(kill))

			for n, s := range doomed {
				failures, after := s.failing(elected)
				t.Logf("stream %d at the dead master: %d requests failed after the election, for %v", n, failures, after)
				if failures > searching {
					t.Errorf("%d requests failed after the election, want at most %d", failures, searching)
				}
			}
			for n, s := range streams {
				// A claim and a settlement have a deadline each.
				if slowest := s.slowest(begin); slowest > 2*impatience+slack {
					t.Errorf("stream %d: a request took %v, want at most twice %v", n, slowest, impatience)
				}
			}
			if after, healed := control(); healed {
				t.Logf("a client of go-redis alone wrote again %v after the kill", after)
			} else {
				t.Logf("a client of go-redis alone did not write again before its end, %v after the kill", until)
			}
			repeated, total := effects.repeated()
			t.Logf("%d of %d keys ran twice: see TestAsynchronousFailoverCanLoseAClaim", len(repeated), total)
		})
	}
}

// each reports whether a condition holds for all streams since a moment.
func each(streams []*stream, moment time.Time, holds func(*stream, time.Time) bool) bool {
	return !slices.ContainsFunc(streams, func(s *stream) bool { return !holds(s, moment) })
}

// watch writes with a plain client of go-redis. It returns the time after the kill when
// writes worked again, if they did before the traffic's end.
func (a *traffic) watch(d *deployment, kill time.Time) func() (after time.Duration, healed bool) {
	client, name := d.client(), nameOf(d.key("control"))
	var after time.Duration
	a.group.Go(func() {
		ticker := time.NewTicker(pace)
		defer ticker.Stop()
		for a.ctx.Err() == nil && after == 0 {
			ctx, cancel := context.WithTimeout(a.ctx, impatience)
			if client.Set(ctx, name, "written", time.Minute).Err() == nil {
				after = time.Since(kill)
			}
			cancel()
			<-ticker.C
		}
	})
	return func() (time.Duration, bool) { return after, after > 0 }
}
