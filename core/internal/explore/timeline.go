package explore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

var opNames = [numOps]string{"Acquire", "Extend", "Complete", "Release", "Begin", "Commit", "Rollback", "Abandon", "Admit", "Keep", "Keep of zero"}

// Timeline prints the plan and its history, one line per fact. Two histories are
// equal if and only if their timelines are.
func Timeline(p *Plan, h History) string {
	var b strings.Builder
	p.describe(&b)
	b.WriteString("\n        ms  pod request\n")
	for _, f := range h.Facts {
		fmt.Fprintf(&b, "%10s  %3s %4s    %s\n", milliseconds(f.At), number(f.Pod, "p"), number(f.Request, "r"), f.sentence())
	}
	if h.Stuck != "" {
		fmt.Fprintf(&b, "the bubble is stuck: %s\n", h.Stuck)
	}
	return b.String()
}

func number(n int, prefix string) string {
	if n < 0 {
		return "-"
	}
	return fmt.Sprint(prefix, n)
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%d.%06d", d.Milliseconds(), d.Nanoseconds()%1e6)
}

// sentence describes a fact.
func (f *Fact) sentence() string {
	text := f.action()
	if f.Inner {
		text = "  (in core.Do) " + text
	}
	if f.Source >= 0 && f.Source != f.Request {
		text += fmt.Sprintf(" of r%d", f.Source)
	}
	if f.Attempt > 0 {
		text += fmt.Sprintf(", attempt %d", f.Attempt)
	}
	if f.Err != nil {
		text += ": " + reason(f.Err)
	}
	if f.has(Faulty) {
		text += " [fault]"
	}
	return text
}

// actions has the sentences of the kinds. Words in capital letters stand for the fact's fields.
var actions = [...]string{
	Sent:     "client sends key KEY BODY",
	Left:     "client disconnects",
	Shown:    "client receives STATUSFLAGS QUOTED",
	Unshown:  "client receives no response (STATUSFLAGS QUOTED)",
	Started:  "handler startsFLAGS",
	Ran:      "handler: TEXT",
	Broke:    "the TEXT panics",
	Took:     "EFFECTFLAGS",
	Stopped:  "handler ends, status STATUSFLAGS",
	Called:   "  OP #NUMBER ->",
	Applied:  "     OP #NUMBER at the store: TEXT",
	Returned: "  OP #NUMBER <- TEXT",
	Observed: "event TEXT",
	Closing:  "Shutdown begins",
	Closed:   "Shutdown returns",
	Holds:    "in the end the store holds for key KEY: TEXT STATUS",
	Stepped:  "STEP NUMBERFLAGS",
	Recorded: "step NUMBER is done",
	Operated: "operator changes key KEY",
	LookedUp: "operator finds key KEY TEXT",
	Changed:  "     key KEY at the store: TEXT by hand",
	Handled:  "operator is done with key KEY",
	Entered:  "step NUMBER begins",
	Inquired: "reconciler claims key KEY",
	Asked:    "FindFunc is asked about key KEY",
	Answered: "FindFunc answers: TEXT",
	Rested:   "Reconcile returns",
}

func (f *Fact) action() string {
	action := actions[f.Kind]
	if f.Kind == Ran && f.Text == recovers && f.N >= 0 {
		action = "TEXT, told of step NUMBER"
	}
	return strings.NewReplacer("KEY", fmt.Sprint(f.Key), "STATUS", fmt.Sprint(f.Status), "NUMBER", fmt.Sprint(f.N), "OP", opNames[f.Op],
		"FLAGS", f.flagWords(), "QUOTED", strconv.Quote(f.Text), "BODY", strings.Join(strings.Fields(f.Text), " "), "TEXT", f.Text).Replace(action)
}

var flagNames = []struct {
	flag Flags
	name string
}{
	{Replayed, "replayed"},
	{Problem, "problem"},
	{Guarded, "guarded"},
	{Careful, "careful"},
	{Executed, "executed"},
	{Retryable, "retryable"},
	{Panicked, "panicked"},
	{Silent, "silent"},
	{Streamed, "streamed"},
	{Probing, "probe"},
	{InTx, "committed"},
	{Uncertain, "uncertain"},
	{DuringStep, "during-step"},
}

func (f *Fact) flagWords() string {
	var b strings.Builder
	for _, n := range flagNames {
		if f.has(n.flag) {
			b.WriteString(" " + n.name)
		}
	}
	return b.String()
}

// reason is an error's text without parts that differ between runs.
func reason(err error) string {
	switch {
	case errors.Is(err, storage.ErrLeaseLost):
		return "lease lost"
	case errors.Is(err, storage.ErrNotStorable):
		return "refused for good"
	case errors.Is(err, storage.ErrRolledBack):
		return "rolled back"
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline exceeded"
	case errors.Is(err, context.Canceled):
		return "context canceled"
	default:
		return err.Error()
	}
}
