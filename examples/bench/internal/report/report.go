// Package report writes measurements as Markdown.
package report

import (
	"fmt"
	"strings"

	"github.com/oncekey/oncekey/examples/bench/internal/harness"
)

// Section is one part of the suite.
type Section struct {
	Title  string
	Text   []string // paragraphs
	Tables []Table
	Notes  []string // a list at the end
}

// Table has equal numbers of columns in its head and in each row.
type Table struct {
	Caption string
	Head    []string
	Rows    [][]string
}

// Interval is a median with its interval: "1.23 [1.20, 1.26]". A figure without noise has no
// interval.
func Interval(e harness.Estimate) string {
	if e.Low == e.High {
		return Number(e.Median)
	}
	return fmt.Sprintf("%s [%s, %s]", Number(e.Median), Number(e.Low), Number(e.High))
}

// Number formats three significant digits, or all digits before the point.
func Number(x float64) string {
	switch size := max(x, -x); {
	case x == float64(int64(x)):
		return fmt.Sprintf("%.0f", x)
	case size >= 100:
		return fmt.Sprintf("%.0f", x)
	case size >= 10:
		return fmt.Sprintf("%.1f", x)
	case size >= 0.1:
		return fmt.Sprintf("%.2f", x)
	case size >= 0.01:
		return fmt.Sprintf("%.3f", x)
	default:
		return fmt.Sprintf("%.4f", x)
	}
}

// Duration formats nanoseconds in a suitable unit.
func Duration(nanoseconds float64) string {
	switch {
	case nanoseconds < 10e3:
		return Number(nanoseconds) + " ns"
	case nanoseconds < 10e6:
		return Number(nanoseconds/1e3) + " µs"
	default:
		return Number(nanoseconds/1e6) + " ms"
	}
}

// String returns the section in Markdown.
func (s Section) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n", s.Title)
	for _, paragraph := range s.Text {
		fmt.Fprintf(&b, "%s\n\n", paragraph)
	}
	for _, table := range s.Tables {
		table.write(&b)
	}
	for _, note := range s.Notes {
		fmt.Fprintf(&b, "- %s\n", note)
	}
	if len(s.Notes) > 0 {
		b.WriteString("\n")
	}
	return b.String()
}

// write aligns the first column to the left, and figures to the right.
func (t Table) write(b *strings.Builder) {
	if t.Caption != "" {
		fmt.Fprintf(b, "**%s**\n\n", t.Caption)
	}
	fmt.Fprintf(b, "| %s |\n|---|%s\n", strings.Join(t.Head, " | "), strings.Repeat("--:|", len(t.Head)-1))
	for _, row := range t.Rows {
		for i, cell := range row {
			row[i] = strings.ReplaceAll(cell, "|", "\\|")
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
	}
	b.WriteString("\n")
}
