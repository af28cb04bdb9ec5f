package tieredstore_test

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/tieredstore"
	"github.com/oncekey/oncekey/internal/testkit"
)

func TestFirstRunIsClaimedAndCompletedInBoth(t *testing.T) {
	t.Parallel()
	s := newTiers()
	lease := win(t, s, claim("key"))
	s.wants(t, 1, 1)
	must(t, s.Extend(t.Context(), lease, time.Minute))
	s.wants(t, 1, 1)
	must(t, s.Complete(t.Context(), lease, result("answer")))
	s.wants(t, 1, 1)
	replays(t, s.durable, "key", "answer")
	replays(t, s.hot, "key", "answer")
}

func TestReplayTouchesNoDatabase(t *testing.T) {
	t.Parallel()
	s := newTiers()
	finish(t, s, "key", "answer")
	s.wants(t, 2, 2)
	for range 3 {
		replays(t, s, "key", "answer")
		s.wants(t, 1, 0)
	}
	other := claim("key")
	other.Fingerprint = "sha256:another request"
	if r := find(t, s, other); r.Fingerprint != "sha256:f" {
		t.Errorf("the record is of %q, want the fingerprint of the first request", r.Fingerprint)
	}
	s.wants(t, 1, 0)
}

// The durable tier gets every write first, then the hot tier.
func TestDurableTierComesFirst(t *testing.T) {
	t.Parallel()
	s := newTiers()
	var order []string
	note := func(tier string) fault {
		return func(_ context.Context, method string, apply func() error) error {
			order = append(order, tier+" "+method)
			return apply()
		}
	}
	s.hot.set(note("hot"))
	s.durable.set(note("durable"))
	lease := win(t, s, claim("a"))
	must(t, s.Extend(t.Context(), lease, time.Minute))
	must(t, s.Complete(t.Context(), lease, result("answer")))
	must(t, s.Release(t.Context(), win(t, s, claim("b"))))
	if want := []string{
		"hot Acquire", "durable Acquire", "durable Extend", "hot Extend", "durable Complete", "hot Complete",
		"hot Acquire", "durable Acquire", "durable Release", "hot Release",
	}; !slices.Equal(order, want) {
		t.Errorf("the calls were %q, want %q", order, want)
	}
}

func TestDuplicateOfRunningRequest(t *testing.T) {
	t.Parallel()
	s := newTiers()
	win(t, s, claim("key"))
	s.wants(t, 1, 1)
	runs(t, s, "key")
	s.wants(t, 1, 1)
	s.hot.server.flush()
	runs(t, s, "key") // and releases the right to fill, which it got
	s.wants(t, 2, 1)
	winAttempt(t, s.hot, claim("key"), 1, false)
}

func TestColdHotTierIsRefilled(t *testing.T) {
	t.Parallel()
	for _, state := range []storage.State{storage.Completed, storage.Failed, storage.Unreplayable} {
		t.Run(state.String(), func(t *testing.T) {
			t.Parallel()
			s := newTiers()
			digested := claim("key")
			digested.Digest = storage.Digest{1}
			lease := win(t, s, digested)
			want := result("answer")
			want.State = state
			must(t, s.Complete(t.Context(), lease, want))
			fresh := *find(t, s, claim("key"))
			s.hot.server.flush()
			s.wants(t, 3, 2)
			other := claim("key")
			other.Fingerprint = "sha256:another request"
			find(t, s, other)
			s.wants(t, 2, 1)
			refilled := find(t, s, claim("key"))
			s.wants(t, 1, 0)
			if refilled.State != state || refilled.Fingerprint != "sha256:f" || refilled.Digest != digested.Digest || refilled.Attempt != 1 ||
				refilled.Status != fresh.Status || !bytes.Equal(refilled.Body, fresh.Body) || !slices.Equal(refilled.Header, fresh.Header) ||
				!bytes.Equal(refilled.Sketch, want.Sketch) {
				t.Errorf("after the refill it is %+v, before it was %+v", refilled, fresh)
			}
		})
	}
}

// A store that was once used alone can have left a claim whose lease is over, and so can a claim of this store whose record
// ends in the same millisecond as its lease.
func TestRefillInPlaceOfAClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTiers()
		for range 2 {
			win(t, s.hot, claim("key")) // the second time as attempt 2
			pass(t.Context(), 2*time.Minute)
		}
		want := find(t, s.durable, finish(t, s.durable, "key", "answer").Claim)
		for range 3 {
			if got := find(t, s, claim("key")); string(got.Body) != "answer" || got.Attempt != 1 || !got.Created.Equal(want.Created) {
				t.Errorf("the key has %+v, want the durable tier's attempt 1", got)
			}
		}
		s.hot.taken()
		s.durable.taken()
		replays(t, s, "key", "answer")
		s.wants(t, 1, 0)
	})
}

