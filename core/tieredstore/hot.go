package tieredstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncekey/oncekey/core/internal/lazycontext"
	"github.com/oncekey/oncekey/core/storage"
)

const (
	// fillWithin is the maximum age of the durable tier's result when it is written
	// to the hot tier. Forget relies on this bound.
	fillWithin = 5 * time.Second
	// refillShare bounds how late a refilled record may be dropped when clocks
	// disagree, as a part of the claim's Retain.
	refillShare = 100
	// shortest is the shortest time for which a store keeps a record.
	shortest = time.Millisecond
	// closings is how often Forget or Settle tries to close a key that other callers keep
	// filling.
	closings = 5
	// closed is the fingerprint of the claim that closes a key.
	closed = "closed by Forget"
)

// hotTier is the hot store and the rules for its use. No failure of the hot store may
// fail a request.
type hotTier struct {
	store     storage.Store
	inspector storage.Inspector // the store, or nil if the store is no Inspector
	timeout   time.Duration
	refillFor time.Duration
	health    health
}

// fillClaim returns the hot tier's form of a claim: the right to fill. It is kept no
// longer than its lease and not remembered, because the later fate does not matter. The
// claim may take over abandoned claims, which a store that was once used alone can have
// left.
func fillClaim(c storage.Claim) storage.Claim {
	c.Retain, c.Remember, c.Origin, c.TakeOver = c.LockTTL, 0, storage.Origin{}, true
	return c
}

// fillRequest is the hot tier's form of a request.
type fillRequest struct{ storage.Request }

// Claim implements [storage.Request].
func (r fillRequest) Claim() storage.Claim { return fillClaim(r.Request.Claim()) }

// fillLease returns the right to fill of the caller that holds a lease.
func fillLease(l storage.Lease) storage.Lease {
	return storage.Lease{Claim: fillClaim(l.Claim), Attempt: 1}
}

// look returns the finished record of a key, or the right to fill it. It returns
// neither if another caller has that right or the hot tier does not respond.
func (h *hotTier) look(ctx context.Context, request storage.Request) (finished *storage.Record, fill *storage.Lease) {
	limit := h.timeout
	if deadline, limited := ctx.Deadline(); limited {
		limit = min(limit, time.Until(deadline)/2) // the rest of the time is for the durable tier
	}
	var lease storage.Lease
	var found *storage.Record
	err := h.call(ctx, limit, func(ctx context.Context) (err error) {
		lease, found, err = h.store.Acquire(ctx, fillRequest{request})
		if errors.Is(err, storage.ErrCorruptRecord) && h.inspector != nil {
			_, forgetting := h.inspector.Forget(ctx, request.Claim().Key, storage.RerunIsSafe) // the durable tier decides whether the key is finished
			err = errors.Join(err, forgetting)
		}
		return err
	})
	switch {
	case err != nil:
		return nil, nil
	case found == nil:
		return nil, &lease
	case isUnfinished(found):
		return nil, nil
	default:
		return original(found), nil
	}
}

// isUnfinished reports whether only the durable tier knows the fate of a key. This
// store leaves no tombstones and no steps in the hot tier, but a store that was once used
// alone can have left some.
func isUnfinished(found *storage.Record) bool {
	return !isFinished(found) && !(found.State == storage.Expired && found.Status != 0)
}

// isFinished reports whether a record has an outcome.
func isFinished(found *storage.Record) bool {
	return found.State >= storage.Completed && found.State <= storage.Unreplayable
}

// correct writes the durable tier's record to the hot tier, where claim c has got the
// right to fill. asked is a time before the record was read.
func (h *hotTier) correct(ctx context.Context, asked time.Time, c storage.Claim, fill storage.Lease, truth *storage.Record) {
	retain := h.refill(c.Retain)
	if !truth.Expires.IsZero() { // the write may take until the timeout
		retain = min(retain, time.Until(truth.Expires)-h.timeout)
	}
	if !isFinished(truth) || retain < shortest {
		h.release(ctx, fill) // the running holder fills, or there is nothing to keep
		return
	}
	fill.Fingerprint, fill.Digest = truth.Fingerprint, truth.Digest
	fill.Origin = withRun(truth.Origin, truth.Attempt, truth.Created, truth.Finished, truth.Expires)
	h.complete(ctx, asked, fill, storage.Result{
		State: truth.State, Status: truth.Status, Header: truth.Header, Body: truth.Body, Sketch: truth.Sketch, Retain: retain,
	})
}

// refill returns how long to keep a record whose end is unknown by this process's
// clock. retain is the Retain of the current claim.
func (h *hotTier) refill(retain time.Duration) time.Duration {
	return max(shortest, min(h.refillFor, retain/refillShare))
}

