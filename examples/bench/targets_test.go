package main

import (
	"math"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/internal/testkit"
)

// found has a comparison of known costs.
func found() results {
	cost := func(time float64) []harness.Cost {
		return []harness.Cost{{Time: time, CPU: time, Server: 2 * time, P99: 10 * time, Latencies: harness.HistogramOf([]float64{time})}}
	}
	return results{"c": harness.NewComparison("bare", map[string][]harness.Cost{
		"bare": cost(1000), "ours": cost(2000), "theirs": cost(4000), "floor": cost(500), harness.ControlArm: cost(1000),
	})}
}

// pooledTo2 rounds a ratio of buckets that are 1 % wide.
func pooledTo2(q float64) measure {
	return func(r results) (harness.Estimate, bool) {
		e, measured := pooled("c", q, "ours", "bare")(r)
		e.Median = math.Round(10*e.Median) / 10
		return e, measured
	}
}

func TestMeasures(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		measure measure
		want    float64 // zero: not measured
	}{
		"the time above bare, in floors": {overhead("c", "ours", "bare", "floor", ""), 2},
		"the time above bare, of both":   {overhead("c", "theirs", "bare", "ours", "bare"), 3},
		"operations a second":            {speed("c", "ours", "theirs"), 2},
		"pooled latencies":               {pooledTo2(0.99), 2},
		"an arm that did not run":        {speed("c", "ours", "another"), 0},
		"a bare arm that did not run":    {overhead("c", "ours", "bare", "theirs", "another"), 0},
		"no pool of such an arm":         {pooled("c", 0.99, "ours", "another"), 0},
		"a comparison that did not run":  {speed("another", "ours", "bare"), 0},
	} {
		if got, measured := test.measure(found()); got.Median != test.want || measured != (test.want != 0) {
			t.Errorf("%s is %v (measured: %t), want %v", name, got.Median, measured, test.want)
		}
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	bytesOf := func(results) (harness.Estimate, bool) {
		return harness.Estimate{Median: 300, Low: 300, High: 300}, true
	}
	section := judge([]target{
		{"at most, exactly", true, 300, bytesOf, "never printed"},
		{"at most, above", true, 299, bytesOf, "the reason"},
		{"at least, exactly", false, 300, bytesOf, "never printed"},
		{"at least, below", false, 301, bytesOf, ""},
		{"far above", true, 1, bytesOf, "the reason"},
		{"unknown", false, 1, speed("another", "ours", "bare"), "never printed"},
	}, found())
	const want = "| at most, exactly | <= 300 | 300 | reached |\n| at most, above | <= 299 | 300 | **not reached** |\n" +
		"| at least, exactly | >= 300 | 300 | reached |\n| at least, below | >= 301 | 300 | **not reached** |\n" +
		"| far above | <= 1 | 300 | **not reached** |\n" +
		"| unknown | >= 1 | not measured |  |\n\n- at most, above; far above: the reason\n\n"
	if !strings.HasSuffix(section.String(), want) {
		t.Errorf("the table is\n%s\nwant\n%s", section.String(), want)
	}
}

func TestTargetsHaveNames(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, target := range targets() {
		if seen[target.what] {
			t.Errorf("two targets are called %q", target.what)
		}
		seen[target.what] = true
	}
	testkit.Equal(t, len(seen), 46, "targets")
}
