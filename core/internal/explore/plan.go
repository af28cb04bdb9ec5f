package explore

import (
	"slices"
	"time"
)

// Plan is one schedule: everything that happens from outside the engines. It is
// explicit, so that a schedule is shrunk by removing elements.
type Plan struct {
	// Seed feeds the delays of the network.
	Seed     uint64
	Policy   Policy
	Pods     []Pod
	Requests []Request
	Calls    []CallFault
	Outages  []Outage
	Jumps    []Jump
	Panics   []Panicking

	sabotage sabotage
	real     leeway
}

// sabotage breaks the simulation itself, so that tests see each rule fail.
type sabotage uint8

const (
	soundWorld      sabotage = iota
	grantsAlways             // the store gives a lease to each caller
	altersBody               // the store changes the responses that it shows
	altersStatus             // the store changes the statuses that it is given
	altersRequest            // the store shows another fingerprint
	forgetsRequest           // the store shows the caller's own fingerprint
	neverFinishes            // the store shows finished records as if they were in progress
	leaseEndsEarly           // the store lets a lease end at once
	slowReply                // a settlement takes ten minutes, whatever its context says
	noReply                  // a settlement never returns
	losesDecisions           // the observer drops all decisions
	losesSettlement          // the observer drops all settlements
	neverLooks               // careful handlers do not look
	losesResults             // settlements are confirmed, and do not reach the store
	refusesQuietly           // claims are refused, although the plan has no fault
	closesLate               // Shutdown takes two minutes longer
	endsRunsEarly            // engines have a third of the policy's MaxRun
	escapes                  // panics of callbacks reach the server
	hidesPanics              // the observer drops the reports of panics
	breaksProblems           // clients see what a problem.Writer wrote before it panicked
	opensAlways              // after a refusal the handler runs all the same, without protection
	hidesRollback            // clients see an empty problem
)

// Pod is one process with an engine of its own.
type Pod struct {
	ID int
	// Exclude says that the pod leaves the member "nonce" out of fingerprints. Pods
	// that differ in it are a rolling deployment.
	Exclude bool
}

// Request is one request of a client. A retry is another Request with the same key.
type Request struct {
	ID, Pod, Key int
	At           time.Duration
	NoKey        bool // the request carries no Idempotency-Key
	Body         Body
	Leave        time.Duration // the client disconnects this long after At; zero: it stays
	Handler      []Step
}

// Body is a payload. Two bodies with equal Payload and Nonce are canonically equal.
type Body struct{ Payload, Nonce, Spelling int }

// StepKind is one thing that a handler does.
type StepKind uint8

// The steps of a handler. A handler that does not end otherwise responds 201.
const (
	Sleep         StepKind = iota // for For
	Await                         // the end of the context, for For at most, and stop here when it comes
	Look                          // stop here when the context has ended
	Effect                        // the side effect
	CarefulEffect                 // Look, and then the side effect, in one instant
	MarkExecuted
	MarkRetryable
	Flush
	Respond // with status N
	Write   // N bytes
	Panic
	CallDo // an effect inside core.Do
)

// Step is one step of a handler.
type Step struct {
	Do  StepKind
	For time.Duration
	N   int
}

// Op is one kind of call at the store.
type Op uint8

// The calls at the store.
const (
	Acquire Op = iota
	Extend
	Complete
	Release
	Begin
	Commit
	Rollback
	numOps
)

// Mode is how a call at the store fails.
type Mode uint8

// The modes of a CallFault.
const (
	FailBefore  Mode = iota // an error, not applied
	FailAfter               // an error, applied
	Hang                    // until its context ends, not applied
	HangAfter               // until its context ends, applied
	Refused                 // an error at once, not applied
	Slow                    // takes For longer on the way there
	SlowBack                // takes For longer on the way back
	Late                    // until its context ends, and applied For later
	PanicBefore             // the store's client panics, not applied
	PanicAfter              // the same, applied
	numModes
)

// CallFault makes the Nth call (from 0) of one kind for one request fail.
type CallFault struct {
	Request int
	Op      Op
	N       int
	Mode    Mode
	For     time.Duration
}

