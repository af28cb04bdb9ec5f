package report_test

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
)

func TestNumbers(t *testing.T) {
	t.Parallel()
	for x, want := range map[float64]string{
		0: "0", 4: "4", 1234.5: "1234", 12.34: "12.3", 1.234: "1.23", 0.5: "0.50", 0.0123: "0.012", 0.00123: "0.0012", -0.567: "-0.57",
	} {
		if got := report.Number(x); got != want {
			t.Errorf("Number(%v) = %q, want %q", x, got, want)
		}
	}
	for ns, want := range map[float64]string{250: "250 ns", 12300: "12.3 µs", 45e6: "45 ms", 2.5e9: "2500 ms"} {
		if got := report.Duration(ns); got != want {
			t.Errorf("Duration(%v) = %q, want %q", ns, got, want)
		}
	}
}

func TestIntervals(t *testing.T) {
	t.Parallel()
	for want, estimate := range map[string]harness.Estimate{
		"1.50 [1.25, 1.75]": {Median: 1.5, Low: 1.25, High: 1.75}, "4": {Median: 4, Low: 4, High: 4},
	} {
		if got := report.Interval(estimate); got != want {
			t.Errorf("Interval(%+v) = %q, want %q", estimate, got, want)
		}
	}
}

func TestSection(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	section := report.Section{
		Title: "Title", Text: []string{"Text."}, Notes: []string{"A note."},
		Tables: []report.Table{{Caption: "Caption", Head: []string{"arm", "ns"}, Rows: [][]string{{"a|b", "1"}}}},
	}
	if _, err := section.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	const want = "## Title\n\nText.\n\n**Caption**\n\n| arm | ns |\n|---|--:|\n| a\\|b | 1 |\n\n- A note.\n\n"
	if b.String() != want {
		t.Errorf("wrote\n%s\nwant\n%s", b.String(), want)
	}
}

func TestCharts(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "docs", "charts")
	chart := report.Chart{Name: "speed", Title: "Time <µs>", Bars: []report.Bar{{"ours & more", 5, true}, {"theirs", 10, false}, {"none", 0, false}}}
	if err := report.WriteCharts(folder, []report.Chart{chart}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"speed-light.svg", "speed-dark.svg"} {
		drawn, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		texts, paths := elements(t, string(drawn))
		if got, want := strings.Join(texts, "|"), "Time <µs>|ours & more|5|theirs|10|none|0"; got != want {
			t.Errorf("%s says %q, want %q", name, got, want)
		}
		// The bar of 10 is drawn over the whole length, the bar of 5 over half of it.
		if len(paths) != 3 || !strings.Contains(paths[0], "h206.0") || !strings.Contains(paths[1], "h416.0") {
			t.Errorf("%s has the bars %q", name, paths)
		}
	}
	const want = `<picture><source media="(prefers-color-scheme: dark)" srcset="docs/charts/speed-dark.svg">` +
		`<img src="docs/charts/speed-light.svg" alt="Time &lt;µs&gt;"></picture>`
	if got := chart.Markdown("docs/charts"); got != want {
		t.Errorf("the Markdown is %s, want %s", got, want)
	}
}

// elements returns the texts and the paths of a drawing, and fails if it is no XML.
func elements(t *testing.T, drawing string) (texts, paths []string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(drawing))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return texts, paths
		}
		if err != nil {
			t.Fatalf("not XML: %v\n%s", err, drawing)
		}
		switch token := token.(type) {
		case xml.CharData:
			if text := strings.TrimSpace(string(token)); text != "" {
				texts = append(texts, text)
			}
		case xml.StartElement:
			for _, attribute := range token.Attr {
				if attribute.Name.Local == "d" {
					paths = append(paths, attribute.Value)
				}
			}
		}
	}
}

func TestNoChartsNoFolder(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "charts")
	if err := report.WriteCharts(folder, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(folder); err == nil {
		t.Error("a folder was made for no charts")
	}
}
