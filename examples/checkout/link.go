package main

import (
	"context"
	"errors"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

var errCut = errors.New("the process is dead: it has no connection to the store")

// link is one pod's connection to the store. The store outlives the pod; the link
// does not.
type link struct {
	pod   *pod
	store storage.Store
	storage.Inspector
}

var _ storage.Store = (*link)(nil)

// Acquire implements storage.Store.
func (l *link) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	c := request.Claim()
	if l.pod.isDead() {
		return storage.Lease{}, nil, errCut
	}
	lease, record, err := l.store.Acquire(ctx, c)
	if err == nil && record == nil {
		l.tellLease(ctx, lease.Attempt, c.LockTTL)
	}
	return lease, record, err
}

// Complete implements storage.Store.
func (l *link) Complete(ctx context.Context, lease storage.Lease, result storage.Result) error {
	if l.pod.isDead() {
		return errCut
	}
	return l.store.Complete(ctx, lease, result)
}

// Release implements storage.Store.
func (l *link) Release(ctx context.Context, lease storage.Lease) error {
	if l.pod.isDead() {
		return errCut
	}
	return l.store.Release(ctx, lease)
}

// Extend implements storage.Store.
func (l *link) Extend(ctx context.Context, lease storage.Lease, ttl time.Duration) error {
	if l.pod.isDead() {
		return errCut
	}
	err := l.store.Extend(ctx, lease, ttl)
	if err == nil {
		l.tellLease(ctx, lease.Attempt, ttl)
	}
	return err
}

// tellLease shows the end of the lease on the page, because no event reports the end.
func (l *link) tellLease(ctx context.Context, attempt uint64, ttl time.Duration) {
	until := time.Since(l.pod.shop.opened) + ttl
	l.pod.shop.tell(notice{
		What: "lease", Request: visitFrom(ctx).request, Pod: l.pod.name,
		Attempt: attempt, Until: until.Milliseconds(),
	})
}
