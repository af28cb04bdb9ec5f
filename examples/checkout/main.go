// Checkout shows the use of an idempotency key on one page. Pay, click twice, lose the
// response, kill the pod in the middle of a payment, with and without a key, and watch
// the charges, the replays and the key's life.
//
//	go run ./examples/checkout   # then open http://127.0.0.1:8081
//
// One process simulates a whole deployment with real engines. Each page gets a shop
// of its own (shop.go): two pods over one store, a bank, and a balancer between
// the pods and the browser. A pod (pod.go) is an engine with its own connection to the
// store (link.go). The page draws the events of both engines and the observations of
// the balancer and the bank.
//
// A killed pod behaves like a dead process: its connections to the store and to its
// clients are cut, its handlers stop, and it settles and reports no run. Its earlier
// effects stay.
//
// A shop closes when its page is left, and all its data is bounded, so the program can
// be left running. It is an example to watch. The example to copy is
// examples/payments.
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

// shutdownDeadline is for running payments, which take less than a second.
const shutdownDeadline = 10 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	addr := flag.String("addr", "127.0.0.1:8081", "listen on `host:port`; port 0 picks a free port")
	flag.Parse()
	if err := serve(ctx, *addr, os.Stdout, demoPace); err != nil {
		slog.Error("checkout failed", "error", err)
		os.Exit(1)
	}
}

// serve runs the program until ctx ends, and then shuts it down in order.
func serve(ctx context.Context, addr string, stdout io.Writer, pace pace) error {
	mall := newMall(pace)
	defer mall.end()
	server := newServer(mall)
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
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.Background(), shutdownDeadline)
	defer cancel()
	if err := server.Shutdown(patience); err != nil {
		return errors.Join(err, server.Close())
	}
	return nil
}

func newServer(m *mall) *http.Server {
	server := &http.Server{
		Handler:           routes(m),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
	}
	// A browser repeats a request if it finds a kept connection broken. In this example
	// only the page may retry, so the server keeps no connections.
	server.SetKeepAlivesEnabled(false)
	return server
}
