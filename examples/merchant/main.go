// Merchant is a checkout API for agents that buy. It serves two protocols over one shop: ACP
// (Agentic Commerce Protocol, release 2026-04-17) at /checkout_sessions, and UCP (Universal
// Commerce Protocol) at /checkout-sessions.
//
//	go run ./examples/merchant
//	go run ./examples/merchant -router gin -store sqlite -file merchant.db
//
// The program prints its address and curl lines to try in its folder. docs/agents.md explains
// their responses. GET /charges shows the charges of the payment provider.
//
// The idempotency rules are the profiles of adapters/commerce (routers.go). A completed
// checkout is three effects: the stock is reserved, the provider charges, and the order is
// recorded (shop.go). With -store sqlite the process may be killed at any point, and the
// agent's retry gets the order of one charge.
//
// The payloads are a subset of the protocols: items with a quantity, totals, messages, and the
// order. Buyers, addresses, fulfilment, taxes, discovery, signatures and webhooks are left out,
// and so are the sessions' expiry and limits. Do not copy two parts: every token and every
// profile is believed (http.go), and the provider is a table (provider.go).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/examples/internal/program"
)

func main() {
	program.Main(func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
		return run(ctx, args, stdout, stderr, open)
	})
}

// settings are the values of the command line.
type settings struct {
	addr, router, store, file string
	lockTTL                   time.Duration
}

// opener opens the storage of a merchant.
type opener func(context.Context, settings) (*backend, error)

// run is main with its dependencies as parameters. When ctx ends, it shuts down in order and
// returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, open opener) int {
	s, err := parse(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "merchant: %v (-h lists the flags)\n", err)
		return 2
	}
	b, err := open(ctx, s)
	if err == nil {
		err = errors.Join(serve(ctx, s, b, stdout), b.close())
	}
	if err != nil {
		fmt.Fprintf(stderr, "merchant: %v\n", err)
		return 1
	}
	return 0
}

// parse reads the command line. Its errors name the flag, the value and the expected form.
func parse(args []string, stdout io.Writer) (settings, error) {
	s := settings{router: "chi", store: "memory"}
	flags := flag.NewFlagSet("merchant", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // run prints the error, in one line
	flags.StringVar(&s.addr, "addr", "127.0.0.1:8080", "`host:port` to listen on; port 0 picks a free port")
	flags.Func("router", "`name`: chi or gin (default chi)", oneOf(&s.router, "chi", "gin"))
	flags.Func("store", "`name`: memory or sqlite (default memory)", oneOf(&s.store, "memory", "sqlite"))
	flags.StringVar(&s.file, "file", "merchant.db", "`path` of the SQLite database, which is made at the start")
	flags.DurationVar(&s.lockTTL, "lock-ttl", 30*time.Second, "`duration` for which a crash blocks its key, from 1s to 1h")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(stdout)
		flags.PrintDefaults()
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q: everything is a flag", flags.Arg(0))
	case err == nil && (s.lockTTL < time.Second || s.lockTTL > time.Hour):
		err = fmt.Errorf("invalid value %q for flag -lock-ttl: give a duration from 1s to 1h, such as 30s", s.lockTTL)
	}
	return s, err
}

func oneOf(target *string, first, second string) func(string) error {
	return func(value string) error {
		if value != first && value != second {
			return fmt.Errorf("give %s or %s", first, second)
		}
		*target = value
		return nil
	}
}

func serve(ctx context.Context, s settings, b *backend, stdout io.Writer) error {
	handler, engines, err := newHandler(s, b)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute}
	announce := func(address string) { fmt.Fprintf(stdout, tour, address, toured(engines[0])) }
	return program.Serve(ctx, server, s.addr, announce, engines[0].Shutdown, engines[1].Shutdown)
}

// tour is printed at the start. pay.json has a slow card, so that -m 1 loses the response.
const tour = `listening on http://%[1]s
send these in examples/merchant, and the fourth when the charge is made:
curl -i %[1]s/checkout_sessions -H @agent -H 'Idempotency-Key: create-1' -d @cart.json
curl -i -m 1 %[1]s/checkout_sessions/%[2]s/complete -H @agent -H 'Idempotency-Key: buy-1' -d @pay.json
curl -i %[1]s/checkout_sessions/%[2]s/complete -H @agent -H 'Idempotency-Key: buy-1' -d @pay.json
curl -i %[1]s/checkout_sessions/%[2]s/complete -H @agent -H 'Idempotency-Key: buy-1' -d @pay.json
curl %[1]s/charges
curl -i %[1]s/checkout-sessions -H @platform -H 'Idempotency-Key: 550e8400-e29b-41d4-a716-446655440000' -d @lines.json
`

// toured is the id of the tour's session, which follows from its agent and its key.
func toured(acp *core.Engine) string {
	return sessionID(core.DerivedKey(acp.StorageKey(clientBy("acp", "agent"), http.MethodPost, "/checkout_sessions", "create-1"), "session"))
}
