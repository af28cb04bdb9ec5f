package main

import (
	"context"
	"fmt"
	"math"
	"regexp"

	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
)

// comparison is a set of arms that run against each other, and the table of their costs. To
// add an arm to a comparison, append it to arms; to judge it, add a line to targets.
type comparison struct {
	name    string // unique, and the beginning of the table's caption
	plan    harness.Plan
	arms    []harness.Arm
	columns []column
}

// column is a figure of each arm.
type column struct {
	head string
	cell func(c *harness.Comparison, arm string) string
}

// results are the comparisons of a run by name: the targets and the first table are made from them.
type results map[string]*harness.Comparison

// find returns a comparison in which all these arms ran, or nil.
func (r results) find(comparison string, arms ...string) *harness.Comparison {
	if c := r[comparison]; c != nil && c.Has(arms...) {
		return c
	}
	return nil
}

// compare runs the arms that -arms has chosen, keeps the result and adds its table. The
// first arm always runs, unless it would run alone.
func (s *suite) compare(ctx context.Context, section *report.Section, what comparison) error {
	arms := chosen(what.arms, s.only)
	if len(arms) == 0 {
		return nil
	}
	c, err := harness.Compare(ctx, what.plan, arms)
	if err != nil {
		return fmt.Errorf("%s: %w", what.name, err)
	}
	s.results[what.name] = c
	table := report.Table{Caption: what.name + "; A/A control " + report.Interval(c.Control()), Head: []string{"arm"}}
	if arms[0].Took != nil {
		table.Caption += ", of p99 " + report.Interval(c.ControlOf(harness.P99))
	}
	for _, column := range what.columns {
		table.Head = append(table.Head, column.head)
	}
	for _, arm := range arms {
		row := []string{arm.Name}
		for _, column := range what.columns {
			row = append(row, column.cell(c, arm.Name))
		}
		table.Rows = append(table.Rows, row)
	}
	section.Tables = append(section.Tables, table)
	return nil
}

// chosen returns the arms whose name matches, and the first arm if there are any.
func chosen(arms []harness.Arm, only *regexp.Regexp) []harness.Arm {
	if only == nil {
		return arms
	}
	chosen, matches := arms[:1:1], only.MatchString(arms[0].Name)
	for _, arm := range arms[1:] {
		if only.MatchString(arm.Name) {
			chosen, matches = append(chosen, arm), true
		}
	}
	if !matches {
		return nil
	}
	return chosen
}

// figure is a column of one figure of the median costs.
func figure(head string, format func(harness.Cost) string) column {
	return column{head, func(c *harness.Comparison, arm string) string { return format(c.Median(arm)) }}
}

var (
	timeColumn   = figure("time", func(c harness.Cost) string { return report.Duration(c.Time) })
	rateColumn   = figure("per second", func(c harness.Cost) string { return report.Number(math.Floor(1e9 / c.Time)) })
	p50Column    = figure("p50", func(c harness.Cost) string { return report.Duration(c.P50) })
	p99Column    = figure("p99", func(c harness.Cost) string { return report.Duration(c.P99) })
	cpuColumn    = figure("CPU", func(c harness.Cost) string { return report.Duration(c.CPU) })
	serverColumn = figure("CPU of the server", serverCell)
	bytesColumn  = figure("bytes", func(c harness.Cost) string { return report.Number(math.Floor(c.Bytes)) })
	allocsColumn = figure("allocations", func(c harness.Cost) string { return report.Number(math.Floor(c.Allocs)) })
)

// serverCell is empty for an arm that does not use the server.
func serverCell(c harness.Cost) string {
	if c.Server == 0 {
		return ""
	}
	return report.Duration(c.Server)
}

// timesColumn compares each arm's time with that of another arm.
func timesColumn(head string, to func(arm string) string) column {
	return column{head, func(c *harness.Comparison, arm string) string { return ratioCell(c, arm, to(arm)) }}
}

// speedColumn compares each arm's operations per second with those of another arm.
func speedColumn(head string, to func(arm string) string) column {
	return column{head, func(c *harness.Comparison, arm string) string { return ratioCell(c, to(arm), arm) }}
}

// ratioCell is empty for an arm's ratio to itself, and for an arm that did not run.
func ratioCell(c *harness.Comparison, arm, to string) string {
	if arm == to || !c.Has(arm, to) {
		return ""
	}
	return report.Interval(c.Ratio(arm, to))
}

// arm compares each arm with the same one.
func arm(name string) func(string) string { return func(string) string { return name } }
