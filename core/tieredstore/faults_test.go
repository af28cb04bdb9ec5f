package tieredstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/tieredstore"
)

var hotFaults = map[string]fault{
	"down": refuse, "hanging": hang, "mute": loseReply, "full": full, "unreadable": unreadable, "late": late(time.Millisecond),
}

// Case 20 is the row "unreadable".
func TestHotTierFailsAtEachStep(t *testing.T) {
	t.Parallel()
	for name, broken := range hotFaults {
		for _, method := range []string{"Acquire", "Complete", "Release", "Extend"} {
			t.Run(name+" "+method, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := newTiers()
					s.hot.set(broken.in(method))
					finish(t, s, "finished", "answer")
					replays(t, s, "finished", "answer")
					lease := win(t, s, claim("running"))
					must(t, s.Extend(t.Context(), lease, time.Minute))
					runs(t, s, "running")
					must(t, s.Release(t.Context(), lease))
					lease = win(t, s, claim("running"))
					runs(t, s, "running")
					s.hot.set(nil)
					must(t, s.Complete(t.Context(), lease, result("second")))
					replays(t, s, "running", "second")
					pass(t.Context(), 2*time.Minute) // the hot tier's last claim has ended
					for _, key := range []string{"finished", "running"} {
						find(t, s, claim(key))
						s.durable.taken()
						find(t, s, claim(key))
						s.hot.taken()
						s.wants(t, 0, 0)
					}
				})
			})
		}
	}
}

func TestDurableTierDown(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]fault{"down": refuse, "hanging": hang, "unreadable": unreadable} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newTiers()
				finish(t, s, "finished", "answer")
				running := win(t, s, claim("running"))
				s.durable.set(broken)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				replays(t, s, "finished", "answer")
				for _, key := range []string{"new", "running"} {
					if lease, record, err := s.Acquire(ctx, claim(key)); err == nil || record != nil || lease != (storage.Lease{}) {
						t.Errorf("Acquire of the %s key returned %+v, %+v and %v, want only an error", key, lease, record, err)
					}
				}
				if name == "unreadable" {
					return // that is about reading
				}
				s.hot.taken()
				for method, err := range map[string]error{
					"Complete": s.Complete(ctx, running, result("answer")),
					"Extend":   s.Extend(ctx, running, time.Minute),
					"Release":  s.Release(ctx, running),
				} {
					if err == nil || errors.Is(err, storage.ErrLeaseLost) {
						t.Errorf("%s returned %v, want the durable tier's error", method, err)
					}
				}
				s.durable.taken()
				s.wants(t, 0, 0) // the hot tier had no call
				s.durable.set(nil)
				must(t, s.Complete(t.Context(), running, result("answer")))
				replays(t, s, "running", "answer")
				win(t, s, claim("new"))
			})
		})
	}
}

// The durable tier has stored the result, but its reply was lost. The hot tier gets
// no result, and the next request reads the durable tier.
func TestCompletionWhoseReplyWasLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTiers()
		lease := win(t, s, claim("key"))
		s.durable.set(loseReply)
		if err := s.Complete(t.Context(), lease, result("answer")); !errors.Is(err, errDown) {
			t.Fatalf("Complete returned %v", err)
		}
		s.durable.set(nil)
		s.wants(t, 1, 2)
		replays(t, s, "key", "answer")
		s.wants(t, 1, 1) // the claim of the first run still exists
		pass(t.Context(), time.Minute)
		replays(t, s, "key", "answer")
		s.wants(t, 2, 1)
		replays(t, s, "key", "answer")
		s.wants(t, 1, 0)
	})
}

// Case 17: a fail-over of the hot tier loses any number of the last writes, after
// any number of steps.
func TestFailOverLosesWrites(t *testing.T) {
	t.Parallel()
	for steps := range 5 {
		for lost := range steps + 2 {
			s := newTiers()
			failAfter := func(step int) {
				if step == steps {
					s.hot.server.failOver(lost)
				}
			}
			failAfter(0)
			lease := win(t, s, claim("key"))
			failAfter(1)
			runs(t, s, "key")
			must(t, s.Extend(t.Context(), lease, time.Minute))
			failAfter(2)
			runs(t, s, "key")
			must(t, s.Complete(t.Context(), lease, result("answer")))
			failAfter(3)
			replays(t, s, "key", "answer")
			failAfter(4)
			replays(t, s, "key", "answer")
		}
	}
}

