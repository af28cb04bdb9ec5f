// Payments is a shop that charges each card once. It is the example to copy. It shows a
// policy for each route on chi and on gin, the engine with a store in memory, in Redis,
// in PostgreSQL, in both, in SQLite or in MySQL, the places of authentication and recovery,
// the handler's marks (package failure), a handler in the store's transaction, the page for
// operators, and an orderly shutdown.
//
//	go run ./examples/payments
//	go run ./examples/payments -router gin -store redis -redis redis://127.0.0.1:6379/0
//	go run ./examples/payments -store postgres -postgres postgres://127.0.0.1:5432/shop
//	go run ./examples/payments -store sqlite -file payments.db
//	go run ./examples/payments -store mysql -dsn 'shop@tcp(127.0.0.1:3306)/shop'
//	go run ./examples/payments -store tiered -redis redis://127.0.0.1:6379/0 -postgres postgres://127.0.0.1:5432/shop
//
// The program prints commands that pay, and that change the amount under the same key. Others:
//
//	pay() { curl -i localhost:8080/payments -H 'Authorization: Bearer alice' -H "Idempotency-Key: $1" --json "$2"; }
//	pay key-2 '{"order_id":"order-2","amount":4200,"currency":"EUR","card":"tok_slow:10s"}' &
//	pay key-2 '{"order_id":"order-2","amount":4200,"currency":"EUR","card":"tok_slow:10s"}'   # 409: in progress
//	curl localhost:8080/ledger     # the side effects: one charge for each order
//	curl localhost:8080/attempts   # the handler runs of this process
//
// An order is paid once, even under different keys. A request that pays the order again
// under another key gets 200 and the existing payment: 201 means that this request made
// the payment. A request with another amount gets 409.
//
// cards.go of internal/shop lists the other test cards: one is declined, one panics, one
// crashes after the charge. POST /refunds takes the same body, POST /members and PATCH
// /members/{id} take {"email"}, and POST /notes takes {"text"}.
//
// With -store postgres, mysql or tiered there is also POST /transfers, which takes
// {"from","to","amount"}. Its handler moves money between two rows, and its response is
// stored in the same transaction. alice, bob and carol have accounts, and GET /balances
// shows the accounts. The other stores have no transactions, so these routes respond
// 404. With a database, SQLite or MySQL too, the ledger is a table of all processes
// together; otherwise the ledger belongs to this process.
//
// With -inspect there is a page for operators (inspect.go): what became of a key, and what its
// retry gets. The program prints the page's address and a password at the start.
//
// Copy the files of this folder, and not internal/shop, which only demonstrates: it keeps
// members, and with -store memory or redis also the ledger, in memory. Its authentication
// believes every user name, and a user may transfer the money of another.
package main

import (
	"context"
	"crypto/rand"
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

	"github.com/oncekey/oncekey/adapters/inspector"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/examples/payments/internal/shop"
)

// An orchestrator commonly grants 30 seconds between SIGTERM and SIGKILL.
const (
	handlersDeadline = 20 * time.Second // for running handlers
	storeDeadline    = 5 * time.Second  // for responses that the store has not taken yet
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main with its dependencies as parameters. When ctx ends, it shuts down in order
// and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s, err := parseSettings(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "payments: %v (-h lists the flags)\n", err)
		return 2
	}
	if err := serve(ctx, s, stdout); err != nil {
		fmt.Fprintf(stderr, "payments: %v\n", err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, s settings, stdout io.Writer) (err error) {
	lines, err := shop.OpenJournal(s.ledger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lines.Close()) }()

	opened, err := stores[s.store](ctx, s, lines)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.close()) }()

	events := inspector.Remember(event.Log(nil), 10_000)
	engine, err := core.New(opened.store, core.ScopeBy(shop.UserOf), core.WithObserver(events))
	if err != nil {
		return err
	}
	handler := routers[s.router](service{shop.New(opened.ledger, opened.bank)}, engine, s.times)
	token := rand.Text()
	if s.inspect {
		if handler, err = withInspector(handler, engine, events, token); err != nil {
			return err
		}
	}
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      shop.SlowestCard + time.Minute, // the timeout includes the handler's time
		IdleTimeout:       2 * time.Minute,
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", s.addr)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	fmt.Fprintf(stdout, "listening on http://%s\n", listener.Addr())
	if s.inspect {
		fmt.Fprintf(stdout, "operators at http://%s%s/ with any name and the password %s\n", listener.Addr(), inspectorPath, token)
	}
	fmt.Fprint(stdout, shop.Demonstration(listener.Addr().String()))

	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return shutDown(server, engine)
	}
}

// shutDown ends the program without losing a response. The server stops accepting
// requests and waits for its handlers. Then the engine waits for the responses that the
// store has not taken yet. Only then may the store's client be closed.
func shutDown(server *http.Server, engine *core.Engine) error {
	return errors.Join(
		within(handlersDeadline, server.Shutdown),
		within(storeDeadline, engine.Shutdown),
	)
}

func within(deadline time.Duration, shutDown func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	return shutDown(ctx)
}
