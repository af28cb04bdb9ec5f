package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/internal/testkit"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

// Each event ships once, whatever the network does.
func TestOneShipmentAnEvent(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			testkit.Must(t, run(&out, 50, seed))
			var events, deliveries, forged, calls, shipments int
			if _, err := fmt.Sscanf(out.String(), "%d events, %d deliveries, %d forged, %d calls to the warehouse, %d shipments\n",
				&events, &deliveries, &forged, &calls, &shipments); err != nil {
				t.Fatalf("the program printed %q: %v", out.String(), err)
			}
			if events != 50 || deliveries <= 75 || forged == 0 || calls != 50 || shipments != 50 {
				t.Errorf("the program printed %s, want 50 events delivered more often than 75 times, some forged, 50 calls and 50 shipments", out.String())
			}
		})
	}
}
