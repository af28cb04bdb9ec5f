package explore

import (
	"context"
	"errors"
	"time"

	"github.com/oncekey/oncekey/core/internal/machine"
	"github.com/oncekey/oncekey/core/storage"
)

// The errors of an unreliable network.
var (
	errRefused = errors.New("connection refused")
	errBroken  = errors.New("connection broken")
	errGone    = errors.New("the process is gone")
	errClient  = errors.New("the store's client panicked")
)

// lasting are the errors of a store that is no outage: FailOpen does not apply.
var lasting = map[Mode]error{Corrupt: storage.ErrCorruptRecord, Unreadable: storage.ErrUnreadable, Forbidden: storage.ErrStoreForbidden}

// link connects a pod to the simulated store. It fails as the plan says, and honours
// contexts exactly: a call returns when its context ends, and at once if the context
// has already ended.
type link struct {
	world *world
	pod   *pod
}

var (
	_ storage.Transactor = (*link)(nil)
	_ machine.Simulated  = (*link)(nil)
)

// WallClock implements machine.Simulated.
func (l *link) WallClock() machine.WallClock { return l.pod.wall }

// caller is the request that a call belongs to.
type caller struct {
	request int
	inner   bool // the call comes from core.Do inside the handler
}

func (l *link) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	if found := l.near(ctx, request); found != nil {
		return storage.Lease{}, found, nil
	}
	c := request.Claim()
	who := l.world.introduce(ctx, l.pod, c)
	v := l.call(ctx, Acquire, who, func() verdict { return l.world.store.acquire(c, who.request) })
	if v.err != nil {
		return storage.Lease{}, nil, v.err
	}
	return v.lease, v.record, nil
}

func (l *link) Complete(ctx context.Context, lease storage.Lease, res storage.Result) error {
	if l.world.plan.sabotage == losesResults {
		return nil
	}
	who := l.world.callerOf(lease.Token)
	if l.world.plan.sabotage == sendsRefusedAgain && res.State == storage.Unreplayable {
		res.State = storage.Completed
	}
	return l.call(ctx, Complete, who, func() verdict { return l.world.store.complete(lease, res, who.request, Complete).aged(lease) }).err
}

func (l *link) Release(ctx context.Context, lease storage.Lease) error {
	who := l.world.callerOf(lease.Token)
	lease.Steps = l.world.newer(lease.Steps, who)
	return l.call(ctx, Release, who, func() verdict { return l.world.store.release(lease, who.request).aged(lease) }).err
}

func (l *link) Extend(ctx context.Context, lease storage.Lease, ttl time.Duration) error {
	who := l.world.callerOf(lease.Token)
	lease.Steps = l.world.newer(lease.Steps, who)
	return l.call(ctx, extension(ttl), who, func() verdict { return l.world.store.extend(lease, ttl, who.request).aged(lease) }).err
}

// extension is the kind of an Extend: an Extend of zero leaves the key abandoned.
func extension(ttl time.Duration) Op {
	if ttl > 0 {
		return Extend
	}
	return Abandon
}
