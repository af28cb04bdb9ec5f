package handlertest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Report is the result of Examine.
type Report struct {
	want  int // effects of the run without a fault
	runs  []*outcome
	setup error // the service cannot be tested
}

// finding is a fault of the service.
type finding struct {
	wrong string // for the matrix
	advice
}

// advice is the reason of a fault, and the ways to mend it.
type advice struct {
	why string // or ""
	do  []string
}

// String lists the advice, a line each.
func (a advice) String() string {
	var text strings.Builder
	if a.why != "" {
		text.WriteString("\n\twhy: " + a.why)
	}
	for i, way := range a.do {
		text.WriteString([]string{"\n\tdo: ", "\n\tor: "}[min(i, 1)] + way)
	}
	return text.String()
}

// Row is one run.
type Row struct {
	// Point is the call that failed, such as "POST pay.example/charges (pay.go:41)", or
	// "no fault" for the run without a fault.
	Point string
	// When is before, during or after; Fault is the fault.
	When, Fault string
	// Effects counts the effects.
	Effects int
	// Responses are the responses that the client got, in order: a status, with the code
	// of an engine's problem or with "replay", or the reason why there was none.
	Responses []string
	// Told is the final response, or "no final response".
	Told string
	// Wrong lists the faults of the service. Empty: the run is right.
	Wrong []string
}

// Rows returns a row for each run, first the one without a fault.
func (r *Report) Rows() []Row {
	rows := make([]Row, len(r.runs))
	for i, o := range r.runs {
		rows[i] = o.row()
	}
	return rows
}

func (o *outcome) row() Row {
	row := Row{Point: "no fault", Effects: o.effects, Told: "no final response"}
	if o.plan != nil {
		row.Point, row.When, row.Fault = o.plan.point.String(), o.plan.fault.when, o.plan.fault.what
	}
	for i := range o.responses {
		row.Responses = append(row.Responses, o.responses[i].String())
	}
	if last := o.final(); last != nil {
		row.Told = last.String()
	}
	for _, f := range o.findings {
		row.Wrong = append(row.Wrong, f.wrong)
	}
	return row
}

// Err returns nil if every run is right. Otherwise it returns an error for each advice,
// joined, that lists the runs.
func (r *Report) Err() error {
	if r.setup != nil {
		return r.setup
	}
	var errs []error
	rows := map[string][]string{}
	var order []finding
	for _, o := range r.runs {
		for _, f := range o.findings {
			id := f.wrong + f.advice.String()
			if rows[id] == nil {
				order = append(order, f)
			}
			rows[id] = append(rows[id], o.name())
		}
	}
	for _, f := range order {
		after := strings.Join(rows[f.wrong+f.advice.String()], "\n\t       ")
		errs = append(errs, fmt.Errorf("%s\n\tafter: %s%s", f.wrong, after, f.advice))
	}
	return errors.Join(errs...)
}

// name is the run's fault in words.
func (o *outcome) name() string {
	if o.plan == nil {
		return "no fault"
	}
	return fmt.Sprintf("%s %s %s", o.plan.fault.what, o.plan.fault.when, o.plan.point)
}

// String returns the matrix of the runs: a line for each run, below its point.
func (r *Report) String() string {
	lines := [][]string{{"when", "fault", "effects", "responses", "told", "verdict"}}
	points := []string{""}
	for _, row := range r.Rows() {
		verdict := "ok"
		if len(row.Wrong) > 0 {
			verdict = "WRONG: " + strings.Join(row.Wrong, "; ")
		}
		lines = append(lines, []string{row.When, row.Fault, strconv.Itoa(row.Effects), counted(row.Responses), row.Told, verdict})
		points = append(points, row.Point)
	}
	width := make([]int, len(lines[0])-1)
	for _, cells := range lines {
		for i := range width {
			width[i] = max(width[i], utf8.RuneCountInString(cells[i]))
		}
	}
	var text strings.Builder
	for n, cells := range lines {
		if n > 0 && points[n] != points[n-1] {
			text.WriteString(points[n] + "\n")
		}
		for i := range width {
			fmt.Fprintf(&text, "  %-*s", width[i], cells[i])
		}
		text.WriteString("  " + cells[len(width)] + "\n")
	}
	return text.String()
}

// counted joins the responses, with equal neighbours as one.
func counted(responses []string) string {
	var parts []string
	for i := 0; i < len(responses); {
		n := 1
		for i+n < len(responses) && responses[i+n] == responses[i] {
			n++
		}
		part := responses[i]
		if n > 1 {
			part = fmt.Sprintf("%s x%d", part, n)
		}
		parts = append(parts, part)
		i += n
	}
	return strings.Join(parts, ", ")
}

// told lists the responses.
func (o *outcome) told() string { return counted(o.row().Responses) }

// final returns the final response, at which the client stops, or nil.
func (o *outcome) final() *exchange {
	for i := range o.responses {
		if o.responses[i].isFinal() {
			return &o.responses[i]
		}
	}
	return nil
}