// Case 6: the calls of a lost lease change neither tier.
func TestLostLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTiers()
		stale := win(t, s, claim("key"))
		pass(t.Context(), time.Minute)
		current := win(t, s, claim("key"))
		s.hot.taken()
		for method, err := range map[string]error{
			"Complete": s.Complete(t.Context(), stale, result("stale")),
			"Release":  s.Release(t.Context(), stale),
			"Extend":   s.Extend(t.Context(), stale, time.Minute),
		} {
			if !errors.Is(err, storage.ErrLeaseLost) {
				t.Errorf("%s returned %v, want ErrLeaseLost", method, err)
			}
		}
		s.durable.taken()
		s.wants(t, 0, 0)
		must(t, s.Complete(t.Context(), current, result("answer")))
		replays(t, s, "key", "answer")
	})
}

// Two processes see one durable tier, and one of them no hot tier.
func TestPartitionedHotTier(t *testing.T) {
	t.Parallel()
	hot, durable := newServer(), newServer()
	cut, whole := hot.link(), hot.link()
	cut.set(refuse)
	one := tieredstore.New(cut, durable.link(), tieredstore.Logger(silent))
	other := tieredstore.New(whole, durable.link(), tieredstore.Logger(silent))
	lease := win(t, one, claim("key"))
	runs(t, other, "key")
	must(t, one.Complete(t.Context(), lease, result("answer")))
	replays(t, other, "key", "answer")
	lease = win(t, other, claim("second"))
	runs(t, one, "second")
	must(t, other.Release(t.Context(), lease))
	win(t, one, claim("second"))
	runs(t, other, "second")
}

// A process dies between two steps. The test makes the steps before by hand.
func TestCrashBetweenSteps(t *testing.T) {
	t.Parallel()
	const inHot, inDurable = true, true
	crashes := map[string]struct {
		crash func(t *testing.T, s tiers, lease storage.Lease)
		// claimed is where the process had claimed the key before.
		claimedInHot, claimedInDurable bool
		// now and later are the next request's result, at once and after all leases
		// have ended: an attempt, or a response.
		now, later string
	}{
		"claimed in the hot tier":     {nil, inHot, !inDurable, "attempt 1", "attempt 1"},
		"claimed in the durable tier": {nil, !inHot, inDurable, "in_progress", "attempt 2"},
		"claimed in both":             {nil, inHot, inDurable, "in_progress", "attempt 2"},
		"completed in the durable tier": {func(t *testing.T, s tiers, lease storage.Lease) {
			t.Helper()
			must(t, s.durable.Complete(t.Context(), lease, result("answer")))
		}, inHot, inDurable, "answer", "answer"},
		"released in the durable tier": {func(t *testing.T, s tiers, lease storage.Lease) {
			t.Helper()
			must(t, s.durable.Release(t.Context(), lease))
		}, inHot, inDurable, "attempt 1", "attempt 1"},
		"extended in the durable tier": {func(t *testing.T, s tiers, lease storage.Lease) {
			t.Helper()
			must(t, s.durable.Extend(t.Context(), lease, time.Hour))
		}, inHot, inDurable, "in_progress", "in_progress"},
		"forgotten in the hot tier": {func(t *testing.T, s tiers, lease storage.Lease) {
			t.Helper()
			must(t, s.Complete(t.Context(), lease, result("answer")))
			must(t, onlyError(s.hot.Forget(t.Context(), lease.Key, storage.RerunIsSafe)))
		}, inHot, inDurable, "answer", "answer"},
	}
	for name, c := range crashes {
		for wait, want := range map[time.Duration]string{0: c.now, 2 * time.Minute: c.later} {
			t.Run(name+", "+wait.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := newTiers()
					lease := storage.Lease{Claim: claim("key"), Attempt: 1}
					if c.claimedInHot {
						win(t, s.hot, lease.Claim)
					}
					if c.claimedInDurable {
						win(t, s.durable, lease.Claim)
					}
					if c.crash != nil {
						c.crash(t, s, lease)
					}
					pass(t.Context(), wait)
					next, record, err := s.Acquire(t.Context(), claim("key"))
					must(t, err)
					got := fmt.Sprintf("attempt %d", next.Attempt)
					if record != nil {
						if got = string(record.Body); record.State == storage.InProgress {
							got = record.State.String()
						}
					}
					if got != want {
						t.Errorf("the next request gets %q, want %q", got, want)
					}
				})
			})
		}
	}
}
