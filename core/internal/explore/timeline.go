package explore

import (
	"context"
	"errors"
	"fmt"
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
	for i := range h.Facts {
		f := &h.Facts[i]
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

func (f *Fact) action() string {
	switch f.Kind {
	case Sent:
		return fmt.Sprintf("client sends key %d %s", f.Key, strings.Join(strings.Fields(f.Text), " "))
	case Left:
		return "client disconnects"
	case Shown:
		return fmt.Sprintf("client receives %d%s %q", f.Status, f.flagWords(), f.Text)
	case Unshown:
		return fmt.Sprintf("client receives no response (%d%s %q)", f.Status, f.flagWords(), f.Text)
	case Observed:
		return "event " + f.Text
	case Closing:
		return "Shutdown begins"
	case Closed:
		return "Shutdown returns"
	case Operated:
		return fmt.Sprintf("operator changes key %d", f.Key)
	case LookedUp:
		return fmt.Sprintf("operator finds key %d %s", f.Key, f.Text)
	case Changed:
		return fmt.Sprintf("     key %d at the store: %s by hand", f.Key, f.Text)
	case Handled:
		return fmt.Sprintf("operator is done with key %d", f.Key)
	case Rested:
		return "Reconcile returns"
	case Holds:
		return fmt.Sprintf("in the end the store holds for key %d: %s %d", f.Key, f.Text, f.Status)
	default:
		return f.inside()
	}
}

// inside describes a fact of a handler or of a call at the store.
func (f *Fact) inside() string {
	switch f.Kind {
	case Started:
		return "handler starts" + f.flagWords()
	case Broke:
		return "the " + f.Text + " panics"
	case Ran:
		if f.Text == recovers && f.N >= 0 {
			return fmt.Sprintf("%s, told of step %d", f.Text, f.N)
		}
		return "handler: " + f.Text
	case Inquired:
		return fmt.Sprintf("reconciler claims key %d", f.Key)
	case Asked:
		return fmt.Sprintf("FindFunc is asked about key %d", f.Key)
	case Answered:
		return fmt.Sprintf("FindFunc answers: %s", f.Text)
	case Entered:
		return fmt.Sprintf("step %d begins", f.N)
	case Stepped:
		return fmt.Sprintf("STEP %d%s", f.N, f.flagWords())
	case Recorded:
		return fmt.Sprintf("step %d is done", f.N)
	case Took:
		return "EFFECT" + f.flagWords()
	case Stopped:
		return fmt.Sprintf("handler ends, status %d%s", f.Status, f.flagWords())
	case Called:
		return fmt.Sprintf("  %s #%d ->", opNames[f.Op], f.N)
	case Applied:
		return fmt.Sprintf("     %s #%d at the store: %s", opNames[f.Op], f.N, f.Text)
	default:
		return fmt.Sprintf("  %s #%d <- %s", opNames[f.Op], f.N, f.Text)
	}
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
