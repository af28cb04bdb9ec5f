package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

// printer writes results in the format of the command line. Its outputs are terminals, so
// no text of others gets to the real ones as it is.
type printer struct {
	world
	format string
	hide   func(string) string // the passwords of the command line
	stdout *terminal
	stderr *terminal
	colour bool

	revealed bool // the command line asks for a body
}

func newPrinter(w world, hide func(string) string) *printer {
	p := &printer{hide: hide, stdout: &terminal{to: w.out}, stderr: &terminal{to: w.err, hide: hide}, colour: coloured(w.out)}
	p.world = world{w.in, p.stdout, p.stderr, w.network}
	return p
}

func (p *printer) flush() {
	p.stdout.flush()
	p.stderr.flush()
}

// end writes the rest, and returns the exit code. Output that was not written is no success.
func (p *printer) end(code int) int {
	p.flush()
	if p.stdout.err != nil && code == exitDone {
		p.fail(p.stdout.err)
		p.flush()
		return exitNothing
	}
	return code
}

// fail writes an error.
func (p *printer) fail(err error) {
	for i, line := range linesOf(err) {
		before := "oncekey: "
		if i > 0 {
			before = "  "
		}
		fmt.Fprintln(p.err, before+safe(oneLine(p.hide(line))))
	}
}

// oneLine joins the lines of a driver's error.
func oneLine(text string) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, " ")
}

// linesOf returns the lines of an error that joins several, or of a page's fault, and any
// other error as one.
func linesOf(err error) (lines []string) {
	if f, isFault := errors.AsType[*pageFaultError](err); isFault {
		return f.lines
	}
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return []string{err.Error()}
	}
	var texts []string
	for _, one := range joined.Unwrap() {
		texts = append(texts, one.Error())
		lines = append(lines, linesOf(one)...)
	}
	if strings.Join(texts, "\n") != err.Error() { // a text with two errors in it
		return []string{err.Error()}
	}
	return lines
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

// documents writes a result as JSON: as a whole, or each part in a line of its own.
func documents[T any](p *printer, whole any, parts []T) error {
	if p.format == "json" {
		return p.document(whole)
	}
	for _, one := range parts {
		if err := p.document(one); err != nil {
			return err
		}
	}
	return nil
}

func (p *printer) line(format string, args ...any) {
	fmt.Fprintln(p.out, safe(strings.TrimRight(fmt.Sprintf(format, args...), " ")))
}

// table writes rows in columns.
func (p *printer) table(rows [][]string) error {
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', tabwriter.DiscardEmptyColumns)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = safe(cell)
		}
		fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	}
	return w.Flush()
}

// The colours of states and grades.
var colours = map[string]string{
	"abandoned": "31", "mend": "31", "in_progress": "34", "released": "34", "completed": "32", "good": "32",
	"unreplayable": "33", "failed": "33", "look": "33",
}

// emphasized writes a line with a state or a grade in it, in its colour on a terminal.
func (p *printer) emphasized(before, state, after string) {
	text := strings.ToUpper(strings.ReplaceAll(state, "_", " "))
	code := colours[state]
	if !p.colour || code == "" {
		p.line("%s", before+text+after)
		return
	}
	_, _ = io.WriteString(p.out, safe(before))
	p.stdout.coloured(code, text)
	p.line("%s", after)
}

// idDigits is the number of digits that stand for a record where people read them.
const idDigits = 8

func short(id string) string { return id[:min(idDigits, len(id))] }

// span returns a duration in at most two units: 4m24s, 47h55m.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + span(-max(d, -math.MaxInt64)) // the shortest has no positive counterpart
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Hour:
		return withoutZero(d.Round(time.Second).String(), "m0s")
	default:
		return withoutZero(withoutZero(d.Round(time.Minute).String(), "m0s"), "h0m")
	}
}

// withoutZero returns a duration's text without its last unit, if the text ends with this zero.
func withoutZero(text, zero string) string {
	if before, ends := strings.CutSuffix(text, zero); ends {
		return before + zero[:1]
	}
	return text
}

// ago returns the time since t, or a hyphen for the zero time.
func ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return span(time.Since(t))
}
