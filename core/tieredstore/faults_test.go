package tieredstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

var hotFaults = map[string]fault{
	"down": refuse, "hanging": hang, "mute": loseReply, "full": full, "unreadable": unreadable, "late": late(time.Millisecond),
	"forbidden": func(context.Context, string, func() error) error { return storage.ErrStoreForbidden },
}

// Case 20 is the row "unreadable", and case 38 the row "forbidden".
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
