// Command testrun runs go test. It prints go test's closing line of each package, the output of tests that failed, and at
// the end the packages and tests that took longest.
//
//	testrun -dir .. -may-skip 'race detector|ONCEKEY_SOAK' -race ./...
//
// The flags of testrun come first, and all later arguments belong to go test. The exit status is go test's. If
// ONCEKEY_REQUIRE_SERVERS is set, testrun also fails when a test was skipped for a reason that -may-skip does not match,
// because a check of every test must not skip a test whose program is not installed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
)

const (
	slowestPackages = 8
	slowestTests    = 12
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:], os.Getenv("ONCEKEY_REQUIRE_SERVERS") != ""); err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		os.Exit(1) //nolint:gocritic // stop has no work left
	}
}

func run(ctx context.Context, out io.Writer, args []string, requireAll bool) error {
	flags := flag.NewFlagSet("testrun", flag.ContinueOnError)
	folder := flags.String("dir", ".", "folder to run go test in")
	maySkip := flags.String("may-skip", "^$", "reasons for which a test may be skipped, as a regular expression")
	own, rest := splitArguments(args)
	if err := flags.Parse(own); err != nil {
		return err
	}
	allowed, err := regexp.Compile(*maySkip)
	if err != nil {
		return err
	}

	command := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, rest...)...)
	command.Dir, command.Stderr = *folder, os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	results := newResults(out)
	err = results.read(output)
	if err := errors.Join(err, command.Wait()); err != nil {
		return fmt.Errorf("go test: %w", err)
	}
	results.printSlowest()
	return results.checkSkips(allowed, requireAll)
}

// splitArguments splits off the flags of testrun.
func splitArguments(args []string) (own, rest []string) {
	for len(args) > 1 && (args[0] == "-dir" || args[0] == "-may-skip") {
		own, args = append(own, args[:2]...), args[2:]
	}
	return own, args
}
