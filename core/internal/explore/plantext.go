package explore

import (
	"fmt"
	"strings"
)

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

// option is a part of a plan that is described only if it is on.
type option struct {
	on   bool
	text string
}

func (o option) describe(b *strings.Builder, separator string) {
	if o.on {
		b.WriteString(separator + o.text)
	}
}

func (p *Plan) describe(b *strings.Builder) {
	y := p.Policy
	fmt.Fprintf(b, "policy: TTL %v, Remember %v, LockTTL %v, StoreTimeout %v, Wait %v, MaxRun %v, MaxResponseBytes %d, OnAbandoned %s",
		y.TTL, y.Remember, y.LockTTL, y.StoreTimeout, y.Wait, y.MaxRun, y.MaxResponse, [...]string{"Reexecute", "Refuse", "Recover"}[y.Abandoned])
	for _, option := range []option{
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
		{len(y.Release) > 0, "Release=" + strings.Join(y.Release, ",")},
		{len(y.Keep) > 0, "Keep=" + strings.Join(y.Keep, ",")},
		{len(y.Uncertain) > 0, "Uncertain=" + strings.Join(y.Uncertain, ",")},
		{p.Unsettled > 0, fmt.Sprintf("MaxUnsettled %d", p.Unsettled)},
		{p.isLimited(), fmt.Sprintf("at most %d keys in flight and %d new ones a minute", p.Limit.InFlight, p.Limit.PerMinute)},
	} {
		option.describe(b, ", ")
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
		for _, option := range []option{
			{r.Skip, "a dry run"},
			{r.NoKey, "without a key"},
			{r.Newer, "its process writes newer steps"},
			{r.Refused, "the store refuses its response for good"},
			{r.Leave > 0, fmt.Sprintf("its client leaves after %v", r.Leave)},
		} {
			option.describe(b, "; ")
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
