// Command testrun runs go test. It prints go test's closing line of each package, each report of the race detector at once,
// the output of tests that failed, the packages and tests that took longest, and at the end the names of the tests that failed.
//
//	testrun -dir .. -may-skip 'race detector|ONCEKEY_SOAK' -race ./...
//	testrun -dir .. -plan raced -race
//
// -plan appends the packages of the workspace that a run of make race tests: see the table in plan.go. -failed names a file to
// which the names of failed tests are appended, for a caller that has more to print.
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
	"slices"
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
	plan := flags.String("plan", "", "raced or unraced: test the packages of this run")
	failed := flags.String("failed", "", "file to append the names of failed tests to")
	own, rest := splitArguments(args)
	if err := flags.Parse(own); err != nil {
		return err
	}
	allowed, err := regexp.Compile(*maySkip)
	if err != nil {
		return err
	}

	if *plan != "" {
		packages, err := workspace(ctx, *folder)
		if err != nil {
			return err
		}
		if packages, err = planned(*plan, packages); err != nil {
			return err
		}
		rest = append(rest, packages...)
	}
	return test(ctx, newResults(out), *folder, rest, *failed, func(r *results) error { return r.checkSkips(allowed, requireAll) })
}

// test runs go test with these arguments. Only a run that passes is checked.
func test(ctx context.Context, results *results, folder string, args []string, failed string, check func(*results) error) error {
	command := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	command.Dir, command.Stderr = folder, os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	err = results.read(output)
	if err := errors.Join(err, command.Wait()); err != nil {
		return errors.Join(fmt.Errorf("go test: %w", err), results.nameFailed(failed))
	}
	results.printSlowest()
	return check(results)
}

// splitArguments splits off the flags of testrun.
func splitArguments(args []string) (own, rest []string) {
	for len(args) > 1 && slices.Contains([]string{"-dir", "-may-skip", "-plan", "-failed"}, args[0]) {
		own, args = append(own, args[:2]...), args[2:]
	}
	return own, args
}
