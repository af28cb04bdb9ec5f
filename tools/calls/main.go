// Command calls counts the calls of functions in a first request and in its replay:
//
//	calls [-v] ROOT
//
// It builds a small program, testdata/program, with the library's source in the folder ROOT. There chi and memstore serve a
// route with the default policy, and nothing waits. By go build -overlay each function of the library records its call and its
// return first. The program warms up with another key, then sends a first request of 300 bytes and its replay. The calls of
// that one goroutine count, and no calls of timers and stores in the background.
//
//   - calls: of functions and methods that are declared. Function literals have a column of their own: a literal is a part of
//     the function around it.
//   - changes: how often the file changes. A call enters the file of the called function, and its return leads back to the file
//     of the function that called it. The first call of a request is no change. One into another file and back are two.
//   - files: that have at least one of the calls.
//
// A set of packages is counted as if no others existed: a call through another package, such as chi or a store, comes from the
// last function of the set. "adapter and core" is the folder adapters and package core alone. "with core/internal" adds the
// packages inside core, which do a part of core's work. Each package follows as a set of its own.
//
// -v prints each call, indented by its depth, after the counts.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/oncekey/oncekey/tools/internal/command"
)

//go:embed testdata/record/record.go
var recordSource []byte

//go:embed testdata/program/main.go
var programSource []byte

func main() {
	if err := run(context.Background(), os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "calls:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string) (err error) {
	flags := flag.NewFlagSet("calls", flag.ContinueOnError)
	verbose := flags.Bool("v", false, "print each call, indented by its depth")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("want the argument ROOT, the folder of the library")
	}
	root, err := filepath.Abs(flags.Arg(0))
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "calls")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	o := overlay{root: root, folder: folder, Replace: map[string]string{}}
	functions, err := o.build(ctx, programSource)
	if err != nil {
		return err
	}
	printed, err := command.Output(ctx, "", nil, o.program())
	if err != nil {
		return err
	}
	var requests []struct {
		Name  string
		Trace []int
	}
	if err := json.Unmarshal([]byte(printed), &requests); err != nil {
		return fmt.Errorf("the program printed %q: %w", printed, err)
	}
	for _, r := range requests {
		printCounts(out, r.Name, r.Trace, functions)
		if *verbose {
			printTrace(out, r.Trace, functions)
		}
	}
	return nil
}
