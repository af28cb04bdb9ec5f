// Command consumer takes orders from a queue that delivers each message at least
// once, and charges each order exactly once.
//
//	go run ./examples/consumer
//
// The queue is a small model of a production queue: a message without an acknowledgement
// is delivered again, acknowledgements get lost, and two consumers may hold the same
// message. The consumers work as they would at a real queue. core.Do runs the charge
// under the message's id, and its error decides whether to acknowledge.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

func main() {
	messages := flag.Int("messages", 100, "how many orders are in the queue")
	seed := flag.Uint64("seed", 1, "of the queue's bad luck")
	flag.Parse()
	if err := run(os.Stdout, *messages, *seed); err != nil {
		slog.Error("consumer", "error", err)
		os.Exit(1)
	}
}

// order is the content of a message.
type order struct {
	ID     string `json:"id"`
	Amount int    `json:"amount"`
}

// receipt is the result of a charge.
type receipt struct {
	Number int `json:"number"`
}

func run(out io.Writer, messages int, seed uint64) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	engine, err := core.New(memstore.New(), core.SharedScope, core.WithObserver(event.Log(slog.New(slog.DiscardHandler))))
	if err != nil {
		return err
	}
	queue, provider := newQueue(messages, seed), &provider{}
	consumer := &consumer{engine: engine, queue: queue, charge: provider.charge, policy: engine.MustRoute(policy.TTLHours(7 * 24))}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { consumer.consume(ctx) })
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d orders, %d deliveries, %d charges, %d declined, %d acknowledged\n",
		messages, queue.deliveries, len(provider.charged), consumer.declined, queue.acknowledged)
	return engine.Shutdown(ctx)
}

// consumer works through a queue. Several goroutines may share a consumer.
type consumer struct {
	engine *core.Engine
	queue  *queue
	charge func(context.Context, order) (receipt, error) // marks the run executed: see provider
	policy *core.Route

	mu       sync.Mutex
	declined int // orders with a permanent error, each counted once
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
func (c *consumer) handle(ctx context.Context, message message) bool {
	call := core.Call{Scope: "orders", Name: "charge", Key: message.id, Input: message.order, Route: c.policy}
	_, info, err := core.Do(ctx, c.engine, call, func(ctx context.Context) (receipt, error) {
		return c.charge(ctx, message.order)
	})
	switch {
	case err == nil, errors.Is(err, core.ErrNotReplayable), errors.Is(err, core.ErrKeyExpired):
		return true
	case failure.IsPermanent(err): // a retry cannot succeed: set the message aside
		if !info.Replayed {
			c.mu.Lock()
			c.declined++
			c.mu.Unlock()
		}
		return true
	default: // in progress elsewhere, the store unreachable, or a failure: let the queue deliver the message again
		return false
	}
}
