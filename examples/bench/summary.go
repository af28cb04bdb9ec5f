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

// summary is the beginning of the document: a table, a few charts and sentences.
type summary struct {
	guards    report.Table
	charts    []report.Chart
	sentences []string
}

const guardQuestion = "Time from request to response, the median (p50), in process, without HTTP. *bare* is the handler alone: a guard adds " +
	"the rest. *By hand* is a guard that a team would write for itself, with a claim, a token and SHA-256 of the body. *Least* is the handler with one write of its " +
	"response, or one read. The ratios are requests a second: above 1, oncekey is faster. [A guard on each store](#a-guard-on-each-store) has the details, " +
	"[SQL databases](#sql-databases) MySQL, MariaDB and SQLite beside their own INSERT and SELECT."

func (s *summary) say(format string, figures ...any) {
	s.sentences = append(s.sentences, fmt.Sprintf(format, figures...))
}

// summarize says what was measured in full.
func summarize(found results) summary {
	s := summary{guards: guardTable(found)}
	if c := found.find(processComparison, inProcessBars...); c != nil {
		s.inProcess(c)
	}
	if c := found.find(fmt.Sprintf(inMemoryName, 16), bareServiceName, oursFirst, oursReplay); c != nil {
		s.say("Over loopback with 16 connections and records in memory, a guarded service reaches %s of the bare one's requests a second with first-time requests, and %s with replays.",
			percent(c.Ratio(bareServiceName, oursFirst)), percent(c.Ratio(bareServiceName, oursReplay)))
	}
	if c := found.find(fmt.Sprintf(onRedisName, 16), onRedisBars...); c != nil {
		s.onRedis(c)
	}
	if c := found.find(fmt.Sprintf(guardedPostgres, 64), oursFirst, oursReplay, oneWrite, oneRead); c != nil {
		s.say("With PostgreSQL and 64 callers at once, first-time requests are %s times as fast as an INSERT of the response, and replays %s times as fast as a SELECT by primary key.",
			times(c, oneWrite, oursFirst), times(c, oneRead, oursReplay))
	}
	if c := found.find(fmt.Sprintf(guardedPostgres, 64), oursFirst, oursReplay, durableFirst, durableReplay); c != nil {
		s.say("Beside dbos-transact-golang, a durable engine, on one PostgreSQL with 64 callers at once, first-time requests are %s times as fast as its workflows of one step, and replays %s times.",
			times(c, durableFirst, oursFirst), times(c, durableReplay, oursReplay))
	}
	return s
}

var (
	inProcessBars = []string{
		"net/http: first", "net/http: replay", "tutorial with fingerprint: first", "tutorial with fingerprint: replay",
		"tutorial: first", "tutorial: replay", "fiber v3: first", "fiber v3: replay", bareArm, "fiber v3: bare",
	}
	onRedisBars = []string{
		bareServiceName, oursFirst, oursReplay, tutorialFirst, tutorialReplay, "tutorial, GET first: first", "tutorial, GET first: replay",
		"oncekey, memory before Redis: replay",
	}
)

func (s *summary) inProcess(c *harness.Comparison) {
	chart := report.Chart{Name: "in-process", Title: "Microseconds a request, in process and in memory"}
	for _, arm := range inProcessBars[:8] {
		label, ours := strings.CutPrefix(arm, "net/http: ")
		if ours {
			label = "oncekey: " + label
		}
		chart.Bars = append(chart.Bars, report.Bar{Label: label, Figure: c.Median(arm).Time / 1e3, Ours: ours})
	}
	s.charts = append(s.charts, chart)
	first, replay, bare := c.Median("net/http: first"), c.Median("net/http: replay"), c.Median(bareArm)
	s.say("In process, a guard adds %s and %.0f allocations to a first-time request, and %s and %.0f allocations to a replay.",
		report.Duration(first.Time-bare.Time), math.Floor(first.Allocs)-math.Floor(bare.Allocs),
		report.Duration(replay.Time-bare.Time), math.Floor(replay.Allocs)-math.Floor(bare.Allocs))
	s.say("fiber's middleware, which has no fingerprint, adds %s and %s; the tutorial with a fingerprint adds %s and %s.",
		above(c, "fiber v3: first", "fiber v3: bare"), above(c, "fiber v3: replay", "fiber v3: bare"),
		above(c, "tutorial with fingerprint: first", bareArm), above(c, "tutorial with fingerprint: replay", bareArm))
}

// above is an arm's time over that of its bare arm.
func above(c *harness.Comparison, arm, bare string) string {
	return report.Duration(c.Median(arm).Time - c.Median(bare).Time)
}

func (s *summary) onRedis(c *harness.Comparison) {
	chart := report.Chart{Name: "redis", Title: "Requests a second over HTTP, 16 connections, records in Redis"}
	for _, arm := range onRedisBars {
		bar := report.Bar{Label: arm, Figure: math.Floor(1e9 / c.Median(arm).Time), Ours: strings.HasPrefix(arm, "oncekey")}
		chart.Bars = append(chart.Bars, bar)
	}
	s.charts = append(s.charts, chart)
	s.say("With Redis, replays are %s times as fast as those of the tutorial that begins with SET NX, and first-time requests %s times.",
		times(c, tutorialReplay, oursReplay), times(c, tutorialFirst, oursFirst))
}

func times(c *harness.Comparison, arm, to string) string {
	return report.Number(c.Ratio(arm, to).Median)
}

func percent(ratio harness.Estimate) string { return fmt.Sprintf("%.0f %%", 100*ratio.Median) }

// guardTable has the cost of a guard, with a row for each kind of request at each store.
func guardTable(found results) report.Table {
	table := report.Table{Head: []string{"records in, callers, request", "bare", "oncekey", "by hand", "least", "oncekey : by hand", "oncekey : least"}}
	for _, name := range []string{guardedMemory, guardedRedis, guardedPostgres} {
		for _, callers := range guardedCallers {
			for _, ours := range []string{oursFirst, oursReplay} {
				theirs, least := likeByHand(ours), leastOf(ours)
				c := found.find(fmt.Sprintf(name, callers), bareServiceName, ours, theirs, least)
				if c == nil {
					continue
				}
				_, store, _ := strings.Cut(name, "records in ")
				row := []string{fmt.Sprintf(store, callers) + ", " + strings.TrimPrefix(ours, "oncekey: ")}
				for _, arm := range []string{bareServiceName, ours, theirs, least} {
					row = append(row, report.Duration(c.Median(arm).P50))
				}
				table.Rows = append(table.Rows, append(row, report.Interval(c.Ratio(theirs, ours)), report.Interval(c.Ratio(least, ours))))
			}
		}
	}
	return table
}

// String returns the summary in Markdown.
func (s *summary) String() string {
	var b strings.Builder
	if len(s.guards.Rows) > 0 {
		section := report.Section{Title: "What a guard costs", Text: []string{guardQuestion}, Tables: []report.Table{s.guards}}
		_, _ = section.WriteTo(&b) // a strings.Builder never fails
	}
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
