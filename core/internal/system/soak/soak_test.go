package soak

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/internal/explore"
	"github.com/oncekey/oncekey/core/internal/system/service"
	"github.com/oncekey/oncekey/internal/testkit"
)

// calm is the time between two strikes at the servers in a long soak.
const calm = 8 * time.Second

// An ordinary test run has this many plans for each store, a few at once, and no plan is
// longer than brief. More at once would time out their calls on a busy machine, and the
// repeated calls would keep it busy.
const (
	fewPlans  = 12
	fewAtOnce = 4
	brief     = 2700 * time.Millisecond // enough for DrawReal's handlers that outlast a lease
)

// The slack for judgements of time. An ordinary test run must not fail on a busy machine.
// A soak has the machine for itself.
const (
	slackInTests = time.Second
	slackInSoaks = 300 * time.Millisecond
)

// TestSoak runs plans of the explorer over real stores, many at once, for the time in
// ONCEKEY_SOAK, and judges each plan by the explorer's rules. Each pod has its own client
// and network. A long soak also kills, freezes and restarts servers: cases 1 to 8, 11 to
// 13, 15, 18 and 19.
func TestSoak(t *testing.T) {
	t.Parallel()
	testkit.Each(t, settings, func(t *testing.T, open func(t *testing.T) *setting) {
		open(t).soak(t)
	})
}

// soak runs plans until the time ends.
func (s *setting) soak(t *testing.T) {
	t.Helper()
	var w weather
	s.Trouble = w.between
	over := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { w.watch(over) })
	seed := firstSeed(t)
	s.began = time.Now()
	strikes := 0
	if os.Getenv("ONCEKEY_SOAK") == "" {
		s.Slack = slackInTests
		s.runFew(t, seed)
	} else {
		s.Slack = slackInSoaks
		strikes = s.runMany(t, seed, &w)
	}
	close(over)
	watching.Wait()
	t.Logf("%d plans in %v, %d of them on an unsteady machine, %d strikes at servers, first seed %d",
		s.plans.Load(), time.Since(s.began).Round(time.Millisecond), s.unsteady.Load(), strikes, seed)
}

// runFew runs a few brief plans.
func (s *setting) runFew(t *testing.T, seed uint64) {
	t.Helper()
	var running sync.WaitGroup
	free := make(chan struct{}, fewAtOnce)
	for range fewPlans {
		for s.draw(seed).Length() > brief {
			seed++
		}
		chosen := seed
		free <- struct{}{}
		running.Go(func() {
			s.runPlan(t, chosen)
			<-free
		})
		seed++
	}
	running.Wait()
}

// runMany runs plans for the time in ONCEKEY_SOAK, and strikes at servers.
func (s *setting) runMany(t *testing.T, seed uint64, w *weather) (strikes int) {
	t.Helper()
	done := make(chan struct{})
	var seeds atomic.Uint64
	var running sync.WaitGroup
	for range s.together * runtime.GOMAXPROCS(0) {
		running.Go(func() {
			for !t.Failed() {
				s.runPlan(t, seed+seeds.Add(1)-1)
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	For(t, func() {
		pass(calm)
		w.strike(s.servers)
		strikes++
	})
	close(done)
	running.Wait()
	return strikes
}

// draw makes the plan of a seed.
func (s *setting) draw(seed uint64) *explore.Plan {
	plan := explore.DrawReal(seed, s.Written != nil)
	return &plan
}

// firstSeed is ONCEKEY_SEED, or random.
func firstSeed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("ONCEKEY_SEED")
	if text == "" {
		return rand.Uint64N(1 << 40)
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("ONCEKEY_SEED: %v", err)
	}
	return seed
}

// runPlan carries out one plan, and reports the rules that it breaks.
func (s *setting) runPlan(t *testing.T, seed uint64) {
	t.Helper()
	found, timeline, err := s.judge(seed)
	if err != nil {
		t.Errorf("seed %d: %v", seed, err)
		return
	}
	if len(found) > 0 {
		t.Errorf("seed %d, after %v:\n%s", seed, time.Since(s.began).Round(time.Millisecond), timeline())
	}
}

// judge carries out one plan and judges it.
func (s *setting) judge(seed uint64) (found []explore.Violation, timeline func() string, err error) {
	plan, history, err := explore.RunReal(*s.draw(seed), &s.Backend, fmt.Sprintf("soak-%d", seed))
	if err != nil {
		return nil, nil, err
	}
	s.plans.Add(1)
	if plan.Unsteady() {
		s.unsteady.Add(1)
	}
	found = explore.JudgeReal(&plan, history)
	return found, func() string {
		var b strings.Builder
		b.WriteString(explore.Timeline(&plan, history))
		for _, v := range found {
			fmt.Fprintf(&b, "BROKEN %s: %s\n", v.Rule, v.Text)
		}
		fmt.Fprintf(&b, "repeat the plan first: ONCEKEY_SEED=%d go test ./core/internal/system/soak -run 'TestSoak$' -v\n", seed)
		return b.String()
	}, nil
}

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	service.Main(m)
}
