// Checkout shows on one page what an idempotency key is for. Pay, click twice,
// lose the answer, kill the pod in the middle of a payment, with a key and without
// one, and watch the charges, the replays and the key's life.
//
//	go run ./examples/checkout   # then open http://127.0.0.1:8081
//
// One process plays a whole deployment, and nothing of it is a mock-up: each tab of
// a browser gets a shop of its own (shop.go) with two pods over one store, a bank,
// and a balancer between them and the browser. A pod (pod.go) is an engine of its
// own with a connection of its own to the store (link.go). What is drawn are the
// events of the two engines, and what the balancer and the bank saw.
//
// A killed pod is dead as far as anybody can see: its connections to the store and
// to its clients are cut, its handlers stop where they are, it settles nothing and
// reports nothing. What it did before stays done.
//
// A shop lives as long as the page's event stream, and everything in it is bounded:
// the program can be left running. It is an example of what can be seen, not of
// what to copy: that is examples/payments.
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
	"os/signal"
	"syscall"
	"time"
)

// shutdownDeadline is for payments that are under way: they take less than a second.
const shutdownDeadline = 10 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	addr := flag.String("addr", "127.0.0.1:8081", "listen on `host:port`; port 0 is a free one")
	flag.Parse()
	if err := serve(ctx, *addr, os.Stdout, demoPace); err != nil {
		slog.Error("checkout failed", "error", err)
		os.Exit(1)
	}
}

// serve runs the program until ctx ends, and then ends it in order.
func serve(ctx context.Context, addr string, stdout io.Writer, pace pace) error {
	mall := newMall(ctx, pace)
	server := &http.Server{
		Handler:           routes(mall),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second, // a stream sets its own
	}
	// A browser that finds a kept connection broken sends the request again by
	// itself. Here the page alone is to decide about retries, so none is kept.
	server.SetKeepAlivesEnabled(false)

	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	fmt.Fprintf(stdout, "listening on http://%s\n", listener.Addr())

	select {
	case err := <-ended:
		return err
	case <-ctx.Done(): // the streams end with it, and their shops with them
	}
	patience, cancel := context.WithTimeout(context.Background(), shutdownDeadline)
	defer cancel()
	if err := server.Shutdown(patience); err != nil {
		return errors.Join(err, server.Close())
	}
	return nil
}
