// Command mutants breaks the engine in one way after another, and checks that package
// explore notices. Run it in the module's root:
//
//	go run ./core/internal/explore/mutants [-schedules n] [-check] [name...]
//
// Each .mutant file describes one mutant: a sentence about the broken rule, the changed
// function, the expression or statement that is changed, as a pattern, and its
// replacement. The program first sees that every mutant applies and compiles. Then it
// builds the test of package explore with one change after another, runs schedules
// until a rule is broken, and prints a table. It exits with 1 if a mutant survives.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

const folder = "core/internal/explore/mutants"

func main() {
	schedules := flag.Int("schedules", 20_000, "the most schedules that a mutant may survive")
	check := flag.Bool("check", false, "only see that each mutant applies and compiles")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	if err := run(ctx, *schedules, *check, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		stop()
		os.Exit(1)
	}
	stop()
}

func run(ctx context.Context, schedules int, check bool, names []string) error {
	mutants, err := readAll(ctx, folder, names)
	if err != nil || check {
		return err
	}
	work, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }() // the folder is temporary
	if seen := new(mutant).try(ctx, work, schedules); !seen.survived {
		return fmt.Errorf("the unchanged engine breaks %s in schedule %s", seen.rule, seen.schedules)
	}
	fmt.Fprintln(os.Stdout, "| mutant | breaks | seen by | schedules |\n|---|---|---|---:|") //nolint:errcheck // the exit status says the same
	failed := 0
	for _, m := range mutants {
		seen := m.try(ctx, work, schedules)
		if !seen.killed {
			failed++
		}
		fmt.Fprintf(os.Stdout, "| %s | %s | %s | %s |\n", m.name, m.breaks, seen.rule, seen.schedules) //nolint:errcheck // as above
	}
	if failed > 0 {
		return fmt.Errorf("%d mutants survive, or do not build", failed)
	}
	return nil
}

// readAll reads and applies the mutants of these names, or all. The error names each
// mutant that does not apply or compile.
func readAll(ctx context.Context, folder string, names []string) (mutants []*mutant, err error) {
	files, _ := filepath.Glob(filepath.Join(folder, "*.mutant")) // the pattern is sound
	if len(files) == 0 {
		return nil, fmt.Errorf("no mutants in %s: run this command in the module's root", folder)
	}
	e, err := load(ctx)
	if err != nil {
		return nil, err
	}
	var wrong []error
	for _, file := range files {
		if name := strings.TrimSuffix(filepath.Base(file), ".mutant"); len(names) == 0 || slices.Contains(names, name) {
			m, err := read(file, e)
			mutants, wrong = append(mutants, m), append(wrong, err)
		}
	}
	return mutants, errors.Join(wrong...)
}
