package handlertest

import (
	"context"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// link is a process's connection to the store.
type link struct{ process *process }

var _ storage.Limiter = (*link)(nil)

// Acquire implements storage.Store.
func (l *link) Acquire(ctx context.Context, request storage.Request) (lease storage.Lease, record *storage.Record, err error) {
	c := request.Claim()
	err = l.call(acquire, "store: Acquire", func() (err error) {
		lease, record, err = l.process.world.memory.Acquire(ctx, c)
		if err == nil && record == nil {
			l.process.world.granted(lease)
		}
		return err
	})
	if err != nil {
		return storage.Lease{}, nil, err
	}
	return lease, record, nil
}

// Complete implements storage.Store.
func (l *link) Complete(ctx context.Context, lease storage.Lease, result storage.Result) error {
	return l.call(settle, "store: Complete", func() error { return l.process.world.memory.Complete(ctx, lease, result) })
}

// Release implements storage.Store.
func (l *link) Release(ctx context.Context, lease storage.Lease) error {
	return l.call(settle, "store: Release", func() error { return l.process.world.memory.Release(ctx, lease) })
}

// Extend implements storage.Store.
func (l *link) Extend(ctx context.Context, lease storage.Lease, ttl time.Duration) error {
	return l.call(settle, "store: Extend", func() error { return l.process.world.memory.Extend(ctx, lease, ttl) })
}

// Admit implements storage.Limiter, for an engine with core.WithScopeLimit. It is no point of
// the run, because the claim just before it is one.
func (l *link) Admit(ctx context.Context, p storage.Place, ttl time.Duration, limit storage.ScopeLimit) (storage.Admission, error) {
	if err := l.reachable(); err != nil {
		return storage.Admission{}, err
	}
	return l.process.world.memory.Admit(ctx, p, ttl, limit)
}

// Keep implements storage.Limiter.
func (l *link) Keep(ctx context.Context, p storage.Place, ttl time.Duration) error {
	if err := l.reachable(); err != nil {
		return err
	}
	return l.process.world.memory.Keep(ctx, p, ttl)
}

// reachable returns the reason why a call does not reach the store, or nil.
func (l *link) reachable() error {
	switch {
	case l.process.isDead():
		return errKilled
	case l.process.world.isOut():
		return errUnreachable
	default:
		return nil
	}
}

// granted notes the lease of the request. A call of core.Do inside the handler has another
// key.
func (w *World) granted(l storage.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lease.Key == "" || w.lease.Key == l.Key {
		w.lease = l
	}
}

// call makes one call to the store, with the fault of the run.
func (l *link) call(k kind, name string, do func() error) error {
	w := l.process.world
	if l.process.isDead() {
		return errKilled
	}
	f, failing := w.arrive(k, name)
	switch {
	case !failing && w.isOut():
		return errUnreachable
	case f.when == before && f.what != leaseLost:
		return l.fail(k, f)
	case f.when == before:
		w.usurp()
	}
	err := do()
	if f.when == after {
		return l.fail(k, f)
	}
	return err
}

// fail ends the call with the fault: the process is killed, or the store is lost.
func (l *link) fail(k kind, f fault) error {
	if f.what == killed {
		return l.process.die(k)
	}
	return l.process.world.loseStore()
}

// loseStore begins the outage.
func (w *World) loseStore() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outage = time.Now().Add(outage)
	return errUnreachable
}

func (w *World) isOut() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Before(w.outage)
}
