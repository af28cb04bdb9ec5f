package linearizable

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// broken is a memory store that sometimes makes a mistake.
type broken struct {
	*memstore.Store
	calls atomic.Int64
	late  sync.WaitGroup

	acquire  func(b *broken, ctx context.Context, c storage.Claim) (storage.Lease, *storage.Record, error)
	complete func(b *broken, ctx context.Context, l storage.Lease, res storage.Result) error
	release  func(b *broken, ctx context.Context, l storage.Lease) error
}

func (b *broken) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	c := request.Claim()
	if b.acquire == nil {
		return b.Store.Acquire(ctx, c)
	}
	return b.acquire(b, ctx, c)
}

func (b *broken) Complete(ctx context.Context, l storage.Lease, res storage.Result) error {
	if b.complete == nil {
		return b.Store.Complete(ctx, l, res)
	}
	return b.complete(b, ctx, l, res)
}

func (b *broken) Release(ctx context.Context, l storage.Lease) error {
	if b.release == nil {
		return b.Store.Release(ctx, l)
	}
	return b.release(b, ctx, l)
}

// errs is true for every third call.
func (b *broken) errs() bool { return b.calls.Add(1)%3 == 0 }

// The checker finds these stores, although each single result looks right.
func TestBrokenStoresAreFound(t *testing.T) {
	t.Parallel()
	type test struct {
		load  load
		store *broken
	}
	testkit.Each(t, map[string]test{
		"grants two leases": {load{}, &broken{
			acquire: func(b *broken, ctx context.Context, c storage.Claim) (storage.Lease, *storage.Record, error) {
				lease, record, err := b.Store.Acquire(ctx, c)
				if record != nil && record.State == storage.InProgress && b.errs() {
					return storage.Lease{Claim: c, Attempt: 1}, nil, nil
				}
				return lease, record, err
			},
		}},
		"ends leases early": {load{}, &broken{
			acquire: func(b *broken, ctx context.Context, c storage.Claim) (storage.Lease, *storage.Record, error) {
				early := c
				early.LockTTL = time.Millisecond
				lease, record, err := b.Store.Acquire(ctx, early)
				if record == nil && err == nil {
					lease.Claim = c
				}
				return lease, record, err
			},
		}},
		"repeats attempt numbers": {load{short: true}, &broken{
			acquire: func(b *broken, ctx context.Context, c storage.Claim) (storage.Lease, *storage.Record, error) {
				lease, record, err := b.Store.Acquire(ctx, c)
				if lease.TookOver {
					lease.Attempt--
				}
				return lease, record, err
			},
		}},
		"loses results": {load{}, &broken{
			complete: func(b *broken, ctx context.Context, l storage.Lease, res storage.Result) error {
				if b.errs() {
					return nil
				}
				return b.Store.Complete(ctx, l, res)
			},
		}},
		"forgets sketches": {load{}, &broken{
			complete: func(b *broken, ctx context.Context, l storage.Lease, res storage.Result) error {
				if b.errs() {
					res.Sketch = nil
				}
				return b.Store.Complete(ctx, l, res)
			},
		}},
		"stores results late": {load{}, &broken{
			complete: func(b *broken, ctx context.Context, l storage.Lease, res storage.Result) error {
				b.late.Go(func() {
					<-time.After(2 * time.Millisecond)
					_ = b.Store.Complete(context.WithoutCancel(ctx), l, res) // no caller gets the result
				})
				return nil
			},
		}},
		"confirms a late result that it does not store": {load{short: true}, &broken{
			complete: func(b *broken, ctx context.Context, l storage.Lease, res storage.Result) error {
				if err := b.Store.Complete(ctx, l, res); !errors.Is(err, storage.ErrLeaseLost) {
					return err
				}
				return nil
			},
		}},
		"forgets released attempts": {load{short: true}, &broken{
			release: func(b *broken, ctx context.Context, l storage.Lease) error {
				err := b.Store.Release(ctx, l)
				if err == nil {
					_, err = b.Forget(ctx, l.Key, storage.RerunIsSafe)
				}
				return err
			},
		}},
		"releases steps to any request": {load{}, &broken{
			acquire: func(b *broken, ctx context.Context, c storage.Claim) (storage.Lease, *storage.Record, error) {
				own := c
				own.Fingerprint = "a"
				lease, record, err := b.Store.Acquire(ctx, own)
				if record == nil && err == nil {
					lease.Claim = c
				}
				return lease, record, err
			},
		}},
		"loses released steps": {load{}, &broken{
			release: func(b *broken, ctx context.Context, l storage.Lease) error {
				if b.errs() {
					l.Steps = ""
				}
				return b.Store.Release(ctx, l)
			},
		}},
		"lets every caller release": {load{short: true}, &broken{
			release: func(b *broken, ctx context.Context, l storage.Lease) error {
				_, err := b.Forget(ctx, l.Key, storage.RerunIsSafe)
				return err
			},
		}},
	}, func(t *testing.T, test test) {
		test.store.Store = memstore.New()
		defer test.store.late.Wait()
		const rounds = 20
		for seed := range uint64(rounds) {
			err := examine(context.WithoutCancel(t.Context()), test.store, test.load, seed)
			if err == nil {
				continue
			}
			if !strings.Contains(err.Error(), "no order of these calls is allowed") {
				t.Errorf("the checker found another error: %v", err)
			}
			return
		}
		t.Errorf("the checker found no contradiction in %d rounds", rounds)
	})
}

// An error without a deadline as its cause is a failure.
func TestUnexpectedErrorIsReported(t *testing.T) {
	t.Parallel()
	full := &broken{
		Store: memstore.New(),
		acquire: func(*broken, context.Context, storage.Claim) (storage.Lease, *storage.Record, error) {
			return storage.Lease{}, nil, storage.ErrStoreFull
		},
	}
	if err := examine(context.WithoutCancel(t.Context()), full, load{}, 1); !errors.Is(err, storage.ErrStoreFull) {
		t.Errorf("examine returned %v, want ErrStoreFull", err)
	}
}
