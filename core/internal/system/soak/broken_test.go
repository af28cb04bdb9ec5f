package soak

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/internal/explore"
	"github.com/oncekey/oncekey/core/storage"
)

// broken is a real store that sometimes breaks its contract.
type broken struct {
	storage.Store
	calls *atomic.Uint64
	// grants makes a claim succeed although another attempt holds the key.
	grants bool
	// loses confirms a response without storing it.
	loses bool
}

func (b *broken) now() bool { return b.calls.Add(1)%3 == 0 }

func (b *broken) Acquire(ctx context.Context, c storage.Claim) (storage.Lease, *storage.Record, error) {
	lease, record, err := b.Store.Acquire(ctx, c)
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
	for name, test := range map[string]struct {
		store broken
		rule  explore.Rule
	}{
		"grants two leases": {broken{grants: true}, explore.TwoEffects},
		"loses responses":   {broken{loses: true}, explore.TwoResponses},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRedis(t)
			s.Slack = slackInTests
			s.Trouble = func(time.Time, time.Time) (none explore.Trouble) { return none }
			connect, calls := s.Connect, new(atomic.Uint64)
			s.Connect = func() (*explore.Connection, error) {
				connection, err := connect()
				if err != nil {
					return nil, err
				}
				store := test.store
				store.Store, store.calls = connection.Store, calls
				connection.Store = &store
				return connection, nil
			}
			began, found, judged := time.Now(), false, 0
			for ; !found && time.Since(began) < 5*time.Minute; judged += fewAtOnce {
				found = slices.Contains(s.rules(t, uint64(judged), fewAtOnce), test.rule)
			}
			if !found {
				t.Errorf("%d plans do not break %s", judged, test.rule)
			}
			t.Logf("%s is broken within %v and %d plans", test.rule, time.Since(began).Round(time.Millisecond), judged)
		})
	}
}

// rules runs plans at the same time, and returns the rules that they break.
func (s *setting) rules(t *testing.T, seed uint64, plans int) (broken []explore.Rule) {
	t.Helper()
	found := make(chan []explore.Violation, plans)
	for n := range plans {
		go func() {
			violations, _, err := s.judge(seed + uint64(n))
			if err != nil {
				t.Error(err)
			}
			found <- violations
		}()
	}
	for range plans {
		for _, v := range <-found {
			broken = append(broken, v.Rule)
		}
	}
	return broken
}
