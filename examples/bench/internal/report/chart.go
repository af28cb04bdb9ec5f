package report

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"
)

// Chart is a bar chart. WriteCharts draws it as two SVG files, for a light and for a dark
// page, and Markdown shows the one that suits the reader's page.
type Chart struct {
	Name  string // of the files
	Title string // names the figure and its unit
	Bars  []Bar
}

// Bar is one figure of a chart.
type Bar struct {
	Label  string
	Figure float64
	Ours   bool // drawn in the accent colour
}

// theme has the colours of a page.
type theme struct{ name, text, label, ours, others string }

var themes = []theme{
	{"light", "#0b0b0b", "#52514e", "#2a78d6", "#b3b1a8"},
	{"dark", "#ffffff", "#c3c2b7", "#3987e5", "#6b6a64"},
}

const (
	chartWidth = 800
	barsFrom   = 300 // the labels stand to the left
	longestBar = 420 // the rest of the width is for the figure
	barHeight  = 18
	barPitch   = 26
	barsBelow  = 44 // the title stands above
)

// svg draws the chart. A bar is square at its base and round at its end.
func (c Chart) svg(t theme) string {
	height, largest := barsBelow+len(c.Bars)*barPitch, 0.0
	for _, bar := range c.Bars {
		largest = max(largest, bar.Figure)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s" font-family="system-ui, sans-serif" font-size="14">`+"\n",
		chartWidth, height, chartWidth, height, html.EscapeString(c.Title))
	fmt.Fprintf(&b, `<text x="0" y="20" font-size="16" font-weight="600" fill="%s">%s</text>`+"\n", t.text, html.EscapeString(c.Title))
	for i, bar := range c.Bars {
		top, colour := barsBelow+i*barPitch, t.others
		if bar.Ours {
			colour = t.ours
		}
		length := max(4, bar.Figure/max(largest, 1e-9)*longestBar)
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end" fill="%s">%s</text>`+"\n", barsFrom-10, top+14, t.label, html.EscapeString(bar.Label))
		fmt.Fprintf(&b, `<path d="M%d %dh%.1fq4 0 4 4v%dq0 4 -4 4h-%.1fz" fill="%s"/>`+"\n", barsFrom, top, length-4, barHeight-8, length-4, colour)
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" fill="%s">%s</text>`+"\n", barsFrom+length+8, top+14, t.text, Number(bar.Figure))
	}
	return b.String() + "</svg>\n"
}

// Markdown shows the chart's files in a folder beside the document.
func (c Chart) Markdown(folder string) string {
	return fmt.Sprintf(`<picture><source media="(prefers-color-scheme: dark)" srcset="%[1]s/%[2]s-dark.svg"><img src="%[1]s/%[2]s-light.svg" alt="%[3]s"></picture>`,
		folder, c.Name, html.EscapeString(c.Title))
}

// WriteCharts writes the files of all charts into the folder, and makes the folder.
func WriteCharts(folder string, charts []Chart) error {
	if len(charts) == 0 {
		return nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // documentation is public
		return err
	}
	for _, chart := range charts {
		for _, t := range themes {
			file := filepath.Join(folder, chart.Name+"-"+t.name+".svg")
			if err := os.WriteFile(file, []byte(chart.svg(t)), 0o644); err != nil { //nolint:gosec // documentation is public
				return err
			}
		}
	}
	return nil
}
