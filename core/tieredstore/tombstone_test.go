package tieredstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/tieredstore"
	"github.com/oncekey/oncekey/internal/testkit"
)

// remembered is a claim whose tombstone lasts for a month.
func remembered(key string) storage.Claim {
	c := claim(key)
	c.Remember = 30 * 24 * time.Hour
	return c
}

// finishRemembered claims and completes a key, with a response that is kept for an
// hour and a tombstone for a month.
func finishRemembered(t *testing.T, store storage.Store, key string) {
	t.Helper()
	lease := win(t, store, remembered(key))
	res := result("answer")
	res.Remember = lease.Remember
	must(t, store.Complete(t.Context(), lease, res))
}

// isExpired expects the key's tombstone in the store, and no record in the hot tier.
func isExpired(t *testing.T, s tiers, status int) {
	t.Helper()
	for range 2 { // reading the tombstone fills nothing
		if r := find(t, s, claim("key")); r.State != storage.Expired || r.Status != status || len(r.Body) != 0 {
			t.Fatalf("the key has %+v, want a tombstone with status %d", r, status)
		}
		if r, err := s.hot.server.current().Lookup(t.Context(), "key"); err != nil || r != nil {
			t.Fatalf("the hot tier has %+v (%v), want no record", r, err)
		}
	}
}

// When the durable tier has a tombstone, the hot tier has no response left, however
// slow the calls of the completion were.
func TestHotResponseEndsFirst(t *testing.T) {
	t.Parallel()
	for _, reply := range []time.Duration{0, time.Second, 4 * time.Second} {
		for _, arrival := range []time.Duration{0, 99 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				s := newTiers()
				s.durable.set(slow(0, reply).in("Complete"))
				s.hot.set(slow(arrival, 0).in("Complete"))
				start := time.Now()
				finishRemembered(t, s, "key")
				s.durable.set(nil)
				pass(t.Context(), time.Until(start.Add(time.Hour-5*time.Second)))
				s.durable.taken()
				replays(t, s, "key", "answer")
				s.durable.wants(t, 0)
				pass(t.Context(), time.Until(start.Add(time.Hour)))
				isExpired(t, s, 201)
			})
		}
	}
}

// A response whose first confirmation was lost is kept since then. Its repetition, long
// after, must not make the hot tier keep it for longer than the durable tier does.
func TestRepeatedResponseEndsFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTiers()
		lease := win(t, s, remembered("key"))
		res := result("answer")
		res.Remember = lease.Remember
		start := time.Now()
		s.durable.set(loseReply)
		if err := s.Complete(t.Context(), lease, res); !errors.Is(err, errDown) {
			t.Fatalf("Complete returned %v", err)
		}
		s.durable.set(nil)
		pass(t.Context(), 30*time.Minute)
		res.Repeated = true
		must(t, s.Complete(t.Context(), lease, res))
		s.wants(t, 2, 3)
		for range 2 {
			if r := find(t, s, remembered("key")); !r.Finished.Equal(start) || !r.Expires.Equal(start.Add(time.Hour)) {
				t.Errorf("the record has the times %v and %v, want %v and an hour later", r.Finished, r.Expires, start)
			}
		}
		s.wants(t, 3, 1) // the first replay has filled the hot tier
		pass(t.Context(), time.Until(start.Add(time.Hour)))
		isExpired(t, s, 201)
	})
}

// slow delays a call and its reply.
func slow(arrival, reply time.Duration) fault {
	return func(ctx context.Context, _ string, apply func() error) error {
		pass(ctx, arrival)
		err := apply()
		pass(ctx, reply)
		return err
	}
}

