package explore

import (
	"slices"
	"time"

	"github.com/oncekey/oncekey/core"
)

// notReal has the rules that do not apply to a real run, with the reasons.
var notReal = map[Rule]string{
	Stuck:       "only a bubble knows of its goroutines; goleak looks at the end",
	StaleReplay: "no TTL ends within a plan, because a store does not report when it deletes a record",
	StepTooLate: "a context may end in the moment in which a step begins",
	AgeWrong:    "the history of a real run has no ages",
	CallCutOff:  "a call that fails counts as hit by a fault, because a network does not report its faults",
}

// duringTrouble has the rules that do not apply if a server is unreachable at the end.
var duringTrouble = []Rule{KeyBlocked, ShutdownLate, ShutdownFails}

// JudgeReal returns every promise that the history of a real run breaks.
func JudgeReal(p *Plan, h History) []Violation {
	return slices.DeleteFunc(Judge(p, h), func(v Violation) bool {
		_, unknown := notReal[v.Rule]
		return unknown || p.real.late && slices.Contains(duringTrouble, v.Rule)
	})
}

// DrawReal makes the plan of a seed for RunReal. The plan is short, clocks do not
// jump, records outlive the plan, no operator changes one, no pod reconciles, and a busy machine can keep the
// leases and timeouts.
func DrawReal(seed uint64, transacts bool) Plan {
	p := Draw(seed)
	y := &p.Policy
	y.TTL, p.Jumps, p.Operations, p.Reconcilers, p.Unsettled, p.Limit = 10*time.Minute, nil, nil, nil, 0, core.ScopeLimit{}
	y.LockTTL = min(max(y.LockTTL, 600*time.Millisecond), 2*time.Second)
	y.StoreTimeout = max(y.StoreTimeout, 300*time.Millisecond)
	y.Wait = min(y.Wait, 2*time.Second)
	y.Transactional = y.Transactional && transacts
	for i := range p.Requests {
		r := &p.Requests[i]
		r.At %= 1500 * time.Millisecond
		for s := range r.Handler {
			if r.Handler[s].Do == Beside { // the handler and the step may end in one moment
				r.Handler[s].Do, r.Handler[s].N = InStep, r.Handler[s].N%10
			}
			if r.Handler[s].Do == Keep {
				r.Handler[s].For = time.Hour
			} else {
				r.Handler[s].For %= 1500 * time.Millisecond
			}
		}
	}
	for i := range p.Calls {
		p.Calls[i].For %= time.Second
	}
	for i := range p.Outages {
		p.Outages[i].From %= 1500 * time.Millisecond
		p.Outages[i].For %= 2 * time.Second
	}
	if d := (dice{state: mix(seed)}); d.percent(12) {
		p.outlast()
	}
	return p
}

// outlast makes the first handler run for longer than its lease while its pod is cut
// off. A retry then reaches another pod. Draw makes such plans rarely.
func (p *Plan) outlast() {
	y, r := &p.Policy, &p.Requests[0]
	y.LockTTL, y.StoreTimeout, y.Wait, y.MaxRun = 600*time.Millisecond, 300*time.Millisecond, 0, time.Minute
	y.Observe, y.Transactional = false, false
	p.Calls, p.Panics = nil, nil
	p.Outages = []Outage{{Pod: r.Pod, Kind: Partition, From: 100 * time.Millisecond, For: 2 * time.Second}}
	r.At, r.Leave, r.NoKey = 0, 0, false
	r.Handler = []Step{{Do: Effect}, {Do: Sleep, For: 1500 * time.Millisecond}}
	p.Pods = append(p.Pods, Pod{ID: len(p.Pods)})
	p.Requests = append(p.Requests, Request{
		ID: len(p.Requests), Pod: len(p.Pods) - 1, Key: r.Key, At: 1100 * time.Millisecond, Body: r.Body,
		Handler: []Step{{Do: Effect}},
	})
}

// Length is the duration of the plan without delays: its requests, its outages and
// the end of a lease.
func (p *Plan) Length() (d time.Duration) {
	for i := range p.Requests {
		d = max(d, p.Requests[i].At+p.Requests[i].duration()+p.frozen(p.Requests[i].Pod))
	}
	for _, o := range p.Outages {
		if o.Kind != Kill {
			d = max(d, o.From+o.For)
		}
	}
	return d + p.Policy.LockTTL
}

// Unsteady reports whether more than the plan disturbed a real run. The rules for
// plans without faults do not apply then.
func (p *Plan) Unsteady() bool { return p.real.unsteady }
