package tieredstore

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/internal/scopecount"
	"github.com/oncekey/oncekey/core/storage"
)

const (
	// DefaultHotTimeout is the time limit of one call to the hot tier, unless
	// [HotTimeout] sets another.
	DefaultHotTimeout = 100 * time.Millisecond

	// DefaultRefillFor is how long the hot tier keeps a record that was filled from
	// the durable tier, unless [RefillFor] sets another time.
	DefaultRefillFor = time.Minute
)

// Store is a [storage.Store] of two tiers. It is also a [storage.Transactor], a
// [storage.Limiter] and a [storage.Inspector] if its tiers are: see
// [Store.BeginTransaction] and [Store.Forget]. It is safe for concurrent use, starts no
// goroutine and needs no Close. Make one with [New].
type Store struct {
	hot     hotTier
	durable storage.Store
	passing
}

// passing has the methods of [storage.Limiter]. The durable tier counts, because a hot tier may
// lose counts, or belong to one process alone.
type passing = scopecount.Passing

var (
	_ storage.Store      = (*Store)(nil)
	_ storage.Transactor = (*Store)(nil)
	_ storage.Limiter    = (*Store)(nil)
	_ storage.Inspector  = (*Store)(nil)
)

// Option is a setting of [New].
type Option func(*Store)

// HotTimeout sets the time limit of one call to the hot tier. After that the store
// continues with the durable tier alone. The default is [DefaultHotTimeout]. Set it
// well below the policies' StoreTimeout: Acquire gives the hot tier at most half of
// the time left. HotTimeout panics when the time is below a millisecond.
func HotTimeout(timeout time.Duration) Option {
	if timeout < time.Millisecond {
		panic(fmt.Sprintf("tieredstore: HotTimeout(%s): want at least 1ms", timeout))
	}
	return func(s *Store) { s.hot.timeout = timeout }
}

// RefillFor sets how long the hot tier keeps a record that it had lost, and that a
// replay has read from the durable tier. It bounds how late the hot tier may drop the
// record when the clocks of this process and the durable tier disagree, or when the
// durable tier does not tell the record's end. A key that is replayed constantly is
// read from the durable tier this often. The time is capped at a hundredth of the
// current claim's Retain. The default is [DefaultRefillFor]. RefillFor panics when the
// time is below a millisecond.
func RefillFor(window time.Duration) Option {
	if window < shortest {
		panic(fmt.Sprintf("tieredstore: RefillFor(%s): want at least %s", window, shortest))
	}
	return func(s *Store) { s.hot.refillFor = window }
}

// Logger sets the logger for failures of the hot tier, which callers do not see. It
// logs the first failure at once, then at most one line in ten seconds, and a line
// when the tier responds again. The default, also for nil, is slog.Default().
func Logger(logger *slog.Logger) Option { return func(s *Store) { s.hot.health.logger = logger } }

// New returns a store that replays from hot and decides by durable. It panics when
// one of them is nil. The caller keeps both stores. Any two stores work.
//
// A hot store pays off when it is faster and all instances share it. It can also be a
// local cache of finished records, one for each instance: a memstore made with
// memstore.Cache, which stays within its bounds. A local cache does not see the
// Forget of another instance, and replays the forgotten record until the record
// expires there.
func New(hot, durable storage.Store, options ...Option) *Store {
	if hot == nil || durable == nil {
		panic("tieredstore: New: want two stores, one of them is nil")
	}
	s := &Store{durable: durable, passing: scopecount.NewPassing("tieredstore", "durable tier", durable)}
	s.hot.store, s.hot.timeout, s.hot.refillFor = hot, DefaultHotTimeout, DefaultRefillFor
	s.hot.inspector, _ = hot.(storage.Inspector)
	records.Configure("tieredstore", s, options)
	return s
}

// Acquire implements [storage.Store]. A finished record may come from the hot tier.
// Leases, other records and errors come from the durable tier.
func (s *Store) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	finished, fill := s.hot.look(ctx, request)
	if finished != nil {
		return storage.Lease{}, finished, nil
	}
	if fill != nil { // the durable tier's record must be whole
		request = request.Claim()
	}
	asked := time.Now()
	lease, found, err := s.durable.Acquire(ctx, request)
	if err == nil && found != nil && fill != nil {
		s.hot.correct(ctx, asked, request.Claim(), *fill, found)
	}
	return lease, found, err
}

// Complete implements [storage.Store]. It returns nil when the durable tier has
// stored the result.
func (s *Store) Complete(ctx context.Context, l storage.Lease, res storage.Result) error {
	asked := time.Now()
	if err := s.durable.Complete(ctx, l, res); err != nil {
		return err
	}
	if res.Repeated { // the durable tier may have it since an earlier call, so a replay fills the hot tier with the record's times
		s.hot.release(ctx, fillLease(l))
		return nil
	}
	s.hot.settle(ctx, asked, l, res)
	return nil
}

// Release implements [storage.Store]. It returns nil when the durable tier has
// released the key.
func (s *Store) Release(ctx context.Context, l storage.Lease) error {
	if err := s.durable.Release(ctx, l); err != nil {
		return err
	}
	s.hot.release(ctx, fillLease(l))
	return nil
}

// Extend implements [storage.Store]. It returns nil when the durable tier has renewed
// the lease.
func (s *Store) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) error {
	if err := s.durable.Extend(ctx, l, ttl); err != nil {
		return err
	}
	if ttl <= 0 { // the key is abandoned, and a right to fill of no length cannot be stored
		s.hot.release(ctx, fillLease(l))
		return nil
	}
	s.hot.extend(ctx, l, ttl)
	return nil
}
