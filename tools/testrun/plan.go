package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/oncekey/oncekey/tools/internal/command"
)

const library = "github.com/oncekey/oncekey"

// way says in which runs of make race a package is tested: with the race detector, without it, or both.
type way struct{ raced, unraced bool }

var (
	alone       = way{} // in a run of its own, whose result go test keeps
	racedOnly   = way{raced: true}
	unracedOnly = way{unraced: true}
	both        = way{raced: true, unraced: true}
)

// row is one package, or a folder of packages by "/..." at its end, and the way of its tests.
type row struct {
	packages string
	way      way
	reason   string
}

// rows are the packages that are not tested in both ways. The first row that names a package decides. All others run a second
// time without the race detector: for the tests that it disturbs, and for the coverage, whose counters would double the time of
// a raced test.
var rows = []row{
	{"core/internal/system/consumers", unracedOnly, "it builds users' programs, and has no concurrency of its own"},
	{"core/internal/system/tiered", unracedOnly, "core/tieredstore and the stores below it run the same code with the race detector"},
	{"examples/bench", unracedOnly, "a benchmark: its parts are raced"},
	{"examples/bench/internal/report", unracedOnly, "no concurrency"},
	{"examples/quickstart", unracedOnly, "its work is done by a program that it builds"},
	{"examples/payments/internal/program", unracedOnly, "its work is done by a program that it builds"},
	{"core/internal/foreign/...", unracedOnly, "raced, its frameworks would be compiled a second time, and its guards are raced in adapters"},
	{"core/internal/explore/model", alone, "Spin searches all states: an equal model has the same result"},
	{"core/internal/explore/mutants", unracedOnly, "go test of mutants does the work"},
	{"adapters/internal/rpc", unracedOnly, "no concurrency: adapters/grpc and adapters/connect race it"},
	{"adapters/gin/internal/routes", unracedOnly, "no concurrency"},
	{"adapters/openapi", unracedOnly, "no concurrency"},
	{"core/event", unracedOnly, "no concurrency"},
	{"core/internal/examination", unracedOnly, "no concurrency"},
	{"core/internal/records", unracedOnly, "no concurrency"},
	{"core/internal/rules", unracedOnly, "no concurrency"},
	{"core/internal/schema", unracedOnly, "no concurrency"},
	{"core/internal/scopecount", unracedOnly, "no concurrency"},
	{"core/problem", unracedOnly, "no concurrency"},
	{"core/storage", unracedOnly, "no concurrency"},
	{"internal/guarded", unracedOnly, "no concurrency"},
	{"policy", unracedOnly, "no concurrency"},
	{"policy/tablefile", unracedOnly, "no concurrency"},

	{"adapters/chi", racedOnly, "the coverage is counted with the race detector"},
	{"adapters/commerce", racedOnly, "the coverage is counted with the race detector"},
	{"adapters/connect", racedOnly, "the coverage is counted with the race detector"},
	{"adapters/gin", racedOnly, "the coverage is counted with the race detector"},
	{"adapters/grpc", racedOnly, "the coverage is counted with the race detector"},
	{"adapters/httpclient", racedOnly, "much of its time is that of a program that it builds: the coverage is counted with the race detector"},
	{"adapters/inspector", racedOnly, "the coverage is counted with the race detector"},
	{"adapters/inspector/oncekey/internal/verify", racedOnly, "the coverage is counted with the race detector"},
	{"adapters/mcp", racedOnly, "its time is Node's: the coverage is counted with the race detector"},
	{"adapters/internal/declared", racedOnly, "the coverage is counted with the race detector"},
	{"core/handlertest", racedOnly, "the coverage is counted with the race detector"},
	{"core/sealedstore", racedOnly, "the coverage is counted with the race detector"},
	{"core/pgstore", racedOnly, "its time is the server's: the coverage is counted with the race detector"},
	{"core/sqlstore", racedOnly, "its time is the servers': the coverage is counted with the race detector"},
	{"core/redisstore", racedOnly, "its time is the server's: the coverage is counted with the race detector"},
	{"core/internal/lane", racedOnly, "it is not counted"},
	{"core/internal/lazycontext", racedOnly, "it is not counted"},
	{"core/internal/ledger", racedOnly, "it is not counted"},
	{"core/internal/panicked", racedOnly, "it is not counted"},
	{"core/internal/sqlrows", racedOnly, "it is not counted"},
	{"core/internal/wire", racedOnly, "it is not counted"},
	{"core/storetest", racedOnly, "it is not counted"},
	{"failure", racedOnly, "the coverage is counted with the race detector"},
	{"internal/callers", racedOnly, "it is not counted"},
	{"core/internal/system/...", racedOnly, "its time is the servers', and it is not counted"},
	{"internal/testkit/...", racedOnly, "its time is the servers', and it is not counted"},
	{"examples/...", racedOnly, "its time is the servers' and the browser's, and it is not counted"},
}

// longest are the packages that take longest. They come first, so that none of them is left to run alone at the end.
var longest = struct{ raced, unraced []string }{
	raced: []string{
		"core/sqlstore", "core/redisstore", "core/pgstore", "core/internal/system/endtoend", "core/internal/system/failover", "adapters/inspector/oncekey",
		"adapters", "core/tieredstore", "core/internal/system/linearizable", "adapters/mcp", "examples/checkout", "examples/bench/internal/harness",
		"fingerprint", "core", "core/memstore", "core/internal/system/flood", "core/storetest",
	},
	unraced: []string{
		"examples/bench", "core/internal/system/consumers", "core/internal/system/tiered", "core/internal/explore", "core", "core/tieredstore", "adapters",
		"core/memstore", "fingerprint",
	},
}

// wayOf is the way of a package by its import path.
func wayOf(path string) way {
	name := strings.TrimPrefix(path, library+"/")
	for _, r := range rows {
		if folder, whole := strings.CutSuffix(r.packages, "/..."); name == r.packages || whole && (name == folder || strings.HasPrefix(name, folder+"/")) {
			return r.way
		}
	}
	return both
}

// planned returns those packages that a run tests, the longest first.
func planned(run string, packages []string) ([]string, error) {
	belongs, first := func(w way) bool { return w.raced }, longest.raced
	switch run {
	case "raced":
	case "unraced":
		belongs, first = func(w way) bool { return w.unraced }, longest.unraced
	default:
		return nil, fmt.Errorf("-plan is given %q: give raced or unraced", run)
	}
	place := func(path string) int {
		if i := slices.Index(first, strings.TrimPrefix(path, library+"/")); i >= 0 {
			return i
		}
		return len(first)
	}
	chosen := slices.DeleteFunc(slices.Clone(packages), func(path string) bool { return !belongs(wayOf(path)) })
	slices.SortStableFunc(chosen, func(a, b string) int { return cmp.Compare(place(a), place(b)) })
	return chosen, nil
}

// workspace lists the packages of the workspace in a folder.
func workspace(ctx context.Context, folder string) ([]string, error) {
	list, err := command.Output(ctx, folder, nil, "go", "list", "work")
	return strings.Fields(list), err
}
