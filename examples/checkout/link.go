package main

import (
	"context"
	"errors"
	"time"

	"github.com/oncekey/oncekey/core"
)

var errCut = errors.New("the process is dead: it has no connection to the store")

// link is one pod's connection to the store. The store outlives the pod; the link
// does not.
type link struct {
	pod   *pod
	store core.Store
}

var _ core.Store = (*link)(nil)

// Acquire implements core.Store.
func (l *link) Acquire(ctx context.Context, c core.Claim) (core.Lease, *core.Record, error) {
	if l.pod.isDead() {
		return core.Lease{}, nil, errCut
	}
	lease, record, err := l.store.Acquire(ctx, c)
	if err == nil && record == nil {
		l.tellLease(ctx, lease.Attempt, c.TTL)
	}
	return lease, record, err
}

// Complete implements core.Store.
func (l *link) Complete(ctx context.Context, lease core.Lease, result core.Result) error {
	if l.pod.isDead() {
		return errCut
	}
	return l.store.Complete(ctx, lease, result)
}

// Release implements core.Store.
func (l *link) Release(ctx context.Context, lease core.Lease) error {
	if l.pod.isDead() {
		return errCut
	}
	return l.store.Release(ctx, lease)
}

// Extend implements core.Store.
func (l *link) Extend(ctx context.Context, lease core.Lease, ttl time.Duration) error {
	if l.pod.isDead() {
		return errCut
	}
	err := l.store.Extend(ctx, lease, ttl)
	if err == nil {
		l.tellLease(ctx, lease.Attempt, ttl)
	}
	return err
}

// tellLease shows until when the lease runs: of that there is no event.
func (l *link) tellLease(ctx context.Context, attempt uint64, ttl time.Duration) {
	until := time.Since(l.pod.shop.opened) + ttl
	l.pod.shop.tell(notice{
		What: "lease", Request: visitFrom(ctx).request, Pod: l.pod.name,
		Attempt: attempt, Until: until.Milliseconds(),
	})
}
