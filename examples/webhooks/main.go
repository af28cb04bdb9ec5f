// Command webhooks receives a provider's events, which come at least once, and ships each
// paid order exactly once.
//
//	go run ./examples/webhooks
//
// The program plays the provider too. Its sender delivers each event until the endpoint
// responds with 2xx. It loses responses, delivers some events twice at once, and a third
// party sends forged events. docs/jobs.md explains the endpoint.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/oncekey/oncekey/core/memstore"
)

// secret is shared with the provider. A real program reads it from its environment.
const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" //nolint:gosec // an example's secret

func main() {
	events := flag.Int("events", 50, "how many events the provider has")
	seed := flag.Uint64("seed", 1, "of the network's bad luck")
	flag.Parse()
	if err := run(os.Stdout, *events, *seed); err != nil {
		slog.Error("webhooks", "error", err)
		os.Exit(1)
	}
}

// run receives all events of a sender, and prints the result.
func run(out io.Writer, events int, seed uint64) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	webhook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return err
	}
	warehouse := &warehouse{}
	endpoint, err := newEndpoint(memstore.New(), secret, warehouse.ship, func(string) {})
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: endpoint, ReadTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()

	sender := newSender("http://"+listener.Addr().String()+"/webhooks/acme", webhook, seed)
	delivered := sender.deliverAll(ctx, events)
	err = errors.Join(delivered, server.Shutdown(ctx), endpoint.Shutdown(ctx))
	if ending := <-ended; !errors.Is(ending, http.ErrServerClosed) {
		err = errors.Join(err, ending)
	}
	calls, shipments := warehouse.count()
	fmt.Fprintf(out, "%d events, %d deliveries, %d forged, %d calls to the warehouse, %d shipments\n",
		events, sender.deliveries, sender.forged, calls, shipments)
	return err
}

// warehouse ships orders. It takes an idempotency key, as carriers and payment providers
// do: a second call with the key returns the first shipment.
type warehouse struct {
	mu    sync.Mutex
	calls int
	keys  []string
}

func (w *warehouse) ship(_ context.Context, key, _ string) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	if before := slices.Index(w.keys, key); before >= 0 {
		return before + 1, nil
	}
	w.keys = append(w.keys, key)
	return len(w.keys), nil
}

func (w *warehouse) count() (calls, shipments int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls, len(w.keys)
}