// settle stores a result that the durable tier has kept for res.Retain since asked, or
// later. The hot tier keeps it for less, so that the durable record ends last.
func (h *hotTier) settle(ctx context.Context, asked time.Time, l storage.Lease, res storage.Result) {
	res.Remember = 0
	if res.Retain -= time.Since(asked) + h.timeout; res.Retain >= shortest {
		h.complete(ctx, asked, l, res)
	}
}

// complete stores a result that the durable tier has had since asked. The attempt number
// is the durable tier's, whose claim is normally attempt 1 in the hot tier, or the hot
// tier's own.
func (h *hotTier) complete(ctx context.Context, asked time.Time, l storage.Lease, res storage.Result) {
	if time.Since(asked) > fillWithin {
		return
	}
	_ = h.call(ctx, h.timeout, func(ctx context.Context) error {
		err := h.store.Complete(ctx, l, res)
		if errors.Is(err, storage.ErrLeaseLost) && l.Attempt > 1 && h.store.Release(ctx, fillLease(l)) == nil {
			err = h.store.Complete(ctx, l, res)
		}
		if errors.Is(err, storage.ErrLeaseLost) && h.inspector != nil {
			err = h.replace(ctx, l, res)
		}
		return err
	})
}

// replace stores a result in the place of an older response that the durable tier no
// longer has. It leaves a claim alone: either the claim's holder fills the key, or
// Forget has closed the key.
func (h *hotTier) replace(ctx context.Context, l storage.Lease, res storage.Result) error {
	found, err := h.inspector.Lookup(ctx, l.Key)
	if err != nil || found == nil || found.State == storage.InProgress || holds(found, l, res) {
		return err
	}
	if _, err := h.inspector.Forget(ctx, l.Key, storage.RerunIsSafe); err != nil {
		return err
	}
	if short := h.refill(l.Retain); short < res.Retain {
		res.Retain, l.Origin = short, withRun(l.Origin, l.Attempt) // so its end is not the durable record's
	}
	return h.store.Complete(ctx, l, res)
}

// holds reports whether a record already has the result.
func holds(r *storage.Record, l storage.Lease, res storage.Result) bool {
	same := r.State == res.State && r.Status == res.Status && r.Fingerprint == l.Fingerprint && r.Digest == l.Digest &&
		bytes.Equal(r.Sketch, res.Sketch)
	if res.State == storage.Unreplayable {
		return same
	}
	return same && bytes.Equal(r.Body, res.Body) && slices.Equal(r.Header, res.Header)
}

func (h *hotTier) release(ctx context.Context, fill storage.Lease) {
	_ = h.call(ctx, h.timeout, func(ctx context.Context) error { return h.store.Release(ctx, fill) })
}

func (h *hotTier) extend(ctx context.Context, l storage.Lease, ttl time.Duration) {
	l.LockTTL = ttl
	fill := fillLease(l)
	fill.Age = l.Age
	_ = h.call(ctx, h.timeout, func(ctx context.Context) error { return h.store.Extend(ctx, fill, ttl) })
}

// call makes one call with its own time limit, and logs the error. Callers only need
// to know that there was an error.
func (h *hotTier) call(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !h.health.mayTry() {
		return errResting
	}
	var limited lazycontext.Context
	defer limited.Release()
	err := call(limited.Limit(ctx, limit))
	switch {
	case err == nil, errors.Is(err, storage.ErrLeaseLost):
		h.health.responded(ctx, nil)
	case errors.Is(err, storage.ErrCorruptRecord), errors.Is(err, storage.ErrStoreFull), errors.Is(err, storage.ErrNotStorable):
		h.health.responded(ctx, err) // concerns one key, or new keys: the tier still replays the others
	case ctx.Err() != nil:
		// The caller's time is over. The tier may be healthy.
	default:
		h.health.failed(ctx, err)
	}
	return err
}

// close empties a key and keeps other callers from filling it. Callers that read the
// durable tier before the close may try to fill until fillWithin has passed; the
// closing claim lasts longer. close ignores the tier's health, because its caller
// needs the result.
func (h *hotTier) close(ctx context.Context, key string) error {
	stand := fillWithin + h.timeout
	closing := storage.Claim{Key: key, Token: storage.NewToken(), Fingerprint: closed, LockTTL: stand, Retain: stand}
	for range closings {
		if _, err := h.inspector.Forget(ctx, key, storage.RerunIsSafe); err != nil {
			return err
		}
		_, found, err := h.store.Acquire(ctx, closing)
		if err != nil || found == nil || found.State == storage.InProgress && found.Fingerprint == closed {
			return err // another operator's close began after this one
		}
		// Another caller claimed the key in between.
	}
	return fmt.Errorf("other callers claimed the key %d times", closings)
}
