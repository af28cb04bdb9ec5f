// Command bench measures oncekey against its peers, and writes the result as Markdown. It
// makes no judgement: it never fails because of a time.
//
//	go run . -o ../../BENCHMARKS.md                 # everything
//	go run . -rounds 5                              # about five minutes
//	go run . -parts inprocess -arms 'first|floor'   # some arms of one part
//
// It starts its own Redis, PostgreSQL, MySQL and MariaDB, and skips the parts whose server is
// not installed. Compare the ratios of one run, not the times of two runs. Package
// internal/harness explains the method. The benchmarks of a single package are beside its
// code: see make microbench.
//
// To add an arm, append it to the arms of a comparison: a name, and a function that does
// the work n times (or harness.Timed, for latencies). The tables follow. The targets are in
// targets.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
)

// part is one section of the result.
type part struct {
	name string
	run  func(context.Context, *suite) (report.Section, error)
}

var parts = []part{
	{"guarded", guarded},
	{"sql", guardedOnSQL},
	{"inprocess", inProcess},
	{"loopback", loopback},
	{"openloop", openLoop},
}

// suite has the settings and the servers of all measurements.
type suite struct {
	databases
	rounds  int
	slice   time.Duration
	only    *regexp.Regexp // the arms to run; nil: all
	results results
}

func (s *suite) plan(processors int) harness.Plan {
	return harness.Plan{Rounds: s.rounds, Slice: s.slice, Processors: processors}
}

func main() {
	_ = os.Unsetenv("ONCEKEY_TEST_DATA") // in memory a commit waits for no disk
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		stop()
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:gocritic // stop has been called
	}
}

func run(ctx context.Context, arguments []string) error {
	s := &suite{results: make(results)}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&s.rounds, "rounds", 50, "how often each arm runs")
	flags.DurationVar(&s.slice, "slice", 60*time.Millisecond, "how long an arm runs each time")
	chosen := flags.String("parts", "all", "which parts to run, separated by commas: "+strings.Join(names(), ", "))
	flags.Func("arms", "run only the arms whose name matches this `expression`, and the first of each table", func(text string) (err error) {
		s.only, err = regexp.Compile(text)
		return err
	})
	output := flags.String("o", "", "the `file` to write (default standard output); what follows its line "+keptLine+" stays")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if s.rounds < 1 || s.slice <= 0 {
		return errors.New("want at least 1 round and a slice above zero")
	}
	wanted, err := choose(*chosen)
	if err != nil {
		return err
	}
	defer s.stop()
	if err := s.start(); err != nil {
		return err
	}
	text, err := s.measure(ctx, wanted, flags)
	if err != nil {
		return err
	}
	return write(text, *output)
}

// keptLine begins the end of the document that people write.
const keptLine = "<!-- make bench keeps what follows -->"

// write writes the document.
func write(text, file string) error {
	if file == "" {
		_, err := os.Stdout.WriteString(text)
		return err
	}
	before, err := os.ReadFile(file) //nolint:gosec // the user names the file
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if _, kept, has := strings.Cut(string(before), keptLine); has {
		text += "\n" + keptLine + kept
	}
	return os.WriteFile(file, []byte(text), 0o644) //nolint:gosec // documentation is public
}

func names() []string {
	var all []string
	for _, part := range parts {
		all = append(all, part.name)
	}
	return all
}

func choose(list string) ([]part, error) {
	if list == "all" {
		return parts, nil
	}
	wanted := strings.Split(list, ",")
	for _, name := range wanted {
		if !slices.Contains(names(), name) {
			return nil, fmt.Errorf("-parts: %q is none of %s", name, strings.Join(names(), ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(parts), func(p part) bool { return !slices.Contains(wanted, p.name) }), nil
}

// measure runs the parts, and returns the whole document.
func (s *suite) measure(ctx context.Context, wanted []part, flags *flag.FlagSet) (string, error) {
	var b strings.Builder
	began := time.Now()
	for _, part := range wanted {
		start := time.Now()
		section, err := part.run(ctx, s)
		if err != nil {
			return "", fmt.Errorf("%s: %w", part.name, err)
		}
		b.WriteString(section.String())
		slog.Info("measured", "part", part.name, "took", time.Since(start).Round(time.Second).String())
	}
	fmt.Fprintf(&b, "%sThe run took %s.\n", judge(targets(), s.results), time.Since(began).Round(time.Second))
	return s.introduction(ctx, wanted, flags) + b.String(), nil
}
