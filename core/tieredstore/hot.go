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
	// fillWithin is how old the durable tier's word may be when the hot tier is
	// filled with it. Forget counts on it.
	fillWithin = 5 * time.Second
	// refillShare bounds how late a refilled record may be forgotten, as a part of
	// the time for which it was kept.
	refillShare = 100
	// shortest is the least that a store keeps anything for.
	shortest = time.Millisecond
	// closings is how often Forget tries to get in between those who fill a key.
	closings = 5
)

// hotTier is the hot store, and how it is dealt with: nothing that it does may
// fail a request.
type hotTier struct {
	store     storage.Store
	inspector storage.Inspector // the store, or nil when it is none
	timeout   time.Duration
	refillFor time.Duration
	health    health
}

// fillClaim is the hot tier's part of a claim: the right to fill. It is kept no
// longer than its lease, because nobody asks what became of it, and may take over
// what a store that once had no other behind it has left abandoned.
func fillClaim(c storage.Claim) storage.Claim {
	c.Retain, c.TakeOver = c.TTL, true
	return c
}

// look returns the finished record of a key, or else the right to fill it, or
// else neither: somebody else has the right, or the hot tier does not answer.
func (h *hotTier) look(ctx context.Context, c storage.Claim) (finished *storage.Record, fill *storage.Lease) {
	limit := h.timeout
	if deadline, limited := ctx.Deadline(); limited {
		limit = min(limit, time.Until(deadline)/2) // the rest is the durable tier's
	}
	var lease storage.Lease
	var found *storage.Record
	err := h.call(ctx, limit, func(ctx context.Context) (err error) {
		lease, found, err = h.store.Acquire(ctx, fillClaim(c))
		if errors.Is(err, storage.ErrCorruptRecord) && h.inspector != nil { // case 20
			_, forgetting := h.inspector.Forget(ctx, c.Key, storage.RerunIsSafe) // the durable tier says whether it is
			err = errors.Join(err, forgetting)
		}
		return err
	})
	switch {
	case err != nil:
		return nil, nil
	case found == nil:
		return nil, &lease
	case found.State == storage.InProgress, mayLackDigest(found, &c):
		return nil, nil
	default:
		return found, nil
	}
}

// mayLackDigest reports whether the durable tier may know better that the claim
// repeats the record's request: a process of a version before digests may have
// filled the hot tier without the digest (case 40).
func mayLackDigest(found *storage.Record, c *storage.Claim) bool {
	var none storage.Digest
	return found.Digest == none && c.Digest != none && found.Fingerprint != c.Fingerprint
}

// correct tells the hot tier, where the claim c has got the right to fill, what the
// durable tier holds for the key since asked or longer (case 18).
func (h *hotTier) correct(ctx context.Context, asked time.Time, c storage.Claim, fill storage.Lease, truth *storage.Record) {
	if truth.State == storage.InProgress {
		h.release(ctx, fill) // for its holder to fill
		return
	}
	fill.Fingerprint, fill.Digest, fill.Attempt = truth.Fingerprint, truth.Digest, truth.Attempt
	h.complete(ctx, asked, fill, storage.Result{
		State: truth.State, Status: truth.Status, Header: truth.Header, Body: truth.Body, Sketch: truth.Sketch, Retain: h.refill(c.Retain),
	})
}

// refill is how long a record may be kept whose end nobody knows. Retain is the
// asking claim's.
func (h *hotTier) refill(retain time.Duration) time.Duration {
	return max(shortest, min(h.refillFor, retain/refillShare))
}

// complete stores what the durable tier has agreed to since asked.
func (h *hotTier) complete(ctx context.Context, asked time.Time, l storage.Lease, res storage.Result) {
	if time.Since(asked) > fillWithin {
		return
	}
	_ = h.call(ctx, h.timeout, func(ctx context.Context) error {
		err := h.store.Complete(ctx, l, res)
		if errors.Is(err, storage.ErrLeaseLost) && l.Attempt > 1 {
			// The hot tier's own claim is a first attempt, whatever the durable tier's is.
			fill := l
			fill.Attempt = 1
			if h.store.Release(ctx, fill) == nil {
				err = h.store.Complete(ctx, l, res)
			}
		}
		if errors.Is(err, storage.ErrLeaseLost) && h.inspector != nil {
			err = h.replace(ctx, l, res)
		}
		return err
	})
}

// replace stores a result in the place of another answer, which the durable tier
// does not have any more. Where there is a claim instead, its holder will see to
// it, or Forget has closed the key.
func (h *hotTier) replace(ctx context.Context, l storage.Lease, res storage.Result) error {
	found, err := h.inspector.Lookup(ctx, l.Key)
	if err != nil || found == nil || found.State == storage.InProgress || answers(found, l, res) {
		return err
	}
	if _, err := h.inspector.Forget(ctx, l.Key, storage.RerunIsSafe); err != nil {
		return err
	}
	res.Retain = min(res.Retain, h.refill(l.Retain))
	return h.store.Complete(ctx, l, res)
}

// answers reports whether a record holds the result already.
func answers(r *storage.Record, l storage.Lease, res storage.Result) bool {
	same := r.State == res.State && r.Status == res.Status && r.Attempt == l.Attempt && r.Fingerprint == l.Fingerprint &&
		r.Digest == l.Digest && bytes.Equal(r.Sketch, res.Sketch)
	if res.State == storage.Unreplayable {
		return same
	}
	return same && bytes.Equal(r.Body, res.Body) && slices.Equal(r.Header, res.Header)
}

func (h *hotTier) release(ctx context.Context, fill storage.Lease) {
	_ = h.call(ctx, h.timeout, func(ctx context.Context) error { return h.store.Release(ctx, fill) })
}

func (h *hotTier) extend(ctx context.Context, l storage.Lease, ttl time.Duration) {
	l.TTL = ttl
	fill := storage.Lease{Claim: fillClaim(l.Claim), Attempt: 1}
	_ = h.call(ctx, h.timeout, func(ctx context.Context) error { return h.store.Extend(ctx, fill, ttl) })
}

// call makes one call within a time of its own. Its error is known to the logger
// when it returns: callers only have to know that there was one.
func (h *hotTier) call(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !h.health.mayTry() {
		return errResting
	}
	var limited lazycontext.Context
	defer limited.Release()
	err := call(limited.Limit(ctx, time.Now().Add(limit)))
	switch {
	case err == nil, errors.Is(err, storage.ErrLeaseLost):
		h.health.answered(ctx, nil)
	case errors.Is(err, storage.ErrCorruptRecord), errors.Is(err, storage.ErrStoreFull):
		h.health.answered(ctx, err) // about one key, or new ones: it still replays the others
	case ctx.Err() != nil:
		// The caller has no more time, which says nothing about the store.
	default:
		h.health.failed(ctx, err)
	}
	return err
}

// close empties a key, and keeps everybody from filling it who has asked the
// durable tier before: they are done when the claim that stands there has ended.
// It does not care about the tier's health: its caller wants to know.
func (h *hotTier) close(ctx context.Context, key string) error {
	stand := fillWithin + h.timeout
	closing := storage.Claim{Key: key, Token: storage.NewToken(), Fingerprint: "closed by Forget", TTL: stand, Retain: stand}
	for range closings {
		if _, err := h.inspector.Forget(ctx, key, storage.RerunIsSafe); err != nil {
			return err
		}
		_, found, err := h.store.Acquire(ctx, closing)
		if err != nil || found == nil {
			return err
		}
		// Somebody was in between.
	}
	return fmt.Errorf("others were faster %d times", closings)
}
