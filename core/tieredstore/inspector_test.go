package tieredstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/tieredstore"
)

func TestLookupAndListReadTheDurableTier(t *testing.T) {
	t.Parallel()
	s := newTiers()
	finish(t, s, "key", "answer")
	s.wants(t, 2, 2)
	if r, err := s.Lookup(t.Context(), "key"); err != nil || string(r.Body) != "answer" {
		t.Errorf("Lookup returned %+v and %v, want the record", r, err)
	}
	if page, err := s.List(t.Context(), storage.Filter{States: []storage.State{storage.Completed}}, storage.Page{Limit: 10}); err != nil || len(page.Entries) != 1 || page.Entries[0].Key != "key" || page.Next != "" {
		t.Errorf("List returned %+v, %q and %v, want the key", page, page.Next, err)
	}
	s.wants(t, 0, 2)
}

func TestForget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTiers()
		finish(t, s, "key", "first")
		if _, err := s.Forget(t.Context(), "key", "please"); err == nil {
			t.Error("Forget did without RerunIsSafe")
		}
		replays(t, s, "key", "first")
		if held, err := s.Forget(t.Context(), "key", storage.RerunIsSafe); !held || err != nil {
			t.Errorf("Forget returned %t and %v, want true", held, err)
		}
		finish(t, s, "key", "second")
		replays(t, s, "key", "second")
		pass(t.Context(), time.Minute)
		replays(t, s, "key", "second") // fills
		s.durable.taken()
		replays(t, s, "key", "second")
		s.hot.taken()
		s.wants(t, 0, 0)
		must(t, onlyError(s.Forget(t.Context(), "key", storage.RerunIsSafe)))
		if held, err := s.Forget(t.Context(), "key", storage.RerunIsSafe); held || err != nil {
			t.Errorf("Forget of a missing key returned %t and %v, want false", held, err)
		}
	})
}

// A replay that has read the durable tier before a Forget, and fills the hot one
// after it, does not bring the record back.
func TestForgetBetweenReadAndFill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTiers()
		finish(t, s, "key", "first")
		s.hot.server.flush()
		s.durable.set(func(ctx context.Context, method string, apply func() error) error {
			err := apply()
			if method == "Acquire" {
				pass(ctx, time.Second)
			}
			return err
		})
		go replays(t, s, "key", "first")
		synctest.Wait()
		must(t, onlyError(s.Forget(t.Context(), "key", storage.RerunIsSafe)))
		pass(t.Context(), 2*time.Second)
		s.durable.set(nil)
		win(t, s, claim("key"))
	})
}

// A key that is filled again and again cannot be closed, and no record is removed.
func TestForgetIsTooSlow(t *testing.T) {
	t.Parallel()
	s := newTiers()
	finish(t, s, "key", "answer")
	s.hot.set(func(ctx context.Context, method string, apply func() error) error {
		err := apply()
		if method == "Forget" {
			must(t, s.hot.server.link().Complete(ctx, storage.Lease{Claim: claim("key"), Attempt: 1}, result("answer")))
		}
		return err
	})
	if _, err := s.Forget(t.Context(), "key", storage.RerunIsSafe); err == nil {
		t.Error("Forget succeeded")
	}
	replays(t, s, "key", "answer")
	replays(t, s.durable, "key", "answer")
}

// Where one tier fails, the record stands.
func TestForgetFails(t *testing.T) {
	t.Parallel()
	for _, broken := range []string{"hot Forget", "hot Acquire", "durable Forget"} {
		t.Run(broken, func(t *testing.T) {
			t.Parallel()
			s := newTiers()
			finish(t, s, "key", "answer")
			switch broken {
			case "hot Forget":
				s.hot.set(refuse.in("Forget"))
			case "hot Acquire":
				s.hot.set(refuse.in("Acquire"))
			default:
				s.durable.set(refuse.in("Forget"))
			}
			if _, err := s.Forget(t.Context(), "key", storage.RerunIsSafe); !errors.Is(err, errDown) {
				t.Errorf("Forget returned %v, want the tier's error", err)
			}
			s.hot.set(nil)
			s.durable.set(nil)
			replays(t, s, "key", "answer")
		})
	}
}

// The record in the hot tier may also be right, or a claim, or unreadable.
func TestOtherRecordsStand(t *testing.T) {
	t.Parallel()
	s := newTiers()
	lease := finish(t, s, "key", "answer")
	for _, state := range []storage.State{storage.Completed, storage.Unreplayable} {
		finished := lease
		finished.Token, finished.Key = storage.NewToken(), state.String()
		res := result("answer")
		res.State = state
		must(t, s.hot.Complete(t.Context(), finished, res)) // another refill of the same response
		lease.Key = finished.Key
		s.hot.taken()
		must(t, s.Complete(t.Context(), lease, res))
		s.hot.wants(t, 2) // Complete and Lookup
	}
	running := win(t, s, claim("running"))
	s.hot.server.flush()
	other := win(t, s.hot, claim("running"))
	s.hot.taken()
	must(t, s.Complete(t.Context(), running, result("answer")))
	s.hot.wants(t, 2) // Complete and Lookup
	must(t, s.hot.Release(t.Context(), other))
	for _, method := range []string{"Lookup", "Forget"} {
		lease := win(t, s, claim(method))
		s.hot.server.flush()
		must(t, s.hot.Complete(t.Context(), storage.Lease{Claim: claim(method), Attempt: 1}, result("wrong")))
		s.hot.set(refuse.in(method))
		must(t, s.Complete(t.Context(), lease, result("right")))
	}
}

// Case 20: an unreadable record in the hot tier is removed, and filled again.
func TestUnreadableRecordIsReplaced(t *testing.T) {
	t.Parallel()
	s := newTiers()
	finish(t, s, "key", "answer")
	s.hot.set(unreadable)
	s.wants(t, 2, 2)
	replays(t, s, "key", "answer")
	if calls := s.hot.taken(); len(calls) != 2 || calls[1] != "Forget" {
		t.Errorf("the hot tier had the calls %v, want Acquire and Forget", calls)
	}
	s.hot.set(nil)
	replays(t, s, "key", "answer")
	s.wants(t, 2, 2)
	replays(t, s, "key", "answer")
	s.wants(t, 1, 0)
}

func TestTiersThatAreNoInspectors(t *testing.T) {
	t.Parallel()
	hot, durable := newServer().link(), newServer().link()
	plain := tieredstore.New(hot, bare{durable})
	_, lookUp := plain.Lookup(t.Context(), "key")
	_, list := plain.List(t.Context(), storage.Filter{States: []storage.State{storage.Completed}}, storage.Page{Limit: 1})
	for operation, err := range map[string]error{
		"Lookup":                              lookUp,
		"List":                                list,
		"Settle":                              plain.Settle(t.Context(), "key", 1, storage.Happened),
		"Settle with a hot tier that is none": tieredstore.New(bare{hot}, durable).Settle(t.Context(), "key", 1, storage.Happened),
		"Forget":                              onlyError(plain.Forget(t.Context(), "key", storage.RerunIsSafe)),
		"Forget with a hot tier that is none": onlyError(tieredstore.New(bare{hot}, durable).Forget(t.Context(), "key", storage.RerunIsSafe)),
	} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s returned %v, want errors.ErrUnsupported", operation, err)
		}
	}
	if calls := append(hot.taken(), durable.taken()...); len(calls) > 0 {
		t.Errorf("the tiers had the calls %v, want none", calls)
	}
}

func onlyError[T any](_ T, err error) error { return err }
