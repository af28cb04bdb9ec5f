// Oncekey shows, settles and removes the records of idempotency keys.
//
//	go install github.com/oncekey/oncekey/adapters/inspector/oncekey@latest
//	oncekey show --redis redis://redis:6379/0 --scope alice "POST /payments" order-42
//
// The command reads a Redis, a PostgreSQL or both, or asks the inspector page of a
// service. docs/cli.md has every subcommand with its output.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"os/user"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/redis/go-redis/v9"
)

// The exit codes.
const (
	exitDone        = 0
	exitNothing     = 1 // nothing was found, or a check failed
	exitUsage       = 2
	exitUnreachable = 3 // the store, the page or the server cannot be reached
)

func main() {
	redis.SetLogger(silent{})                                                                                // the command writes an error once
	slog.SetDefault(slog.New(slog.NewTextHandler(&terminal{to: os.Stderr, hide: hiding(os.Args[1:])}, nil))) // a store's warnings
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, os.Args[1:], world{os.Stdin, os.Stdout, os.Stderr, http.DefaultTransport}))
}

// silent drops the lines of go-redis.
type silent struct{}

// Printf implements go-redis' logger.
func (silent) Printf(context.Context, string, ...any) {}

// world is what the program reaches beside stores.
type world struct {
	in       io.Reader
	out, err io.Writer
	network  http.RoundTripper // to a page at a URL
}

// read calls from with the standard input. A read of a terminal does not end by a signal, so
// it stays behind when ctx ends.
func (w *world) read(ctx context.Context, from func(io.Reader) (string, error)) (text string, err error) {
	done := make(chan struct{})
	var read string
	var failed error
	go func() {
		defer close(done)
		read, failed = from(w.in)
	}()
	select {
	case <-done:
		return read, failed
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// command is the command line.
type command struct {
	Place  place            `embed:""`
	Quick  kong.VersionFlag `name:"version" help:"Print the version, and end."`
	Output string           `short:"o" enum:"table,json,ndjson" default:"table" env:"ONCEKEY_OUTPUT" help:"Write a table, JSON, or a JSON document a line: table, json, ndjson."`

	Show       showCommand       `cmd:"" help:"Show a record, and what a retry would get."`
	List       listCommand       `cmd:"" help:"List records."`
	Explain    explainCommand    `cmd:"" help:"Say what a retry would get, and which members differ. No handler runs."`
	Settle     settleCommand     `cmd:"" help:"Settle an abandoned key after finding out what its run did."`
	Forget     forgetCommand     `cmd:"" help:"Remove a record, so that the next retry runs."`
	Sweep      sweepCommand      `cmd:"" help:"Remove expired records from PostgreSQL."`
	Migrate    migrateCommand    `cmd:"" help:"Bring the tables in PostgreSQL to the version of this command."`
	Doctor     doctorCommand     `cmd:"" help:"Check the set-up of the store."`
	Hash       hashCommand       `cmd:"" help:"Print the names of a key in the log and in the store."`
	Tail       tailCommand       `cmd:"" help:"Follow the events of a service, by its inspector page."`
	Verify     verifyCommand     `cmd:"" help:"Send a request to a server of yours in many ways, and say which rules of idempotency it keeps."`
	Lint       lintCommand       `cmd:"" help:"Check a file of policies."`
	Version    versionCommand    `cmd:"" help:"Print the version."`
	Completion completionCommand `cmd:"" help:"Print the completion script for a shell."`
}

const description = `Show, settle and remove the records of idempotency keys.

Exit codes: 0 done, 1 nothing found or a check failed, 2 wrong use, 3 the store, the page or the server cannot be reached.`

// exited is the panic by which kong's own exits, such as that of --help, end run.
type exited int

// run is main with its dependencies as parameters. It returns the exit code.
func run(ctx context.Context, args []string, w world) (code int) {
	defer func() {
		switch ended := recover().(type) {
		case nil:
		case exited:
			code = int(ended)
		default:
			panic(ended)
		}
	}()
	var line command
	p := newPrinter(w, hiding(args))
	defer func() { code = p.end(code) }()
	parser := parserOf(&line, p.world)
	parsed, err := parser.Parse(args)
	if err != nil {
		err = fmt.Errorf("%w (see --help)", err)
	} else if line.Place.Timeout < 0 { // for a client of HTTP that is no limit
		err = usage("--timeout %s: give a positive time, such as 30s", line.Place.Timeout)
	}
	if err != nil {
		p.fail(err)
		return exitUsage
	}
	line.Place.choose(parsed.Path)
	p.format = line.Output
	defer line.Place.close()
	parsed.BindTo(ctx, (*context.Context)(nil))
	if err := parsed.BindToProvider(line.Place.page); err != nil { // only for commands that take a page
		return p.exitCode(err)
	}
	return p.exitCode(parsed.Run(p, &line.Place, parser.Model))
}

func parserOf(line *command, w world) *kong.Kong {
	return kong.Must(line, kong.Name("oncekey"), kong.Description(description), kong.Writers(w.out, w.err),
		kong.Exit(func(code int) { panic(exited(code)) }), kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Vars{"user": userName(), "version": versionText()})
}

// userName is the default of --as. An image without /etc/passwd knows no names.
func userName() string {
	if current, err := user.Current(); err == nil {
		return current.Username
	}
	return fmt.Sprintf("uid %d", os.Getuid())
}

// errNothing ends the program with exitNothing. What there is to say is written already.
var errNothing = errors.New("nothing found")

// usageError is a fault of the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// unreachableError says that the store, the page or the server cannot be reached.
type unreachableError struct{ error }

func (e unreachableError) Unwrap() error { return e.error }

// exitCode writes an error, and returns its exit code.
func (p *printer) exitCode(err error) int {
	unreachable, wrong := new(unreachableError), new(usageError)
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errNothing):
		return exitNothing
	}
	p.fail(err)
	switch {
	case errors.As(err, wrong):
		return exitUsage
	case errors.As(err, unreachable):
		return exitUnreachable
	default:
		return exitNothing
	}
}
