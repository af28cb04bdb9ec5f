package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

// printer writes results in the format of the command line.
type printer struct {
	world
	format string
	colour bool
}

// coloured reports whether out is a terminal that shows colours (https://no-color.org).
func coloured(out io.Writer) bool {
	file, isFile := out.(*os.File)
	if !isFile || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// isTable reports whether people read the output.
func (p *printer) isTable() bool { return p.format == "table" }

// document writes one result as JSON.
func (p *printer) document(result any) error {
	encoder := json.NewEncoder(p.out)
	encoder.SetEscapeHTML(false)
	if p.format == "json" {
		encoder.SetIndent("", "  ")
	}
	return encoder.Encode(result)
}

func (p *printer) line(format string, args ...any) {
	fmt.Fprintln(p.out, strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

// table writes rows in columns. Texts of others cannot forge lines or colours.
func (p *printer) table(rows [][]string) error {
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', tabwriter.DiscardEmptyColumns)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = plain(cell)
		}
		fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	}
	return w.Flush()
}

// plain replaces control characters, because the texts come from clients and other processes.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, text)
}

// The colours of states and grades.
var colours = map[string]string{
	"abandoned": "31", "mend": "31", "in_progress": "34", "completed": "32", "good": "32",
	"unreplayable": "33", "failed": "33", "look": "33",
}

// emphasized returns a state or a grade as a terminal shows it.
func (p *printer) emphasized(state string) string {
	text := strings.ToUpper(strings.ReplaceAll(plain(state), "_", " "))
	if code := colours[state]; p.colour && code != "" {
		return "\x1b[1;" + code + "m" + text + "\x1b[0m"
	}
	return text
}

// idDigits is the number of digits that stand for a record where people read them.
const idDigits = 8

func short(id string) string { return id[:min(idDigits, len(id))] }

// span returns a duration in at most two units: 4m24s, 47h55m.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + span(-d)
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Hour:
		return strings.TrimSuffix(d.Round(time.Second).String(), "m0s") + minutes(d.Round(time.Second))
	default:
		text := strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
		return strings.TrimSuffix(text, "h0m") + hours(d.Round(time.Minute))
	}
}

// minutes and hours restore the unit that span has cut with its zeros.
func minutes(d time.Duration) string {
	if d >= time.Minute && d%time.Minute == 0 {
		return "m"
	}
	return ""
}

func hours(d time.Duration) string {
	if d%time.Hour == 0 {
		return "h"
	}
	return ""
}

// ago returns the time since t, or a hyphen for the zero time.
func ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return span(time.Since(t))
}
