package report_test

import (
	"testing"

	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
	"github.com/oncekey/oncekey/internal/testkit"
)

func TestNumbers(t *testing.T) {
	t.Parallel()
	for x, want := range map[float64]string{
		0: "0", 4: "4", 1234.5: "1234", 12.34: "12.3", 1.234: "1.23", 0.5: "0.50", 0.0123: "0.012", 0.00123: "0.0012", -0.567: "-0.57",
	} {
		testkit.Equal(t, report.Number(x), want, "Number(%v)", x)
	}
	for ns, want := range map[float64]string{250: "250 ns", 12300: "12.3 µs", 45e6: "45 ms", 2.5e9: "2500 ms"} {
		testkit.Equal(t, report.Duration(ns), want, "Duration(%v)", ns)
	}
}

func TestIntervals(t *testing.T) {
	t.Parallel()
	for want, estimate := range map[string]harness.Estimate{
		"1.50 [1.25, 1.75]": {Median: 1.5, Low: 1.25, High: 1.75}, "4": {Median: 4, Low: 4, High: 4},
	} {
		testkit.Equal(t, report.Interval(estimate), want, "Interval(%+v)", estimate)
	}
}

func TestSection(t *testing.T) {
	t.Parallel()
	section := report.Section{
		Title: "Title", Text: []string{"Text."}, Notes: []string{"A note."},
		Tables: []report.Table{{Caption: "Caption", Head: []string{"arm", "ns"}, Rows: [][]string{{"a|b", "1"}}}},
	}
	const want = "## Title\n\nText.\n\n**Caption**\n\n| arm | ns |\n|---|--:|\n| a\\|b | 1 |\n\n- A note.\n\n"
	if got := section.String(); got != want {
		t.Errorf("wrote\n%s\nwant\n%s", got, want)
	}
}
