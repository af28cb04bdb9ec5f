package soak

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/internal/explore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// broken is a real store that sometimes breaks its contract.
type broken struct {
	storage.Store
	calls *atomic.Uint64
	// grants makes a claim succeed although another attempt holds the key.
	grants bool
	// loses confirms a response without storing it.
	loses bool
	// dawdles confirms a claim when its lease is over, as on a machine that is too busy.
	dawdles bool
}

func (b *broken) now() bool { return b.calls.Add(1)%3 == 0 }

func (b *broken) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	c := request.Claim()
	lease, record, err := b.Store.Acquire(ctx, c)
	if b.dawdles && err == nil && b.now() {
		pass(c.LockTTL)
	}
	if b.grants && record != nil && b.now() {
		return storage.Lease{Claim: c, Attempt: record.Attempt}, nil, nil
	}
	return lease, record, err
}

func (b *broken) Complete(ctx context.Context, l storage.Lease, res storage.Result) error {
	if b.loses && b.now() {
		return nil
	}
	return b.Store.Complete(ctx, l, res)
}

// The soak finds in seconds the promises that a broken store breaks.
func TestBrokenStoresAreFound(t *testing.T) {
	t.Parallel()
	type test struct {
		store broken
		rule  explore.Rule
	}
	testkit.Each(t, map[string]test{
		"grants two leases": {broken{grants: true}, explore.TwoEffects},
		"loses responses":   {broken{loses: true}, explore.TwoResponses},
	}, func(t *testing.T, test test) {
		s := newBroken(t, test.store)
		began, found, judged := time.Now(), false, uint64(0)
		for ; !found && time.Since(began) < 5*time.Minute; judged += 4 {
			found = slices.Contains(s.rules(t, judged, judged+1, judged+2, judged+3), test.rule)
		}
		if !found {
			t.Errorf("%d plans do not break %s", judged, test.rule)
		}
		t.Logf("%s is broken within %v and %d plans", test.rule, time.Since(began).Round(time.Millisecond), judged)
	})
}

// newBroken is Redis with a broken store.
func newBroken(t *testing.T, as broken) *setting {
	t.Helper()
	s := newRedis(t)
	s.Slack = slackInTests
	s.Trouble = func(time.Time, time.Time) (none explore.Trouble) { return none }
	connect, calls := s.Connect, new(atomic.Uint64)
	s.Connect = func() (*explore.Connection, error) {
		connection, err := connect()
		if err != nil {
			return nil, err
		}
		store := as
		store.Store, store.calls = connection.Store, calls
		connection.Store = &store
		return connection, nil
	}
	return s
}

// A claim that is confirmed after the end of its lease is a failure of the store to the
// engine, and none to the store: a policy may let the handler run without protection.
func TestSlowClaimsAreFailures(t *testing.T) {
	t.Parallel()
	s := newBroken(t, broken{dawdles: true})
	var open []uint64
	for seed := uint64(0); len(open) < 3*fewAtOnce; seed++ {
		if s.draw(seed).Policy.FailOpen {
			open = append(open, seed)
		}
	}
	if slices.Contains(s.rules(t, open...), explore.Unprotected) {
		t.Errorf("the plans break %s", explore.Unprotected)
	}
}

// rules runs plans at the same time, and returns the rules that they break.
func (s *setting) rules(t *testing.T, seeds ...uint64) (broken []explore.Rule) {
	t.Helper()
	found := make(chan []explore.Violation, len(seeds))
	for _, seed := range seeds {
		go func() {
			violations, _, err := s.judge(seed)
			if err != nil {
				t.Error(err)
			}
			found <- violations
		}()
	}
	for range seeds {
		for _, v := range <-found {
			broken = append(broken, v.Rule)
		}
	}
	return broken
}
