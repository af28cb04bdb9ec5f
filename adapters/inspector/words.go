package inspector

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// functions are those of the templates that make words.
var functions = template.FuncMap{
	"short": short, "ago": func(t time.Time) string { return inWords(time.Since(t)) + " ago" },
	"in": func(t time.Time) string { return inWords(time.Until(t)) }, "words": inWords, "number": number,
	"clock": clock, "moment": moment, "iso": func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
	"tone": toneOf, "stateName": stateName, "join": strings.Join, "plural": plural,
	"lease": func(left int64) string { return inWords(time.Duration(max(left, -left)) * time.Millisecond) },
}

// idDigits is the number of digits that stand for a record where people read them.
const idDigits = 8

func short(id string) string { return id[:min(idDigits, len(id))] }

// inWords returns a duration as people say it, in at most two units.
func inWords(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = max(0, d); {
	case d < time.Millisecond:
		return "less than 1 ms"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Truncate(100*time.Millisecond).Seconds(), 'f', -1, 64) + " s"
	case d < 2*time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d.Minutes())) + " min"
	case d < 3*day:
		return twoUnits(d, time.Hour, "h", time.Minute, "min")
	default:
		return twoUnits(d, day, "d", time.Hour, "h")
	}
}

func twoUnits(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	text := strconv.FormatInt(int64(d/large), 10) + " " + largeName
	if rest := d % large / small; rest > 0 {
		text += " " + strconv.FormatInt(int64(rest), 10) + " " + smallName
	}
	return text
}

// number returns 48200 as 48,200.
func number(n int) string {
	digits := strconv.Itoa(n)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + many
}

// clock returns the time of day, with the date unless it is today.
func clock(t time.Time) string {
	t = t.UTC()
	if t.Format(time.DateOnly) == time.Now().UTC().Format(time.DateOnly) {
		return t.Format("15:04:05.000")
	}
	return t.Format("2 Jan 15:04:05.000")
}

// moment returns a time to which a sentence refers.
func moment(t time.Time) string { return t.UTC().Format("2 Jan 2006 15:04:05") + " UTC" }

// The states of records as the page and its JSON name them: those of package storage, and
// abandoned for a record in progress whose lease has ended.
const (
	abandonedState = "abandoned"
	openState      = "open" // in progress, abandoned or not: the filter of the first page
	allStates      = "all"
)

// isByHand reports whether an operator has settled the key as happened.
func isByHand(record *storage.Record) bool {
	return record.Status == storage.StatusByHand && (record.State == storage.Unreplayable || record.State == storage.Expired)
}

func stateOf(record *storage.Record) string {
	if record.Abandoned() {
		return abandonedState
	}
	return record.State.String()
}

// stateName is a state as people read it.
func stateName(state string) string {
	switch state {
	case "in_progress":
		return "in flight"
	case openState:
		return "abandoned or in flight"
	case allStates:
		return "any"
	default:
		return state
	}
}

// toneOf returns the class of a state's badge, or of a finding's grade.
func toneOf(state string) string {
	switch state {
	case abandonedState, "mend":
		return "bad"
	case "in_progress", "released":
		return "flight"
	case "completed", "good":
		return "good"
	case "unreplayable", "failed", "look":
		return "warn"
	default:
		return "plain"
	}
}

func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	default:
		return fmt.Sprintf("%s times", number(n))
	}
}
