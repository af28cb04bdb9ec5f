package tieredstore_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/tieredstore"
	"github.com/oncekey/oncekey/internal/testkit"
)

var origin = storage.Origin{
	Route: "POST /payments", Holder: "payments-7d4b9", KeyHash: "f2ca1bb6", Trace: "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
}

// from is a claim with an origin.
func from(o storage.Origin) storage.Claim {
	c := claim("key")
	c.Origin = o
	return c
}

// replay expects that the key is replayed without a call to the durable tier.
func (s tiers) replay(t *testing.T) *storage.Record {
	t.Helper()
	s.durable.taken()
	r := find(t, s, claim("key"))
	if calls := s.durable.taken(); len(calls) > 0 {
		t.Fatalf("the replay took the calls %v to the durable tier, want none", calls)
	}
	return r
}

// A replay of the response that was completed here has the origin of its run, and its
// times: the end at most ten seconds before the durable tier's, and never after it.
func TestReplayHasItsOriginAndTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTiers()
		lease := win(t, s, from(origin))
		pass(t.Context(), 20*time.Second)
		lease.Age = 20 * time.Second
		must(t, s.Complete(t.Context(), lease, result("answer")))
		pass(t.Context(), time.Minute)
		want, got := find(t, s.durable, claim("key")), s.replay(t)
		testkit.Equal(t, got.Origin, origin, "the origin")
		if !got.Created.Equal(want.Created) || !got.Finished.Equal(want.Finished) {
			t.Errorf("it was created at %s and finished at %s, want %s and %s", got.Created, got.Finished, want.Created, want.Finished)
		}
		if early := want.Expires.Sub(got.Expires); early < 0 || early > 10*time.Second {
			t.Errorf("it expires at %s, want at %s or up to ten seconds before", got.Expires, want.Expires)
		}
	})
}

// A replay after a refill has the origin and the times of the durable record, not
// those of the refill.
func TestRefillHasItsOriginAndTimes(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("t", 100) // leaves no space for the times
	for _, test := range []struct{ kept, replayed string }{{origin.Trace, origin.Trace}, {"", ""}, {long, ""}} {
		synctest.Test(t, func(t *testing.T) {
			s := newTiers()
			wanted := origin
			wanted.Trace = test.kept
			lease := win(t, s, from(wanted))
			pass(t.Context(), 20*time.Second)
			must(t, s.Complete(t.Context(), lease, result("answer")))
			pass(t.Context(), time.Minute)
			s.hot.server.flush()
			want := find(t, s, from(storage.Origin{Route: "of the replay"}))
			pass(t.Context(), 10*time.Second)
			got := s.replay(t)
			if wanted.Trace = test.replayed; got.Origin != wanted {
				t.Errorf("the origin is %+v, want %+v", got.Origin, wanted)
			}
			if !got.Created.Equal(want.Created) || !got.Finished.Equal(want.Finished) || !got.Expires.Equal(want.Expires) {
				t.Errorf("the times are %s, %s, %s, want %s, %s, %s", got.Created, got.Finished, got.Expires, want.Created, want.Finished, want.Expires)
			}
			if hot := find(t, s.hot, claim("key")); len(hot.Origin.Trace) > 100 {
				t.Errorf("the hot tier's trace has %d bytes, want at most 100", len(hot.Origin.Trace))
			}
		})
	}
}

// Times that the durable tier does not know are unknown after a refill too.
func TestRefillWithoutTimes(t *testing.T) {
	t.Parallel()
	s := newTiers()
	ageless := edited{s.durable, func(r *storage.Record) {
		r.Origin, r.Created, r.Finished, r.Expires = storage.Origin{}, time.Time{}, time.Time{}, time.Time{}
	}}
	s.Store = tieredstore.New(s.hot, ageless, tieredstore.Logger(silent))
	finish(t, s, "key", "answer")
	s.hot.server.flush()
	find(t, s, claim("key"))
	if r := s.replay(t); r.Origin != (storage.Origin{}) || !r.Created.IsZero() || !r.Finished.IsZero() || !r.Expires.IsZero() {
		t.Errorf("the record has the origin %+v and the times %s, %s, %s, want none", r.Origin, r.Created, r.Finished, r.Expires)
	}
}

// Case 18: the hot tier has a response that the durable tier does not have any more. The new one
// replaces it, in whatever it differs, and is kept for a short time only. Its end is not the
// record's end, and so unknown.
func TestReplacedResponse(t *testing.T) {
	t.Parallel()
	testkit.EachInBubble(t, map[string]func(*storage.Result){
		"body":   func(r *storage.Result) { r.Body = []byte("new") },
		"header": func(r *storage.Result) { r.Header = storage.Header{{Name: "A", Value: "new"}} },
		"status": func(r *storage.Result) { r.Status = 202 },
		"state":  func(r *storage.Result) { r.State, r.Header, r.Body = storage.Unreplayable, nil, nil },
		"sketch": func(r *storage.Result) { r.Sketch = []byte("sketch of new") },
	}, func(t *testing.T, change func(*storage.Result)) {
		s := newTiers()
		finish(t, s, "key", "old")
		s.durable.server.flush()
		s.hot.set(refuse) // so that no caller gets the old response, and the key runs
		lease := win(t, s, from(origin))
		s.hot.set(nil)
		res := result("old")
		change(&res)
		must(t, s.Complete(t.Context(), lease, res))
		if r := s.replay(t); r.State != res.State || r.Status != res.Status || !bytes.Equal(r.Body, res.Body) || !bytes.Equal(r.Sketch, res.Sketch) ||
			!slices.Equal(r.Header, res.Header) || r.Origin != origin || !r.Expires.IsZero() {
			t.Errorf("the record is %+v, want the new response without an end", r)
		}
		pass(t.Context(), 2*time.Minute)
		if find(t, s, claim("key")); len(s.durable.taken()) == 0 {
			t.Error("the response that replaced another was kept for more than RefillFor")
		}
	})
}

// A refill that replaces a wrong response has the durable record's times too.
func TestRefillThatReplaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTiers(tieredstore.RefillFor(time.Hour))
		lease := win(t, s, from(origin))
		must(t, s.Complete(t.Context(), lease, result("answer")))
		s.hot.server.flush()
		s.durable.set(func(_ context.Context, _ string, apply func() error) error {
			s.hot.server.flush()
			must(t, s.hot.Complete(t.Context(), storage.Lease{Claim: from(storage.Origin{}), Attempt: 1}, result("wrong")))
			return apply()
		})
		want := find(t, s, claim("key"))
		s.durable.set(nil)
		if r := s.replay(t); string(r.Body) != "answer" || r.Origin != origin || !r.Expires.Equal(want.Expires) {
			t.Errorf("the record is %+v, want the response with the end %s", r, want.Expires)
		}
	})
}
