// Command mutants breaks the engine in one way after another, and checks that package
// explore notices. Run it in the module's root:
//
//	go run ./core/internal/explore/mutants [-schedules n] [-check] [name...]
//
// Each .mutant file describes one mutant: a sentence about the broken rule, the
// changed file, the old text and the new text. The program builds the test of package
// explore with the change, runs schedules until a rule is broken, and prints a table.
// It exits with 1 if a mutant survives, does not build or does not apply.
package main

import (
	"context"
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
	schedules := flag.Int("schedules", 60_000, "the most schedules that a mutant may survive")
	check := flag.Bool("check", false, "only see that each mutant applies and builds")
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
	files, err := filepath.Glob(filepath.Join(folder, "*.mutant"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no mutants in %s: run this command in the module's root", folder)
	}
	work, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }() // the folder is temporary
	sound := mutant{breaks: "No rule: this is the unchanged engine.", file: "core/engine.go", old: "package core\n", new: "package core\n"}
	if seen := sound.try(ctx, work, schedules, check); seen.unbuilt || seen.killed && !check {
		return fmt.Errorf("the unchanged engine breaks %s in schedule %s", seen.rule, seen.schedules)
	}
	fmt.Fprintln(os.Stdout, "| mutant | breaks | seen by | schedules |\n|---|---|---|---:|") //nolint:errcheck // the exit status says the same
	failed := 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".mutant")
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		if !try(ctx, work, file, schedules, check) {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d mutants survive, or do not apply or build", failed)
	}
	return nil
}

// try prints the line of one mutant, and reports whether it is killed.
func try(ctx context.Context, work, file string, schedules int, check bool) bool {
	m, err := read(file)
	seen := failure("%v", err)
	if err == nil {
		seen = m.try(ctx, work, schedules, check)
	}
	name := strings.TrimSuffix(filepath.Base(file), ".mutant")
	fmt.Fprintf(os.Stdout, "| %s | %s | %s | %s |\n", name, m.breaks, seen.rule, seen.schedules) //nolint:errcheck // as above
	return seen.killed
}
