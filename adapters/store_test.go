package adapters_test

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
)

// countingStore counts what it is asked.
type countingStore struct {
	core.Store
	acquires, completes, releases atomic.Int64
}

func (s *countingStore) Acquire(ctx context.Context, c core.Claim) (core.Lease, *core.Record, error) {
	s.acquires.Add(1)
	return s.Store.Acquire(ctx, c)
}

func (s *countingStore) Complete(ctx context.Context, l core.Lease, r core.Result) error {
	s.completes.Add(1)
	return s.Store.Complete(ctx, l, r)
}

func (s *countingStore) Release(ctx context.Context, l core.Lease) error {
	s.releases.Add(1)
	return s.Store.Release(ctx, l)
}

// foundStore answers every claim with what somebody else has left there.
type foundStore struct {
	core.Store
	find func(core.Claim) (*core.Record, error)
}

func (s *foundStore) Acquire(_ context.Context, c core.Claim) (core.Lease, *core.Record, error) {
	record, err := s.find(c)
	return core.Lease{}, record, err
}

// holding is a store in which every key has this record, of an equal request.
func holding(record core.Record) core.Store {
	return &foundStore{memstore.New(), func(c core.Claim) (*core.Record, error) {
		found := record
		found.Fingerprint, found.Attempt = c.Fingerprint, 1
		return &found, nil
	}}
}

// holdingOther is a store in which every key has this record, of another payload.
func holdingOther(record core.Record) core.Store {
	return &foundStore{memstore.New(), func(core.Claim) (*core.Record, error) {
		found := record
		found.Fingerprint, found.Attempt = "sha256:other", 1
		return &found, nil
	}}
}

// failing is a store whose claims fail.
func failing(err error) core.Store {
	return &foundStore{memstore.New(), func(core.Claim) (*core.Record, error) { return nil, err }}
}

// inFlight is the record of a request that runs in another process.
var inFlight = core.Record{State: core.InProgress, LeaseLeft: 30 * time.Second}

// abandoned is the record of a request whose process has died.
var abandoned = core.Record{State: core.InProgress, LeaseLeft: -time.Second}
