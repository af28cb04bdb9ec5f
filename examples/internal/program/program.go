// Package program starts and ends the examples that are not for copying. examples/payments has its own copy of this, to copy.
package program

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// An orchestrator commonly grants 30 seconds between SIGTERM and SIGKILL.
const (
	handlersDeadline = 20 * time.Second // for running handlers
	storeDeadline    = 5 * time.Second  // for each later step, such as the responses that a store has not taken yet
)

// Main runs a program until SIGINT or SIGTERM, and exits with its code. A second signal ends the program at once.
func Main(run func(ctx context.Context, args []string, stdout, stderr io.Writer) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Serve listens on addr, announces the address and serves until ctx ends. Then it shuts down in order: the server with its
// running handlers, and the later steps one after another.
func Serve(ctx context.Context, server *http.Server, addr string, announce func(address string), later ...func(context.Context) error) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	announce(listener.Addr().String())
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	err = within(handlersDeadline, server.Shutdown)
	for _, shutDown := range later {
		err = errors.Join(err, within(storeDeadline, shutDown))
	}
	return err
}

func within(deadline time.Duration, shutDown func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	return shutDown(ctx)
}
