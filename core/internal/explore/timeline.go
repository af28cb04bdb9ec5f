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

var modeNames = [...]string{
	"fails and is not applied", "fails and is applied", "hangs", "hangs and is applied", "is refused",
	"has a slow request", "has a slow reply", "is applied after the caller gave up",
	"panics and is not applied", "panics and is applied",
	Corrupt: "finds a corrupt record", Unreadable: "finds a record that cannot be read now", Forbidden: "is forbidden", Sealed: "finds a sealed response",
}

var callbackNames = [numCallbacks]string{"Observer", "Classifier", "ProblemWriter", "RecoverFunc", "Scope"}

var jumpNames = [...]string{
	Skip:       "the store's clock jumps",
	Suspension: "all pods are suspended, and the store goes on",
	SetBack:    "the pods' wall clocks are set back",
}

var outageNames = [numOutages]string{
	"is partitioned from the store", "is cut off from the store", "is frozen", "is killed", "shuts down",
}

var stepNames = map[StepKind]string{
	Sleep: "sleep", Await: "await", Look: "look", Effect: "effect", CarefulEffect: "look+effect", MarkExecuted: "MarkExecuted",
	MarkRetryable: "MarkRetryable", MarkUncertain: "MarkUncertain", Flush: "flush", Respond: "respond", Write: "write", Panic: "panic", CallDo: "core.Do", Keep: "KeepFor", InStep: "core.Step", Beside: "go core.Step",
}

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

func (p *Plan) describe(b *strings.Builder) {
	y := p.Policy
	fmt.Fprintf(b, "policy: TTL %v, Remember %v, LockTTL %v, StoreTimeout %v, Wait %v, MaxRun %v, MaxResponseBytes %d, OnAbandoned %s",
		y.TTL, y.Remember, y.LockTTL, y.StoreTimeout, y.Wait, y.MaxRun, y.MaxResponse, [...]string{"Reexecute", "Refuse", "Recover"}[y.Abandoned])
	for _, option := range []struct {
		on   bool
		name string
	}{
		{y.FailOpen, "FailOpen"},
		{y.Transactional, "Transactional"},
		{y.Observe, "Observe"},
		{y.Keep5xx, "Classifier keeps 5xx"},
		{y.Optional, "Required(false)"},
		{y.OnlySuccess, "Classifier keeps only 2xx"},
		{y.Include, "IncludeFields"},
		{y.KeyField, "KeyField"},
		{y.OtherHeaders, "other headers, KeyFormat, RedactFields"},
		{p.Near, "a store that needs no claim of a retry"},
	} {
		if option.on {
			fmt.Fprintf(b, ", %s", option.name)
		}
	}
	for _, list := range []struct {
		name     string
		statuses []string
	}{{"Free", y.Free}, {"Keep", y.Keep}, {"Uncertain", y.Uncertain}} {
		if len(list.statuses) > 0 {
			fmt.Fprintf(b, ", %s=%s", list.name, strings.Join(list.statuses, ","))
		}
	}
	if p.Unsettled > 0 {
		fmt.Fprintf(b, ", MaxUnsettled %d", p.Unsettled)
	}
	if p.isLimited() {
		b.WriteString(describeLimit(p.Limit))
	}
	b.WriteByte('\n')
	for _, pod := range p.Pods {
		fmt.Fprintf(b, "pod p%d", pod.ID)
		if pod.Exclude {
			b.WriteString(" excludes the member nonce")
		}
		b.WriteByte('\n')
	}
	for _, r := range p.Requests {
		fmt.Fprintf(b, "request r%d at %v to p%d, key %d, %s, handler:", r.ID, r.At, r.Pod, r.Key, strings.Join(strings.Fields(p.bodyOf(&r)), " "))
		for _, s := range r.Handler {
			fmt.Fprintf(b, " %s", s)
		}
		if r.Skip {
			b.WriteString("; a dry run")
		}
		if r.NoKey {
			b.WriteString("; without a key")
		}
		if r.Newer {
			b.WriteString("; its process writes newer steps")
		}
		if r.Refused {
			b.WriteString("; the store refuses its response for good")
		}
		if r.Leave > 0 {
			fmt.Fprintf(b, "; its client leaves after %v", r.Leave)
		}
		b.WriteByte('\n')
	}
	p.describeFaults(b)
}

func (p *Plan) describeFaults(b *strings.Builder) {
	for _, c := range p.Calls {
		fmt.Fprintf(b, "fault: %s #%d of r%d %s (%v)\n", opNames[c.Op], c.N, c.Request, modeNames[c.Mode], c.For)
	}
	for _, o := range p.Outages {
		fmt.Fprintf(b, "fault: p%d %s at %v for %v\n", o.Pod, outageNames[o.Kind], o.From, o.For)
	}
	for _, j := range p.Jumps {
		fmt.Fprintf(b, "fault: %s by %v at %v\n", jumpNames[j.Kind], j.By, j.At)
	}
	for _, o := range p.Operations {
		fmt.Fprintf(b, "operator: %s by p%d at %v after a look at %v\n", o, o.Pod, o.At+o.Pause, o.At)
	}
	for i := range p.Reconcilers {
		fmt.Fprintf(b, "reconciler: p%d %s\n", p.Reconcilers[i].Pod, &p.Reconcilers[i])
	}
	for _, c := range p.Panics {
		fmt.Fprintf(b, "fault: call #%d of the %s for r%d panics\n", c.N, callbackNames[c.In], c.Request)
	}
}

func (s Step) String() string {
	switch s.Do {
	case Sleep, Await, CallDo, Keep:
		return fmt.Sprintf("%s(%v)", stepNames[s.Do], s.For)
	case InStep, Beside:
		return fmt.Sprintf("%s(%d, %v)", stepNames[s.Do], s.N, s.For)
	case Respond, Write:
		return fmt.Sprintf("%s(%d)", stepNames[s.Do], s.N)
	default:
		return stepNames[s.Do]
	}
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