// OutageKind is what happens to a pod.
type OutageKind uint8

// The kinds of an Outage.
const (
	Partition OutageKind = iota // the store does not hear the pod: calls hang
	Cut                         // the same, and connections are refused
	Freeze                      // its goroutines stand still
	Kill                        // the process is gone
	Stop                        // Engine.Shutdown, which waits For
	numOutages
)

// Outage is a fault of a pod, from From on, for For.
type Outage struct {
	Pod       int
	Kind      OutageKind
	From, For time.Duration
}

// JumpKind is what a clock jumps for.
type JumpKind uint8

// The kinds of a Jump.
const (
	// Skip moves the store's clock forward, and no pod can know.
	Skip JumpKind = iota
	// Suspension moves the store's clock and the wall clocks of all pods forward,
	// whose machines were suspended. Their monotonic clock is the bubble's, and stood
	// still.
	Suspension
	// SetBack moves the wall clocks of all pods back.
	SetBack
)

// Jump moves clocks by By.
type Jump struct {
	Kind   JumpKind
	At, By time.Duration
}

// Callback is a function of the program that an engine calls.
type Callback uint8

// The callbacks.
const (
	InObserver Callback = iota
	InClassifier
	InProblemWriter
	InRecoverFunc
	InScope
	numCallbacks
)

// Panicking makes the Nth call (from 0) of a callback panic: for one request, or for
// the whole plan where it is the Classifier, which knows no request.
type Panicking struct {
	Request int
	In      Callback
	N       int
}

// rolling reports whether the pods differ in ExcludeFields.
func (p *Plan) rolling() bool {
	for _, pod := range p.Pods {
		if pod.Exclude != p.Pods[0].Exclude {
			return true
		}
	}
	return false
}

// quiet reports whether nothing is made to fail.
func (p *Plan) quiet() bool {
	return !p.real.unsteady && len(p.Calls)+len(p.Outages)+len(p.Jumps)+len(p.Panics) == 0
}

// jumped is how far the jumps of a kind have moved a clock until then.
func (p *Plan) jumped(kind JumpKind, until time.Duration) (d time.Duration) {
	for _, j := range p.Jumps {
		if j.Kind == kind && j.At <= until {
			d += j.By
		}
	}
	return d
}

// skips reports whether the store's clock jumps and no pod can know.
func (p *Plan) skips() bool {
	return slices.ContainsFunc(p.Jumps, func(j Jump) bool { return j.Kind == Skip })
}

// panics reports whether a callback is made to panic.
func (p *Plan) panics(in Callback) bool {
	return slices.ContainsFunc(p.Panics, func(c Panicking) bool { return c.In == in })
}

// nests reports whether a handler calls core.Do.
func (p *Plan) nests() bool {
	return slices.ContainsFunc(p.Requests, func(r Request) bool {
		return slices.ContainsFunc(r.Handler, func(s Step) bool { return s.Do == CallDo })
	})
}

// settled is when all faults, requests and handlers of the plan are over, and all
// leases too.
func (p *Plan) settled() time.Duration {
	end := time.Second
	for _, r := range p.Requests {
		end = max(end, r.At+r.duration()+p.Policy.Wait+p.frozen(r.Pod))
	}
	for _, o := range p.Outages {
		end = max(end, o.From+o.For)
	}
	for _, c := range p.Calls {
		end += c.For
	}
	for _, j := range p.Jumps {
		end = max(end, j.At)
	}
	return end + 3*p.Policy.LockTTL + 8*p.Policy.StoreTimeout + settleBudget + time.Second
}

// duration is how long the request's handler takes.
func (r *Request) duration() time.Duration {
	var d time.Duration
	for _, s := range r.Handler {
		d += s.For + time.Millisecond
		if s.Do == CallDo {
			d += 2 * time.Second
		}
	}
	return d
}

// frozen is how long the pod stands still in all.
func (p *Plan) frozen(pod int) time.Duration {
	var d time.Duration
	for _, o := range p.Outages {
		if o.Pod == pod && o.Kind == Freeze {
			d += o.For
		}
	}
	return d
}
