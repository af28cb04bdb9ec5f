// Observability is a service with metrics of its engine. The engine's events become
// metrics for Prometheus. The folder also has a Grafana dashboard (dashboard.json), alert
// rules (alerts.yaml) and a Prometheus configuration (prometheus.yaml). README.md explains
// their use.
//
//	go run ./examples/observability
//	curl -i localhost:8080/payments -H 'Idempotency-Key: key-1' -d 'amount=42'
//	curl -i localhost:8080/payments -H 'Idempotency-Key: key-1' -d 'amount=42'   # a replay
//	curl -s localhost:8080/metrics | grep ^idempotency
//
// Here the same address serves metrics and payments. In production, give the metrics an
// address of their own that is not public.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/examples/internal/program"
)

// defaultAddr is the address that prometheus.yaml scrapes.
const defaultAddr = "127.0.0.1:8080"

func main() { program.Main(run) }

// run is main with its dependencies as parameters. When ctx ends, it shuts down in order
// and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("observability", flag.ContinueOnError)
	flags.SetOutput(stderr)
	addr := flags.String("addr", defaultAddr, "the `address` to listen on; port 0 picks a free port")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "observability: unexpected argument %q: want flags only (-h lists them)\n", flags.Arg(0))
		return 2
	}
	if err := serve(ctx, *addr, stdout); err != nil {
		fmt.Fprintf(stderr, "observability: %v\n", err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, addr string, stdout io.Writer) error {
	store := memstore.New()
	s, err := newService(store, store.Len)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           s.mux,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      time.Minute,
		IdleTimeout:       2 * time.Minute,
	}
	announce := func(address string) { fmt.Fprintf(stdout, "listening on http://%s\n", address) }
	return program.Serve(ctx, server, addr, announce, s.shutDown)
}
