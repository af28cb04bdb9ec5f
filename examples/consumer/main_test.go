package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Each message has one effect, with any order of deliveries.
func TestOneChargeAnOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			if err := run(&out, 100, seed); err != nil {
				t.Fatal(err)
			}
			var orders, deliveries, charges, declined, acknowledged int
			if _, err := fmt.Sscanf(out.String(), "%d orders, %d deliveries, %d charges, %d declined, %d acknowledged\n",
				&orders, &deliveries, &charges, &declined, &acknowledged); err != nil {
				t.Fatalf("the program printed %q: %v", out.String(), err)
			}
			if orders != 100 || charges != 90 || declined != 10 || acknowledged != 100 || deliveries <= 130 {
				t.Errorf("the program printed %s, want 100 orders delivered more often than 130 times, 90 charges, 10 declined", out.String())
			}
		})
	}
}

// Case 71: a message is delivered again to another process, after the first process failed after the charge. There is one
// charge, and the message is set aside.
func TestBreakAfterTheCharge(t *testing.T) {
	t.Parallel()
	errBug := errors.New("a bug after the charge")
	for name, bug := range map[string]func() error{
		"an error": func() error { return errBug },
		"a panic":  func() error { panic(errBug) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, provider := memstore.New(), &provider{}
			var consumers []*consumer
			for range 2 {
				engine, err := core.New(store, core.SharedScope, core.WithObserver(event.Log(slog.New(slog.DiscardHandler))))
				if err != nil {
					t.Fatal(err)
				}
				consumers = append(consumers, &consumer{engine: engine, policy: engine.MustRoute(), charge: func(ctx context.Context, o order) (receipt, error) {
					if _, err := provider.charge(ctx, o); err != nil {
						return receipt{}, err
					}
					return receipt{}, bug()
				}})
			}
			done := false
			for delivery := range 6 {
				done = deliver(t.Context(), consumers[delivery%2], message{"message-1", order{"o-1", 101}})
			}
			if len(provider.charged) != 1 || !done {
				t.Errorf("charged %v, done %t, want one charge and a finished message", provider.charged, done)
			}
		})
	}
}

// deliver survives a panic, like a group of consumer processes.
func deliver(ctx context.Context, c *consumer, m message) (done bool) {
	defer func() { _ = recover() }()
	return c.handle(ctx, m)
}
