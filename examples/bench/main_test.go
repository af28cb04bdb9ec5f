package main

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/examples/bench/internal/load"
)

func TestMain(m *testing.M) {
	if isChild, err := serveAsChild(context.Background()); isChild {
		if err != nil {
			panic(err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func TestKeys(t *testing.T) {
	t.Parallel()
	var key [load.KeySize]byte
	putKey(1234, key[:])
	if got := string(key[:]); got != "00000000-0000-4000-00000000000001234" {
		t.Errorf("the key of 1234 is %q", got)
	}
	if keys := newKeys(2); keys[0] == keys[1] {
		t.Errorf("two keys are the same: %v", keys)
	}
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	for _, size := range []int{200, 1 << 10, 64 << 10} {
		if document := orders(size); len(document) != size || !json.Valid(document) {
			t.Errorf("orders(%d) has %d bytes: %.300s", size, len(document), document)
		}
	}
	if len(payload) != size || len(response) != size || !json.Valid(payload) || !json.Valid(response) {
		t.Errorf("the payload has %d and the response %d bytes", len(payload), len(response))
	}
	if got := string(reversed(2)); got != `{"k000002":0,"k000001":0}` {
		t.Errorf("reversed(2) = %s", got)
	}
}

// countingStore counts an engine's calls.
type countingStore struct {
	storage.Store
	calls atomic.Int64
}

func (s *countingStore) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	c := request.Claim()
	s.calls.Add(1)
	return s.Store.Acquire(ctx, c)
}

func (s *countingStore) Complete(ctx context.Context, l storage.Lease, r storage.Result) error {
	s.calls.Add(1)
	return s.Store.Complete(ctx, l, r)
}

func TestCountTrips(t *testing.T) {
	t.Parallel()
	store := &countingStore{Store: newMemory()}
	counts, err := countTrips(t.Context(), store, &store.calls)
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]int{"first": 2, "replay": 1, "422": 1, "409": 1} {
		if counts[kind] != want {
			t.Errorf("%s has called the store %d times, want %d", kind, counts[kind], want)
		}
	}
}

// The shortest complete run: servers, arms, the file.
func TestRun(t *testing.T) { //nolint:paralleltest // a comparison has the process to itself
	file := filepath.Join(t.TempDir(), "result.md")
	arguments := []string{"-rounds", "1", "-slice", "1ms", "-records", "1000", "-parts", "guarded,inprocess,openloop,redis,postgres,sql", "-o", file}
	if err := run(t.Context(), arguments); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	result := string(written)
	for _, want := range []string{
		"# Benchmarks\n", "`go -C examples/bench run . -parts=guarded,inprocess,openloop,redis,postgres,sql -records=1000 -rounds=1 -slice=1ms`",
		"## What a guard costs", "| memory, 1 at once, first |", "## A guard on each store", "Only a part of the benchmarks was run", `srcset="docs/charts/in-process-dark.svg"`, "\n- In process, a guard adds ",
		"## In process, in memory", "| gin: replay |", "| net/http, outer headers: first |", "| fiber v2: first |", "Open loop, oncekey: replay",
		"## Redis", "| first | 2 | 2 |", "| replay | 1 | 0 |", "| 409 | 2 | 2 |", "## PostgreSQL", "## SQL databases", "| database/sql, SQLite, 1 at once, replay above SELECT, µs | <= 60 |", "| memstore, a whole request in process |", "## Targets", "| fingerprint of 1 MB with 2 exclusions, encoding/json : oncekey | >= 9 | not measured |",
	} {
		if !strings.Contains(result, want) {
			t.Errorf("the result has no %q", want)
		}
	}
	for _, row := range regexp.MustCompile(`(?m)^\| ((?:A guard|in process|open loop|Redis, round|PostgreSQL|database/sql).*) \| not measured \|`).FindAllString(result, -1) {
		if name := strings.Split(row, ", ")[1]; !strings.Contains(result, "\nLeft out: "+name+" is not installed.\n") {
			t.Errorf("all arms ran, and a target did not find its own: %s", row)
		}
	}
	if strings.Contains(result, file) {
		t.Error("the result contains the name of its own file")
	}
	chart, err := os.ReadFile(filepath.Join(filepath.Dir(file), "docs", "charts", "in-process-light.svg"))
	if err != nil {
		t.Fatal(err)
	}
	expectBars(t, string(chart), result)
}

// expectBars expects each bar of the chart, in microseconds, to have the figure of its arm
// in the table.
func expectBars(t *testing.T, chart, table string) {
	t.Helper()
	bars := regexp.MustCompile(`text-anchor="end" fill="[^"]*">([^<]+)</text>\n.*\n<text [^>]*>([0-9.]+)</text>`).FindAllStringSubmatch(chart, -1)
	if len(bars) != 8 {
		t.Errorf("the chart has %d bars, want 8", len(bars))
	}
	for _, bar := range bars {
		arm := strings.Replace(bar[1], "oncekey: ", "net/http: ", 1)
		cell := regexp.MustCompile(`\n\| ` + regexp.QuoteMeta(arm) + ` \| ([0-9.]+) ([nµm]s) \|`).FindStringSubmatch(table)
		if cell == nil {
			t.Errorf("the table has no arm %q", arm)
			continue
		}
		unit := map[string]float64{"ns": 1e-3, "µs": 1, "ms": 1e3}[cell[2]]
		drawn, _ := strconv.ParseFloat(bar[2], 64)
		written, _ := strconv.ParseFloat(cell[1], 64)
		if math.Abs(drawn-written*unit) > 0.01*drawn {
			t.Errorf("%s: the bar says %v µs, the table %s %s", arm, drawn, cell[1], cell[2])
		}
	}
}

// Only arms that match run, with the first of their table.
func TestRunOfSomeArms(t *testing.T) { //nolint:paralleltest // a comparison has the process to itself
	file := filepath.Join(t.TempDir(), "result.md")
	arguments := []string{"-quick", "-rounds", "1", "-slice", "1ms", "-parts", "inprocess,openloop,fingerprint", "-arms", "^chi: (bare|first)$", "-o", file}
	if err := run(t.Context(), arguments); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| (\S+: [a-z]+) \|`).FindAllStringSubmatch(string(written), -1)
	if len(rows) != 3 || rows[0][1] != bareArm || rows[1][1] != "chi: bare" || rows[2][1] != "chi: first" {
		t.Errorf("the arms are %q, want the first one and the two that match", rows)
	}
	if !strings.HasPrefix(string(written), "# Benchmarks, a quick run of about five minutes") || strings.Contains(string(written), "A document of") {
		t.Errorf("the heading says no quick run, or a table has no arm: %.300s", written)
	}
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	for _, arguments := range [][]string{{"-parts", "nonsense"}, {"-arms", "("}, {"-rounds", "0"}, {"-slice", "0"}, {"-records", "1"}, {"-nonsense"}} {
		if err := run(t.Context(), arguments); err == nil {
			t.Errorf("%v is accepted", arguments)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ended, []string{"-parts", "fingerprint"}); !errors.Is(err, context.Canceled) {
		t.Errorf("after an interrupt the program returns %v", err)
	}
}
