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
		State: storage.Completed, Status: 201, Header: storage.Header{{Name: "Content-Type", Value: "application/json"}}, Body: response,
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

// claimsArm prepares a new claim for each piece of work. The function before runs before
// each slice, and may be nil.
func (w storeWork) claimsArm(name string, before func() error, each func(storage.Claim) error) harness.Arm {
	var claims []storage.Claim
	arm := harness.Timed(name, w.workers, func(i int) error { return each(claims[i]) })
	arm.Most = 1 << 16
	arm.Prepare = func(n int) error { claims = newClaims(n); return call(before) }
	return arm
}

// acquireArm claims new keys.
func (w storeWork) acquireArm(name string, before func() error) harness.Arm {
	return w.claimsArm(name, before, func(c storage.Claim) error { _, err := w.acquire(c); return err })
}

// firstArm claims new keys and settles them.
func (w storeWork) firstArm(name string, before func() error) harness.Arm {
	result := newResult()
	return w.claimsArm(name, before, func(c storage.Claim) error {
		lease, err := w.acquire(c)
		if err != nil {
			return err
		}
		return w.store.Complete(w.ctx, lease, result)
	})
}

// settleArm completes leases that were claimed before the slice.
func (w storeWork) settleArm(name string, before func() error) harness.Arm {
	var leases []storage.Lease
	result := newResult()
	arm := harness.Timed(name, w.workers, func(i int) error { return w.store.Complete(w.ctx, leases[i], result) })
	arm.Most = 1 << 16
	arm.Prepare = func(n int) error {
		if err := call(before); err != nil {
			return err
		}
		claims := newClaims(n)
		leases = make([]storage.Lease, n)
		return harness.Parallel(w.workers, n, func(_, i int) (err error) {
			leases[i], err = w.acquire(claims[i])
			return err
		})
	}
	return arm
}

// replayArm reads finished records.
func (w storeWork) replayArm(name string, keys func(i int) storage.Claim) harness.Arm {
	return harness.Timed(name, w.workers, func(i int) error { return w.find(keys(i)) })
}

// always repeats one claim, for a replay of one key.
func always(c storage.Claim) func(int) storage.Claim { return func(int) storage.Claim { return c } }

func call(function func() error) error {
	if function == nil {
		return nil
	}
	return function()
}
