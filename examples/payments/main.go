// Payments is a shop that charges cards, and charges them once: the example to
// copy from. It shows a policy for each route on chi and on gin, the engine with
// a store in memory, in Redis, in PostgreSQL or in both, where authentication and
// recovery belong, what a handler tells the engine (package failure), a handler in
// the store's transaction, and an orderly shutdown.
//
//	go run ./examples/payments
//	go run ./examples/payments -router gin -store redis -redis redis://127.0.0.1:6379/0
//	go run ./examples/payments -store postgres -postgres postgres://127.0.0.1:5432/shop
//	go run ./examples/payments -store tiered -redis redis://127.0.0.1:6379/0 -postgres postgres://127.0.0.1:5432/shop
//
// Then pay, and pay again with the same key:
//
//	pay() { curl -i localhost:8080/payments -H 'Authorization: Bearer alice' -H "Idempotency-Key: $1" --json "$2"; }
//	pay key-1 '{"order_id":"order-1","amount":4200,"currency":"EUR","card":"tok_ok"}'
//	pay key-1 '{"order_id":"order-1","amount":4200,"currency":"EUR","card":"tok_ok"}'   # 201 again, X-Idempotent-Replay: true
//	pay key-1 '{"order_id":"order-1","amount":9900,"currency":"EUR","card":"tok_ok"}'   # 422: another payment
//	pay key-2 '{"order_id":"order-2","amount":4200,"currency":"EUR","card":"tok_slow:10s"}' &
//	pay key-2 '{"order_id":"order-2","amount":4200,"currency":"EUR","card":"tok_slow:10s"}'   # 409: in progress
//	curl localhost:8080/ledger     # what really happened: two charges
//	curl localhost:8080/attempts   # how often a handler ran here: twice
//
// An order is paid once, whatever the keys are. A request that pays it again under
// another key gets 200 and the payment that exists: 201 means that this request
// made it. With another amount it gets 409.
//
// cards.go lists the other test cards: one is declined, one panics, one crashes
// after the charge. POST /refunds takes the same body; POST /members and PATCH
// /members/{id} take {"email"}, POST /notes takes {"text"}.
//
// With -store postgres or tiered there is POST /transfers too, which takes
// {"from","to","amount"}: its handler moves money between two rows, and its answer
// is stored in the same transaction. alice, bob and carol have accounts, and GET
// /balances shows them. With the other stores there is no database to move money
// in: 404. The ledger then is a table too, of all processes together; otherwise it
// is this process's own.
//
// The members are kept in memory, and with -store memory or redis the ledger is
// too; whoever says to be alice is alice, and may transfer what is bob's: those are
// the parts not to copy.
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

	"github.com/oncekey/oncekey/core"
)

// An orchestrator commonly grants 30 seconds between SIGTERM and SIGKILL.
const (
	handlersDeadline = 20 * time.Second // for the handlers that run
	answersDeadline  = 5 * time.Second  // for the answers that the store has not taken yet
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main with its surroundings handed in. It ends in order when ctx does,
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
	lines, err := openJournal(s.ledger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lines.Close()) }()

	opened, err := stores[s.store](ctx, s, lines)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.close()) }()

	engine, err := core.New(opened.store, core.ScopeBy(userOf))
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           routers[s.router](newShop(opened), engine, s.lockTTL),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      slowest + time.Minute, // it counts the handler's time too
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

	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return shutDown(server, engine)
	}
}

// shutDown ends the program without losing an answer: the server takes no more
// requests and waits for those that run, then the engine waits for what the
// store has not taken yet. Only after that may the store's client be closed.
func shutDown(server *http.Server, engine *core.Engine) error {
	return errors.Join(
		within(handlersDeadline, server.Shutdown),
		within(answersDeadline, engine.Shutdown),
	)
}

func within(deadline time.Duration, shutDown func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	return shutDown(ctx)
}
