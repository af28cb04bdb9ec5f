package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
)

// chartFolder holds the charts' files, beside the document.
const chartFolder = "docs/charts"

// summary is the beginning of the document: a few charts and sentences. Each part adds
// its own.
type summary struct {
	charts    []report.Chart
	sentences []string
}

func (s *summary) say(format string, figures ...any) {
	s.sentences = append(s.sentences, fmt.Sprintf(format, figures...))
}

func (s *summary) inProcess(c *harness.Comparison) {
	chart := report.Chart{Name: "in-process", Title: "Microseconds a request, in process and in memory"}
	for _, bar := range []struct{ label, arm string }{
		{"oncekey: first", "net/http: first"},
		{"oncekey: replay", "net/http: replay"},
		{"tutorial with fingerprint: first", ""},
		{"tutorial with fingerprint: replay", ""},
		{"tutorial: first", ""},
		{"tutorial: replay", ""},
		{"fiber v3: first", ""},
		{"fiber v3: replay", ""},
	} {
		arm := bar.arm
		if arm == "" {
			arm = bar.label
		}
		chart.Bars = append(chart.Bars, report.Bar{Label: bar.label, Figure: c.Median(arm).Time / 1e3, Ours: bar.arm != ""})
	}
	s.charts = append(s.charts, chart)
	first, replay, bare := c.Median("net/http: first"), c.Median("net/http: replay"), c.Median("net/http: bare")
	s.say("In process, a guard adds %s and %.0f allocations to a first-time request, and %s and %.0f allocations to a replay.",
		report.Duration(first.Time-bare.Time), math.Floor(first.Allocs)-math.Floor(bare.Allocs),
		report.Duration(replay.Time-bare.Time), math.Floor(replay.Allocs)-math.Floor(bare.Allocs))
	s.say("fiber's middleware, which has no fingerprint, adds %s and %s; the tutorial with a fingerprint adds %s and %s.",
		above(c, "fiber v3: first", "fiber v3: bare"), above(c, "fiber v3: replay", "fiber v3: bare"),
		above(c, "tutorial with fingerprint: first", "net/http: bare"), above(c, "tutorial with fingerprint: replay", "net/http: bare"))
}

// above is an arm's time over that of its bare arm.
func above(c *harness.Comparison, arm, bare string) string {
	return report.Duration(c.Median(arm).Time - c.Median(bare).Time)
}

// loopback summarizes one number of connections for each place of the records.
func (s *summary) loopback(place string, connections int, c *harness.Comparison, arms []harness.Arm) {
	const chosen = 16
	switch {
	case connections != chosen:
	case strings.HasSuffix(place, "memory"):
		s.say("Over loopback with %d connections and records in memory, a guarded service reaches %s of the bare one's requests a second with first-time requests, and %s with replays.",
			chosen, percent(c.Ratio("bare", "oncekey in memory: first")), percent(c.Ratio("bare", "oncekey in memory: replay")))
	default:
		chart := report.Chart{Name: "redis", Title: fmt.Sprintf("Requests a second over HTTP, %d connections, records in Redis", chosen)}
		for _, arm := range arms {
			bar := report.Bar{Label: arm.Name, Figure: math.Round(1e9 / c.Median(arm.Name).Time), Ours: strings.HasPrefix(arm.Name, "oncekey")}
			chart.Bars = append(chart.Bars, bar)
		}
		s.charts = append(s.charts, chart)
		s.say("With Redis, replays are %s times as fast as the tutorial's, and first-time requests %s times.",
			times(c, "tutorial on Redis: replay", "oncekey on Redis: replay"), times(c, "tutorial on Redis: first", "oncekey on Redis: first"))
	}
}

func times(c *harness.Comparison, arm, to string) string {
	return report.Number(c.Ratio(arm, to).Median)
}

func percent(ratio harness.Estimate) string { return fmt.Sprintf("%.0f %%", 100*ratio.Median) }

// postgres summarizes the calls of one client at a time.
func (s *summary) postgres(commit string, concurrency int, c *harness.Comparison) {
	if commit == "on" && concurrency == 1 {
		s.say("With PostgreSQL, a replay costs %s times a SELECT by primary key, and a first-time request %s times an INSERT.",
			times(c, "replay", "SELECT"), times(c, "first (acquire and settle)", "INSERT"))
	}
}

// String returns the summary in Markdown.
func (s *summary) String() string {
	var b strings.Builder
	for _, chart := range s.charts {
		fmt.Fprintf(&b, "%s\n\n", chart.Markdown(chartFolder))
	}
	for _, sentence := range s.sentences {
		fmt.Fprintf(&b, "- %s\n", sentence)
	}
	if len(s.sentences) > 0 {
		b.WriteString("\n")
	}
	return b.String()
}
