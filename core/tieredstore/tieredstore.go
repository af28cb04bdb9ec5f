package tieredstore

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

const (
	// DefaultHotTimeout is the time for one call at the hot tier unless
	// [HotTimeout] says otherwise.
	DefaultHotTimeout = 100 * time.Millisecond

	// DefaultRefillFor is how long the hot tier keeps a record that was filled in
	// from the durable tier unless [RefillFor] says otherwise.
	DefaultRefillFor = time.Minute
)

// Store is a [storage.Store] of two tiers. It is also a [storage.Transactor] and a
// [storage.Inspector], as far as its tiers are: see [Store.BeginTransaction] and
// [Store.Forget]. It is safe for concurrent use, starts no goroutine and needs
// no Close. Make one with [New].
type Store struct {
	hot     hotTier
	durable storage.Store
}

var (
	_ storage.Store      = (*Store)(nil)
	_ storage.Transactor = (*Store)(nil)
	_ storage.Inspector  = (*Store)(nil)
)

// Option is a setting of [New].
type Option func(*Store)

// HotTimeout sets how long one call at the hot tier may take before it is given
// up and the durable tier goes on alone. The default is [DefaultHotTimeout]. It
// belongs well below the policies' StoreTimeout: Acquire never gives the hot tier
// more than half of the time it has left. It panics when the time is zero or
// negative.
func HotTimeout(timeout time.Duration) Option {
	if timeout <= 0 {
		panic(fmt.Sprintf("tieredstore: HotTimeout(%s): want more than 0", timeout))
	}
	return func(s *Store) { s.hot.timeout = timeout }
}

// RefillFor sets how long the hot tier keeps a record that it had lost, and that
// a replay has fetched from the durable tier. Nobody knows then how much of the
// record's time is left: a replay may come this much too late, and the durable
// tier is asked this often about a key that is replayed all the time. Whatever
// is set here, it is at most a hundredth of the asking claim's Retain. The
// default is [DefaultRefillFor]. It panics when the time is below a millisecond.
func RefillFor(window time.Duration) Option {
	if window < shortest {
		panic(fmt.Sprintf("tieredstore: RefillFor(%s): want at least %s", window, shortest))
	}
	return func(s *Store) { s.hot.refillFor = window }
}

// Logger sets where failures of the hot tier are reported, which no caller gets
// to see: the first at once, then at most one line in ten seconds, and one when
// it answers again. The default, and what nil means, is slog.Default().
func Logger(logger *slog.Logger) Option { return func(s *Store) { s.hot.health.logger = logger } }

// New returns a store that answers from hot and believes durable. It panics when
// one of them is nil. Both stay the caller's. Any two stores will do; the hot one
// pays off when it is faster, and when all instances share it; or as a local cache
// of finished records, one for each instance: a memstore made with memstore.Cache,
// which stays within its bounds. A record that is forgotten at the durable tier by
// another instance (Forget) is replayed from it until it expires there.
func New(hot, durable storage.Store, options ...Option) *Store {
	if hot == nil || durable == nil {
		panic("tieredstore: New: want two stores, one of them is nil")
	}
	s := &Store{durable: durable}
	s.hot.store, s.hot.timeout, s.hot.refillFor = hot, DefaultHotTimeout, DefaultRefillFor
	s.hot.inspector, _ = hot.(storage.Inspector)
	for _, option := range options {
		option(s)
	}
	return s
}

// Acquire implements [storage.Store]. A finished record may come from the hot tier;
// a lease, any other record, and an error are the durable tier's.
func (s *Store) Acquire(ctx context.Context, c storage.Claim) (storage.Lease, *storage.Record, error) {
	finished, fill := s.hot.look(ctx, c)
	if finished != nil {
		return storage.Lease{}, finished, nil
	}
	asked := time.Now()
	lease, found, err := s.durable.Acquire(ctx, c)
	if err == nil && found != nil && fill != nil {
		s.hot.correct(ctx, asked, c, *fill, found)
	}
	return lease, found, err
}

// Complete implements [storage.Store]. It returns nil when the durable tier has the
// result.
func (s *Store) Complete(ctx context.Context, l storage.Lease, res storage.Result) error {
	asked := time.Now()
	if err := s.durable.Complete(ctx, l, res); err != nil {
		return err
	}
	s.hot.complete(ctx, asked, l, res)
	return nil
}

// Release implements [storage.Store]. It returns nil when the durable tier has freed
// the key.
func (s *Store) Release(ctx context.Context, l storage.Lease) error {
	if err := s.durable.Release(ctx, l); err != nil {
		return err
	}
	s.hot.release(ctx, storage.Lease{Claim: fillClaim(l.Claim), Attempt: 1})
	return nil
}

// Extend implements [storage.Store]. It returns nil when the durable tier has renewed
// the lease.
func (s *Store) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) error {
	if err := s.durable.Extend(ctx, l, ttl); err != nil {
		return err
	}
	s.hot.extend(ctx, l, ttl)
	return nil
}
