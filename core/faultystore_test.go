package core_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

var errStoreDown = errors.New("connection refused")

// faultyStore counts calls, and lets a test make them fail before or after they are
// applied.
type faultyStore struct {
	storage.Store
	mu                                     sync.Mutex
	acquire, complete, release, extend     func(apply func() error) error
	acquires, completes, releases, extends atomic.Int64
	look                                   func(ctx context.Context) // at each call, unless nil
}

func newFaultyStore() *faultyStore { return &faultyStore{Store: memstore.New()} }

// set returns a function that sets the fault of some methods. A nil fault heals them.
func (s *faultyStore) set(faults ...*func(func() error) error) func(func(func() error) error) {
	return func(fault func(func() error) error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, place := range faults {
			*place = fault
		}
	}
}

func failUnapplied(func() error) error { return errStoreDown }

// failApplied loses the reply.
func failApplied(apply func() error) error { return errors.Join(apply(), errStoreDown) }

// failing is a fault with an error of its own.
func failing(err error) func(func() error) error { return func(func() error) error { return err } }

// failingOnce is a fault of the first call alone. The call is not applied.
func failingOnce(err error) func(func() error) error {
	var calls atomic.Int64
	return func(apply func() error) error {
		if calls.Add(1) == 1 {
			return err
		}
		return apply()
	}
}

var errHang = errors.New("until the call's context ends")

// hang is a fault that ends with the call's context.
func hang(func() error) error { return errHang }

func (s *faultyStore) through(ctx context.Context, count *atomic.Int64, place *func(func() error) error, apply func(storage.Store) error) error {
	count.Add(1)
	if s.look != nil {
		s.look(ctx)
	}
	s.mu.Lock()
	fault, store := *place, s.Store
	s.mu.Unlock()
	if fault == nil {
		return apply(store)
	}
	err := fault(func() error { return apply(store) })
	if err == errHang { //nolint:errorlint // it is this very one
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

// forget loses all records, as a Redis without persistence does.
func (s *faultyStore) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Store = memstore.New()
}

func (s *faultyStore) Acquire(ctx context.Context, request storage.Request) (lease storage.Lease, record *storage.Record, err error) {
	c := request.Claim()
	failed := s.through(ctx, &s.acquires, &s.acquire, func(store storage.Store) error {
		lease, record, err = store.Acquire(ctx, c)
		return err
	})
	if failed != nil {
		return storage.Lease{}, nil, failed
	}
	return lease, record, nil
}

func (s *faultyStore) Complete(ctx context.Context, l storage.Lease, r storage.Result) error {
	return s.through(ctx, &s.completes, &s.complete, func(store storage.Store) error { return store.Complete(ctx, l, r) })
}

func (s *faultyStore) Release(ctx context.Context, l storage.Lease) error {
	return s.through(ctx, &s.releases, &s.release, func(store storage.Store) error { return store.Release(ctx, l) })
}

func (s *faultyStore) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) error {
	return s.through(ctx, &s.extends, &s.extend, func(store storage.Store) error { return store.Extend(ctx, l, ttl) })
}

// wantCalls checks a count of a faultyStore.
func wantCalls(t *testing.T, calls *atomic.Int64, n int64) {
	t.Helper()
	testkit.Equal(t, calls.Load(), n, "calls of the store")
}
