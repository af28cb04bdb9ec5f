package linearizable

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// shortest and longest bound the short leases and the pauses between calls.
const shortest, longest = time.Millisecond, 3 * time.Millisecond

// caller makes one call after another with the key of a history.
type caller struct {
	*history
	id     int
	random *rand.Rand
}

// live is one request: it claims the key, may renew its lease, may settle it, and may
// settle it again too late.
func (c *caller) live() {
	claim := storage.Claim{
		Key: c.key, Token: storage.NewToken(), Fingerprint: "a", LockTTL: lasting, Retain: 2 * lasting, TakeOver: !c.once(4),
	}
	if c.once(6) {
		claim.Fingerprint = "b"
	}
	answered := c.acquire(claim)
	if answered.unknown && c.once(2) {
		// Like the engine, release the claim that may have succeeded.
		c.settle(call{method: release, lease: storage.Lease{Claim: claim, Attempt: 1}})
		return
	}
	if answered.unknown {
		answered = c.acquire(claim)
	}
	if !answered.won {
		c.pause()
		return
	}
	lease := storage.Lease{Claim: claim, Attempt: answered.attempt, TookOver: answered.tookOver, Steps: answered.steps}
	if c.once(3) {
		lease.Steps += "step\n"
	}
	for range c.random.IntN(3) {
		c.pause()
		c.keep(lease)
	}
	c.pause()
	for range 1 + c.random.IntN(2) {
		c.end(lease)
	}
}

// keep renews a lease.
func (c *caller) keep(l storage.Lease) {
	if c.once(3) {
		c.acquire(l.Claim)
		return
	}
	c.settle(call{method: extend, lease: l, short: c.load.short && c.once(2)})
}

// end settles a lease, or abandons it.
func (c *caller) end(l storage.Lease) {
	switch c.random.IntN(8) {
	case 0:
		c.settle(call{method: complete, lease: l, body: "answer of " + l.Token.String()[:4]}) // the same in each repetition
	case 1, 2, 3, 4:
		c.settle(call{method: release, lease: l})
	default:
		c.pause()
	}
}

// look reads the record without taking it over, and without a short deadline.
func (c *caller) look() {
	claim := storage.Claim{Key: c.key, Token: storage.NewToken(), Fingerprint: "c", LockTTL: lasting, Retain: 2 * lasting}
	c.ask(call{method: acquire, lease: storage.Lease{Claim: claim}}, patience)
}

func (c *caller) acquire(claim storage.Claim) outcome {
	short := c.load.short && c.once(2)
	if short {
		claim.LockTTL = c.upTo(longest)
	}
	return c.ask(call{method: acquire, lease: storage.Lease{Claim: claim}, short: short}, c.deadline())
}

func (c *caller) settle(what call) { c.ask(what, c.deadline()) }

// ask makes the call and records it.
func (c *caller) ask(what call, limit time.Duration) outcome {
	ctx, cancel := context.WithTimeout(c.ctx, limit)
	defer cancel()
	called := time.Since(c.start)
	answered, err := c.perform(ctx, what)
	if err != nil && (errors.Is(err, context.DeadlineExceeded) && limit < patience) {
		answered, err = outcome{unknown: true}, nil
	}
	c.record(c.id, what, called, time.Since(c.start), answered, err)
	return answered
}

func (c *caller) perform(ctx context.Context, what call) (outcome, error) {
	var err error
	switch l := what.lease; what.method {
	case acquire:
		return c.claim(ctx, l.Claim)
	case complete:
		err = c.store.Complete(ctx, l, storage.Result{
			State: storage.Completed, Status: 201, Body: []byte(what.body), Sketch: []byte(sketchOf(what.body)), Retain: lasting,
		})
	case release:
		err = c.store.Release(ctx, l)
	case extend:
		ttl := lasting
		if what.short {
			ttl = c.upTo(longest)
		}
		err = c.store.Extend(ctx, l, ttl)
	}
	if errors.Is(err, storage.ErrLeaseLost) {
		return outcome{lost: true}, nil
	}
	return outcome{}, err
}

func (c *caller) claim(ctx context.Context, claim storage.Claim) (outcome, error) {
	lease, record, err := c.store.Acquire(ctx, claim)
	switch {
	case err != nil:
		return outcome{}, err
	case record == nil && lease.Claim != claim:
		return outcome{}, fmt.Errorf("the lease is for %+v", lease.Claim)
	case record == nil:
		return outcome{won: true, attempt: lease.Attempt, tookOver: lease.TookOver, steps: lease.Steps}, nil
	default:
		return outcome{
			found: record.State, attempt: record.Attempt, fingerprint: record.Fingerprint, abandoned: record.Abandoned(),
			body: string(record.Body), sketch: string(record.Sketch), steps: record.Steps,
		}, nil
	}
}

// once is true in one of n calls.
func (c *caller) once(n int) bool { return c.random.IntN(n) == 0 }

// upTo is a random short time.
func (c *caller) upTo(most time.Duration) time.Duration {
	return shortest + time.Duration(c.random.Int64N(int64(most-shortest)))
}

// deadline is sometimes a short deadline, if the load has any.
func (c *caller) deadline() time.Duration {
	if c.load.hurry > 0 && c.once(8) {
		return time.Duration(c.random.Int64N(int64(c.load.hurry)))
	}
	return patience
}

func (c *caller) pause() {
	if c.once(2) {
		timer := time.NewTimer(c.upTo(longest))
		defer timer.Stop()
		<-timer.C
	}
}