// A refill ends with the record of the durable tier, however late it is read and
// however long RefillFor is.
func TestRefillEndsFirst(t *testing.T) {
	t.Parallel()
	for _, left := range []time.Duration{time.Millisecond, 50 * time.Millisecond, 2 * time.Second, 4 * time.Minute} {
		for _, reply := range []time.Duration{0, 3 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				s := newTiers(tieredstore.RefillFor(time.Hour)) // in fact six minutes, a hundredth of Retain
				start := time.Now()
				finishRemembered(t, s, "key")
				s.hot.server.flush()
				pass(t.Context(), time.Until(start.Add(time.Hour-left)))
				s.durable.set(slow(0, reply))
				s.hot.set(slow(99*time.Millisecond, 0).in("Complete"))
				replays(t, s, "key", "answer")
				s.durable.set(nil)
				pass(t.Context(), time.Until(start.Add(time.Hour)))
				isExpired(t, s, 201)
			})
		}
	}
}

// A refill of a record that has little time left gives its right to fill back.
func TestNoTimeToRefill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTiers()
		finishRemembered(t, s, "key")
		s.hot.server.flush()
		pass(t.Context(), time.Hour-time.Millisecond)
		s.wants(t, 2, 2)
		replays(t, s, "key", "answer")
		s.wants(t, 2, 1)
		win(t, s.hot, claim("key"))
	})
}

// An abandoned key is remembered by the durable tier too.
func TestAbandonedKeyIsRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTiers()
		c := remembered("key")
		c.TakeOver = false
		win(t, s, c)
		pass(t.Context(), c.Retain)
		isExpired(t, s, 0)
		pass(t.Context(), c.Remember)
		winAttempt(t, s, claim("key"), 1, false)
	})
}

// A hot store that was once used alone can have tombstones. Those of finished keys
// count as its responses do; what became of an abandoned key, only the durable tier
// can tell.
func TestTombstonesFromBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTiers()
		finishRemembered(t, s.hot, "finished")
		win(t, s.hot, remembered("abandoned"))
		pass(t.Context(), 10*time.Hour)
		s.wants(t, 3, 0)
		if r := find(t, s, claim("finished")); r.State != storage.Expired || r.Status != 201 {
			t.Errorf("the finished key has %+v, want its tombstone", r)
		}
		s.wants(t, 1, 0)
		finish(t, s, "abandoned", "answer")
		replays(t, s, "abandoned", "answer")
		replays(t, s, "abandoned", "answer")
	})
}

// The hot tier's part is a cache: it gets no steps and keeps no tombstones.
func TestStepsAreTheDurableTiers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTiers()
		lease := win(t, s, remembered("key"))
		lease.Steps = "first\n"
		must(t, s.Extend(t.Context(), lease, time.Minute))
		testkit.Equal(t, find(t, s.durable, claim("key")).Steps, "first\n", "the durable tier has the steps")
		if r := find(t, s.hot, claim("key")); r.Steps != "" || r.State != storage.InProgress {
			t.Errorf("the hot tier has %+v, want a claim without steps", r)
		}
		must(t, s.Extend(t.Context(), lease, 0))
		pass(t.Context(), time.Millisecond) // the links extend by more than zero
		if next := win(t, s, claim("key")); next.Attempt != 2 || next.Steps != "first\n" {
			t.Errorf("the take-over is %+v, want attempt 2 with the steps", next)
		}
	})
}

// When the clocks disagree, a refill is late by at most RefillFor, or is left out.
func TestRefillWhenClocksDisagree(t *testing.T) {
	t.Parallel()
	for ahead, fills := range map[time.Duration]bool{time.Hour: true, -time.Hour: false} {
		synctest.Test(t, func(t *testing.T) {
			s := newTiers()
			skewed := edited{s.durable, func(r *storage.Record) { r.Expires = r.Expires.Add(ahead) }} // by its clock
			s.Store = tieredstore.New(s.hot, skewed, tieredstore.Logger(silent), tieredstore.RefillFor(time.Minute))
			finishRemembered(t, s, "key")
			s.hot.server.flush()
			pass(t.Context(), time.Hour-time.Second)
			replays(t, s, "key", "answer")
			s.durable.taken()
			replays(t, s, "key", "answer")
			if calls := s.durable.taken(); len(calls) == 0 != fills {
				t.Errorf("with a clock that is ahead by %s, a replay took the calls %v to the durable tier", ahead, calls)
			}
			pass(t.Context(), time.Minute)
			isExpired(t, s, 201)
		})
	}
}
