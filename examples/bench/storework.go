package main

import (
	"context"
	"errors"
	"time"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/examples/bench/internal/harness"
)

var errNotWon = errors.New("the key is taken")

var errNotFound = errors.New("there is no record")

// storeWork makes a request's calls at a store.
type storeWork struct {
	ctx     context.Context //nolint:containedctx // the context of a comparison, which ends first
	store   storage.Store
	workers int
}

func newClaim(key string) storage.Claim {
	return storage.Claim{
		Key: storage.Key("Bearer alice", "POST", "/payments", key), Token: storage.NewToken(), TTL: 30 * time.Second, Retain: 24 * time.Hour,
		Fingerprint: "sha256:6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b", TakeOver: true,
	}
}

func newClaims(n int) []storage.Claim {
	claims := make([]storage.Claim, n)
	for i := range claims {
		claims[i] = newClaim(newKey())
	}
	return claims
}

func newResult() storage.Result {
	return storage.Result{
		State: storage.Completed, Status: 201, Header: storage.Header{{Name: "Content-Type", Value: "application/json"}}, Body: answer,
		Retain: 24 * time.Hour,
	}
}

func (w storeWork) acquire(c storage.Claim) (storage.Lease, error) {
	lease, found, err := w.store.Acquire(w.ctx, c)
	if err == nil && found != nil {
		err = errNotWon
	}
	return lease, err
}

func (w storeWork) find(c storage.Claim) error {
	_, found, err := w.store.Acquire(w.ctx, c)
	if err == nil && (found == nil || found.State != storage.Completed) {
		err = errNotFound
	}
	return err
}

// finish makes finished records.
func (w storeWork) finish(claims []storage.Claim, result storage.Result) error {
	return harness.Parallel(w.workers, len(claims), func(_, i int) error {
		lease, err := w.acquire(claims[i])
		if err != nil {
			return err
		}
		return w.store.Complete(w.ctx, lease, result)
	})
}

// acquireArm claims new keys. The function before runs before each slice, and may be nil.
func (w storeWork) acquireArm(name string, before func() error) harness.Arm {
	var claims []storage.Claim
	return harness.Arm{
		Name: name, Most: 1 << 16,
		Prepare: func(n int) error { claims = newClaims(n); return call(before) },
		Run: func(n int) error {
			return harness.Parallel(w.workers, n, func(_, i int) error {
				_, err := w.acquire(claims[i])
				return err
			})
		},
	}
}

// settleArm completes leases that were claimed before the slice.
func (w storeWork) settleArm(name string, before func() error) harness.Arm {
	var leases []storage.Lease
	return harness.Arm{
		Name: name, Most: 1 << 16,
		Prepare: func(n int) error {
			if err := call(before); err != nil {
				return err
			}
			claims := newClaims(n)
			leases = make([]storage.Lease, n)
			return harness.Parallel(w.workers, n, func(_, i int) (err error) {
				leases[i], err = w.acquire(claims[i])
				return err
			})
		},
		Run: func(n int) error {
			result := newResult()
			return harness.Parallel(w.workers, n, func(_, i int) error { return w.store.Complete(w.ctx, leases[i], result) })
		},
	}
}

// firstArm claims new keys and settles them.
func (w storeWork) firstArm(name string, before func() error) harness.Arm {
	var claims []storage.Claim
	return harness.Arm{
		Name: name, Most: 1 << 16,
		Prepare: func(n int) error { claims = newClaims(n); return call(before) },
		Run:     func(n int) error { return w.finish(claims[:n], newResult()) },
	}
}

// replayArm reads finished records, one after another.
func (w storeWork) replayArm(name string, keys func(i int) storage.Claim) harness.Arm {
	return harness.Arm{Name: name, Run: func(n int) error {
		return harness.Parallel(w.workers, n, func(_, i int) error { return w.find(keys(i)) })
	}}
}

// always repeats one claim, for a replay of one key.
func always(c storage.Claim) func(int) storage.Claim { return func(int) storage.Claim { return c } }

func call(function func() error) error {
	if function == nil {
		return nil
	}
	return function()
}
