package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

const method = `Written by ` + "`make bench`" + ` (examples/bench). Compare ratios within this page. Times belong to one machine on one day.

How it is measured: the arms of a comparison run in one process, each for a slice of %v, in random order, for %d rounds. A
ratio is the median of the ratios of each round, and the brackets behind it are its 95 %% bootstrap interval. The A/A control
is an arm's ratio to itself, run as two arms: it is 1 but for noise, and a difference that is smaller than the control's own
interval means nothing. Arms in memory have GOMAXPROCS(1), and the collector runs before each slice. Bytes and
allocations have no noise to speak of. A target is reached when the median reaches it. Nothing here is a
test: no time makes it fail. *p50* and *p99* are the medians of the rounds' own.

What is measured: a POST with %d bytes of JSON, whose response has as many. *first* is a first-time request, *replay* a retry of a
finished one. oncekey's fingerprint is on, its events go to an observer that does nothing. *tutorial* is the middleware that tutorials teach: SET NX of a sentinel, a recorder, and the response as JSON; *tutorial
with fingerprint* also decodes and encodes each payload with encoding/json, and hashes it. *fiber* is gofiber's
middleware/idempotency, which has no fingerprint, and waits instead of responding with 409; it is called on its fasthttp handler, with
a map for a storage.
`

// peerModules are the modules whose versions affect the result.
var peerModules = []string{
	"github.com/gofiber/fiber/v3", "github.com/valyala/fasthttp", "github.com/redis/go-redis/v9", "github.com/jackc/pgx/v5",
	"github.com/go-sql-driver/mysql", "modernc.org/sqlite", "github.com/dbos-inc/dbos-transact-golang",
}

// introduction is the document up to the first part. It needs all parts' figures.
func (s *suite) introduction(ctx context.Context, wanted []part, flags *flag.FlagSet) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Benchmarks\n\n%s"+method+"\n", guardCosts(s.results), s.slice, s.rounds, len(payload))
	fmt.Fprintf(&b, "| | |\n|---|---|\n")
	row := func(name, value string) { fmt.Fprintf(&b, "| %s | %s |\n", name, value) }
	row("date", time.Now().UTC().Format(time.DateOnly))
	row("command", "`"+command(flags)+"`")
	row("machine", fmt.Sprintf("%d processors, %s, %s/%s", runtime.NumCPU(), processor(), runtime.GOOS, runtime.GOARCH))
	row("Go", runtime.Version())
	for _, server := range s.versions(ctx) {
		row(server[0], server[1])
	}
	row("modules", modules())
	if len(wanted) < len(parts) || s.only != nil {
		fmt.Fprintf(&b, "\nOnly a part of the benchmarks was run.\n")
	}
	b.WriteString("\n")
	return b.String()
}

// command returns the command to repeat the run, without the name of the output file.
func command(flags *flag.FlagSet) string {
	words := []string{"go -C examples/bench run ."}
	flags.Visit(func(f *flag.Flag) {
		if f.Name != "o" {
			words = append(words, "-"+f.Name+"="+f.Value.String())
		}
	})
	return strings.Join(words, " ")
}

// processor returns the model's name if the system reports it.
func processor() string {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown model"
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name, value, _ := strings.Cut(lines.Text(), ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown model"
}

// modules returns the module versions of this program.
func modules() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	var versions []string
	for _, module := range info.Deps {
		if slices.Contains(peerModules, module.Path) {
			versions = append(versions, strings.TrimPrefix(module.Path, "github.com/")+" "+module.Version)
		}
	}
	return strings.Join(versions, ", ")
}
