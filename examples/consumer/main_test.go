package main

import (
	"bytes"
	"fmt"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// One effect a message, whatever the queue's luck.
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
				t.Fatalf("it printed %q: %v", out.String(), err)
			}
			if orders != 100 || charges != 90 || declined != 10 || acknowledged != 100 || deliveries <= 130 {
				t.Errorf("it printed %s, want 100 orders delivered more often than 130 times, 90 charges, 10 declined", out.String())
			}
		})
	}
}