// The hot tier keeps the number of its own claim, which may be above or below that of the run.
func TestRefillOfALaterAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTiers()
		for range 2 {
			win(t, s.hot, claim("key"))
			pass(t.Context(), 2*time.Minute)
		}
		for range 4 {
			win(t, s.durable, claim("key"))
			pass(t.Context(), 2*time.Minute)
		}
		finish(t, s.durable, "key", "answer") // as attempt 5
		find(t, s, claim("key"))
		testkit.Equal(t, s.replay(t).Attempt, 5, "the replay is of attempt")
	})
}

// Acquire reads the durable tier again and again, so the hot tier is not late for long
// when the clocks disagree.
func TestRefillIsKeptForAShortTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTiers(tieredstore.RefillFor(30 * time.Second))
		finish(t, s, "key", "answer") // for an hour
		pass(t.Context(), 30*time.Minute)
		s.hot.server.flush()
		s.wants(t, 2, 2)
		for range 3 {
			replays(t, s, "key", "answer")
			s.wants(t, 2, 1)
			pass(t.Context(), 29*time.Second)
			replays(t, s, "key", "answer")
			s.wants(t, 1, 0)
			pass(t.Context(), time.Second)
		}
		pass(t.Context(), 28*time.Minute+29*time.Second) // a second before its end
		replays(t, s, "key", "answer")
		pass(t.Context(), 30*time.Second)
		win(t, s, claim("key"))
	})
}

// However long RefillFor is, a refill lasts a hundredth of the claim's Retain.
func TestRefillOfShortRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTiers(tieredstore.RefillFor(time.Hour))
		finish(t, s, "key", "answer")
		s.hot.server.flush()
		c := claim("key")
		c.Retain = 100 * time.Second
		find(t, s, c)
		s.wants(t, 4, 3)
		pass(t.Context(), 999*time.Millisecond)
		find(t, s, c)
		s.wants(t, 1, 0)
		pass(t.Context(), time.Millisecond)
		find(t, s, c)
		s.wants(t, 2, 1)
	})
}

// An old result of the durable tier is not written to the hot tier.
func TestNothingOldIsFilledIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTiers()
		lease := win(t, s, claim("key"))
		s.durable.set(func(ctx context.Context, _ string, apply func() error) error {
			err := apply()
			pass(ctx, 5*time.Second+time.Millisecond)
			return err
		})
		s.wants(t, 1, 1)
		must(t, s.Complete(t.Context(), lease, result("answer")))
		s.wants(t, 0, 1)
		pass(t.Context(), time.Minute)
		replays(t, s, "key", "answer") // it gets the right to fill, and is too late to use it
		s.wants(t, 1, 1)
	})
}

// A full durable tier takes no new key, even if the hot tier has space. Admitted keys
// are finished and replayed.
func TestFullDurableTier(t *testing.T) {
	t.Parallel()
	s := tieredstore.New(memstore.New(), memstore.New(memstore.MaxRecords(1)), tieredstore.Logger(silent))
	lease := win(t, s, claim("first"))
	for range 2 {
		testkit.Refused(t, s, claim("second"), storage.ErrStoreFull)
		runs(t, s, "first")
	}
	must(t, s.Complete(t.Context(), lease, result("answer")))
	replays(t, s, "first", "answer")
}

func TestAttemptNumbersAreTheDurableTiers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTiers()
		win(t, s, claim("key"))
		for attempt := uint64(2); attempt < 5; attempt++ {
			pass(t.Context(), time.Minute)
			s.hot.server.flush()
			lease := win(t, s, claim("key"))
			if lease.Attempt != attempt || !lease.TookOver {
				t.Fatalf("the lease is %+v, want attempt %d, taken over", lease, attempt)
			}
		}
		pass(t.Context(), time.Minute)
		lease := win(t, s, claim("key"))
		must(t, s.Complete(t.Context(), lease, result("answer")))
		s.durable.taken()
		if r := find(t, s, claim("key")); r.Attempt != 5 || len(s.durable.taken()) > 0 {
			t.Errorf("the hot tier replays attempt %d, want 5", r.Attempt)
		}
	})
}

func TestOptionsRefuseNonsense(t *testing.T) {
	t.Parallel()
	store := newServer().link()
	testkit.PanicsWith(t, func() { tieredstore.HotTimeout(100) }, "tieredstore: HotTimeout(100ns): want at least 1ms")
	testkit.PanicsWith(t, func() { tieredstore.RefillFor(-time.Second) }, "tieredstore: RefillFor(-1s): want at least 1ms")
	testkit.PanicsWith(t, func() { tieredstore.New(nil, store) }, "tieredstore: New: want two stores, one of them is nil")
	testkit.PanicsWith(t, func() { tieredstore.New(store, nil) }, "tieredstore: New: want two stores, one of them is nil")
	testkit.PanicsWith(t, func() { tieredstore.New(store, store, nil) }, "tieredstore: option 1 is nil: leave it out")
}
