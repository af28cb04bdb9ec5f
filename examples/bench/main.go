// Command bench measures oncekey against its peers, and writes the result as Markdown. It
// makes no judgement: it never fails because of a time.
//
//	go run . -o ../../BENCHMARKS.md                 # everything
//	go run . -quick                                 # about five minutes
//	go run . -parts inprocess -arms 'first|floor'   # some arms of one part
//	go run . -profile ../../build                   # CPU profiles of a first-time request and of a replay
//
// It starts its own Redis, PostgreSQL, MySQL and MariaDB, and skips the parts whose server is
// not installed. Compare the ratios of one run, not the times of two runs. Package
// internal/harness explains the method.
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
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
	"github.com/oncekey/oncekey/examples/bench/internal/servers"
)

// part is one section of the result.
type part struct {
	name string
	run  func(context.Context, *suite) (report.Section, error)
}

var parts = []part{
	{"guarded", guarded},
	{"inprocess", inProcess},
	{"loopback", loopback},
	{"openloop", openLoop},
	{"redis", redisFloor},
	{"postgres", postgresFloor},
	{"sql", sqlFloor},
	{"fingerprint", fingerprints},
	{"memory", memory},
	{"tombstones", tombstones},
	{"growth", growth},
}

// suite has the settings and the servers of all measurements.
type suite struct {
	rounds  int
	slice   time.Duration
	records int // in a large store
	quick   bool
	large   bool
	only    *regexp.Regexp // the arms to run; nil: all
	results results
	summary summary

	redis    *servers.Redis    // nil: not installed
	postgres *servers.Postgres // nil: not installed
	mysql    *servers.MySQL    // nil: not installed
	mariadb  *servers.MySQL    // nil: not installed
}

func (s *suite) plan(processors int) harness.Plan {
	return harness.Plan{Rounds: s.rounds, Slice: s.slice, Processors: processors, Collect: true, Seed: 1}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	isChild, err := serveAsChild(ctx)
	if !isChild {
		err = run(ctx, os.Args[1:])
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		stop()
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:gocritic // stop has been called
	}
}

func run(ctx context.Context, arguments []string) error {
	s := &suite{results: newResults()}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&s.rounds, "rounds", 50, "how often each arm runs")
	flags.DurationVar(&s.slice, "slice", 60*time.Millisecond, "how long an arm runs each time")
	flags.BoolVar(&s.quick, "quick", false, "a run of about five minutes: 5 rounds, and a tenth of the records")
	flags.BoolVar(&s.large, "large", false, "also stores with ten times as many records: needs 20 GB of memory, 70 GB of disk and hours")
	flags.IntVar(&s.records, "records", 1_000_000, "how many records a large store has")
	chosen := flags.String("parts", "all", "which parts to run, separated by commas: "+strings.Join(names(), ", "))
	flags.Func("arms", "run only the arms whose name matches this `expression`, and the first of each table; tombstones and growth have no such arms", func(text string) (err error) {
		s.only, err = regexp.Compile(text)
		return err
	})
	output := flags.String("o", "", "the `file` to write (default standard output)")
	profile := flags.String("profile", "", "write CPU profiles into this `folder`, and end")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if s.quick {
		s.rounds, s.records = 5, s.records/10
	}
	if s.rounds < 1 || s.records < 1000 || s.slice <= 0 {
		return errors.New("want at least 1 round, 10000 records (with -quick, too) and a slice above zero")
	}
	if *profile != "" {
		return writeProfiles(ctx, *profile)
	}
	wanted, err := choose(*chosen)
	if err != nil {
		return err
	}
	stop, err := s.startServers(ctx)
	defer stop()
	if err != nil {
		return err
	}
	text, err := s.measure(ctx, wanted, flags)
	if err != nil {
		return err
	}
	if *output == "" {
		_, err = os.Stdout.WriteString(text)
		return err
	}
	if err := report.WriteCharts(filepath.Join(filepath.Dir(*output), chartFolder), s.summary.charts); err != nil {
		return err
	}
	return os.WriteFile(*output, []byte(text), 0o644) //nolint:gosec // documentation is public
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

// startServers starts the installed servers, and returns a function that stops them.
func (s *suite) startServers(ctx context.Context) (stop func(), err error) {
	stop = func() {
		if s.redis != nil {
			s.redis.Stop()
		}
		if s.postgres != nil {
			s.postgres.Stop()
		}
		if s.mysql != nil {
			s.mysql.Stop()
		}
		if s.mariadb != nil {
			s.mariadb.Stop()
		}
	}
	for _, start := range []func() error{
		func() (err error) { s.redis, err = servers.StartRedis(ctx); return err },
		func() (err error) { s.postgres, err = servers.StartPostgres(ctx); return err },
		func() (err error) { s.mysql, err = servers.StartMySQL(ctx); return err },
		func() (err error) { s.mariadb, err = servers.StartMariaDB(ctx); return err },
	} {
		if err := start(); err != nil && !errors.Is(err, servers.ErrMissing) {
			return stop, err
		}
	}
	return stop, nil
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
		if _, err := section.WriteTo(&b); err != nil {
			return "", err
		}
		slog.Info("measured", "part", part.name, "took", time.Since(start).Round(time.Second).String())
	}
	s.summary = summarize(s.results)
	for _, section := range []report.Section{costs(s.results), judge(targets(), s.results)} {
		if _, err := section.WriteTo(&b); err != nil {
			return "", err
		}
	}
	fmt.Fprintf(&b, "The run took %s.\n", time.Since(began).Round(time.Second))
	return s.introduction(wanted, flags) + b.String(), nil
}
