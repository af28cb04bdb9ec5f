package examples_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
)

// consumer works through a queue as it would through a production queue. Several goroutines may share a consumer.
type consumer struct {
	engine *core.Engine
	queue  *queue
	charge func(context.Context, order) (Receipt, error) // marks the run executed: see cashier
}

// consume works until the queue is empty or ctx ends.
func (c *consumer) consume(ctx context.Context) {
	for ctx.Err() == nil {
		message, ok := c.queue.receive()
		if !ok {
			return
		}
		if c.handle(ctx, message) {
			c.queue.acknowledge(message)
		}
	}
}

// handle charges the message's order, and reports whether the message is done.
func (c *consumer) handle(ctx context.Context, message message) (done bool) {
	call := core.Call{Scope: "orders", Name: "charge", Key: message.id, Input: message.order}
	_, _, err := core.Do(ctx, c.engine, call, func(ctx context.Context) (Receipt, error) {
		return c.charge(ctx, message.order)
	})
	var refused *core.RefusedError
	switch {
	case err == nil, errors.Is(err, core.ErrNotReplayable), errors.Is(err, core.ErrKeyExpired):
		return true
	case failure.IsPermanent(err): // a retry cannot succeed: set the message aside
		return true
	case errors.As(err, &refused) && refused.Problem.RetryAfter == 0: // outcome unknown, another input, a wrong key: for a person
		c.queue.setAside(message)
		return true
	default: // in progress elsewhere, the store unreachable, or a failure: let the queue deliver the message again
		return false
	}
}

// message is a delivery of an order.
type message struct {
	id    string
	order order
}

// queue delivers each message until a consumer acknowledges the message: at least once,
// sometimes to two consumers. Sometimes the queue loses an acknowledgement.
type queue struct {
	mu           sync.Mutex
	luck         *rand.Rand
	waiting      []message
	open         map[string]bool // not acknowledged yet
	aside        []message       // for a person
	deliveries   int
	acknowledged int
}

func newQueue(messages int, seed uint64) *queue {
	q := &queue{luck: rand.New(rand.NewPCG(seed, 0)), open: make(map[string]bool)}
	for n := range messages {
		m := message{id: fmt.Sprintf("message-%d", n), order: order{100 + n}}
		q.waiting, q.open[m.id] = append(q.waiting, m), true
	}
	return q
}

// receive returns the next delivery, and false when every message is acknowledged. A
// delivered message stays in the queue, behind the others.
func (q *queue) receive() (message, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) > 0 {
		m := q.waiting[0]
		q.waiting = q.waiting[1:]
		if !q.open[m.id] {
			continue
		}
		q.waiting = append(q.waiting, m)
		if q.luck.IntN(10) == 0 { // to two consumers at once
			q.waiting = append([]message{m}, q.waiting...)
		}
		q.deliveries++
		return m, true
	}
	return message{}, false
}

// acknowledge takes a message off the queue, unless the acknowledgement gets lost.
func (q *queue) acknowledge(m message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open[m.id] && q.luck.IntN(3) > 0 {
		delete(q.open, m.id)
		q.acknowledged++
	}
}

// setAside keeps a message for a person.
func (q *queue) setAside(m message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.aside = append(q.aside, m)
}

// cashier takes the money. It keeps no idempotency keys: a second call charges a second
// time.
type cashier struct {
	mu      sync.Mutex
	calls   int
	charged []int // the amounts of the orders
}

var (
	errDeclined = errors.New("card declined")
	errBusy     = errors.New("provider is busy")
)

// charge declines every tenth order permanently, and is too busy for every seventh call.
func (p *cashier) charge(ctx context.Context, o order) (Receipt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	switch {
	case o.Amount%10 == 0:
		return Receipt{}, failure.Permanent(errDeclined)
	case p.calls%7 == 0:
		return Receipt{}, failure.Retryable(errBusy)
	}
	p.charged = append(p.charged, o.Amount)
	failure.MarkExecuted(ctx) // the point of no return
	return Receipt{o.Amount}, nil
}

// Each message has one effect, with any order of deliveries, to four consumers.
func TestOneChargeAnOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cashier := &cashier{}
			c := &consumer{engine: newEngine(t), queue: newQueue(100, seed), charge: cashier.charge}
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() { c.consume(ctx) })
			}
			all.Wait()
			if err := ctx.Err(); err != nil || c.queue.acknowledged != 100 || c.queue.deliveries <= 130 {
				t.Errorf("%v: %d messages are acknowledged after %d deliveries, want 100 after more than 130", err, c.queue.acknowledged, c.queue.deliveries)
			}
			charges := map[int]bool{}
			for _, amount := range cashier.charged {
				charges[amount] = true
			}
			if len(cashier.charged) != 90 || len(charges) != 90 {
				t.Errorf("%d charges of %d orders, want one for each of the 90 that are not declined", len(cashier.charged), len(charges))
			}
		})
	}
}

// Case 71: a message is delivered again to another process, after the first process failed after the charge. There is one
// charge, and the message is set aside.
func TestBreakAfterTheCharge(t *testing.T) {
	t.Parallel()
	errBug := errors.New("a bug after the charge")
	testkit.Each(t, map[string]func() error{
		"an error": func() error { return errBug },
		"a panic":  func() error { panic(errBug) },
	}, func(t *testing.T, bug func() error) {
		store, cashier := memstore.New(), &cashier{}
		var consumers []*consumer
		for range 2 {
			engine, err := core.New(store, core.SharedScope)
			testkit.Must(t, err)
			consumers = append(consumers, &consumer{engine: engine, charge: func(ctx context.Context, o order) (Receipt, error) {
				if _, err := cashier.charge(ctx, o); err != nil {
					return Receipt{}, err
				}
				return Receipt{}, bug()
			}})
		}
		done := false
		for delivery := range 6 {
			done = deliver(t.Context(), consumers[delivery%2], message{"message-1", order{101}})
		}
		if len(cashier.charged) != 1 || !done {
			t.Errorf("charged %v, done %t, want one charge and a finished message", cashier.charged, done)
		}
	})
}

// deliver survives a panic, like a group of consumer processes.
func deliver(ctx context.Context, c *consumer, m message) (done bool) {
	defer func() { _ = recover() }()
	return c.handle(ctx, m)
}

// An order that was charged under the id of a message, and has another amount now, is for a person. So is a message without an id.
func TestMessageThatChanged(t *testing.T) {
	t.Parallel()
	cashier := &cashier{}
	c := &consumer{engine: newEngine(t), queue: newQueue(0, 0), charge: cashier.charge}
	for _, m := range []message{{"message-1", order{101}}, {"message-1", order{102}}, {"", order{103}}} {
		if !c.handle(t.Context(), m) {
			t.Errorf("the message %v is not done", m)
		}
	}
	if len(cashier.charged) != 1 || len(c.queue.aside) != 2 {
		t.Errorf("charged %v, and set aside %v, want one and two", cashier.charged, c.queue.aside)
	}
}
