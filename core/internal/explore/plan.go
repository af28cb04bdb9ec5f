package explore

import (
	"slices"
	"time"

	"github.com/oncekey/oncekey/core"
)

// Plan is one schedule: the events outside of the engines. It is an explicit value,
// so that Shrink can remove elements.
type Plan struct {
	// Seed feeds the delays of the network.
	Seed     uint64
	Policy   Policy
	Near     bool // a retry by equal bytes gets its record without a claim, as from memory
	Pods     []Pod
	Requests []Request
	Calls    []CallFault
	Outages  []Outage
	Jumps    []Jump
	Panics   []Panicking
	// Operations are changes by operators.
	Operations []Operation
	// Reconcilers are pods that reconcile.
	Reconcilers []Reconciler
	Unsettled   int // WithMaxUnsettled; zero: the default
	Limit       core.ScopeLimit
	Find        time.Duration // how long the RecoverFunc takes
	Found       int           // the status that the RecoverFunc finds; zero: 201

	sabotage sabotage
	real     leeway
}

// Pod is one process with an engine of its own.
type Pod struct {
	ID int
	// Exclude leaves the member "nonce" out of the pod's fingerprints. Pods that differ
	// in it are a rolling deployment.
	Exclude bool
}

// Request is one request of a client. A retry is another Request with the same key.
type Request struct {
	ID, Pod, Key int
	At           time.Duration
	NoKey        bool // the request carries no key
	Skip         bool // the policy's SkipIf lets the request pass
	Body         Body
	Leave        time.Duration // the client disconnects this long after At; zero: the client stays
	Handler      []Step
	Newer        bool // the process writes lines of steps that no other one can read
	Refused      bool // the store refuses the response for good, and takes the outcome without it
}

// Body is a payload. Two bodies with equal Payload and Nonce are canonically equal.
type Body struct{ Payload, Nonce, Spelling int }

// StepKind is the kind of a handler's step.
type StepKind uint8

// The steps of a handler. A handler without a Respond or Panic responds 201.
const (
	Sleep         StepKind = iota // wait for For
	Await                         // wait at most For for the end of the context, and stop at that end
	Look                          // stop if the context has ended
	Effect                        // the side effect
	CarefulEffect                 // Look and the side effect, in one instant
	MarkExecuted
	MarkRetryable
	MarkUncertain
	Flush
	Respond // with status N
	Write   // N bytes
	Panic
	CallDo // an effect inside core.Do
	Keep   // core.KeepFor, for For
	InStep // an effect inside core.Step number N, after For; the step fails if N is above 9
	Beside // the same on another goroutine; after For with a step that takes no time if N is above 19
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
	Abandon // an Extend of zero, which ends the lease
	Admit
	KeepPlace
	LeavePlace // a Keep of zero, which gives the place back
	numOps
)

// Mode is how a call at the store fails.
type Mode uint8

// The modes of a CallFault.
const (
	FailBefore  Mode = iota // an error, not applied
	FailAfter               // an error, applied
	Hang                    // blocks until its context ends, not applied
	HangAfter               // blocks until its context ends, applied
	Refused                 // an error at once, not applied
	Slow                    // the request takes For longer
	SlowBack                // the reply takes For longer
	Late                    // blocks until its context ends, and is applied For later
	PanicBefore             // the store's client panics, not applied
	PanicAfter              // the same, applied
	numModes
	Corrupt    // a claim alone: the store says that the record is corrupt
	Unreadable // the same: that this process cannot read the record now
	Forbidden  // the same: that this process lacks a right
	Sealed     // the same: the store returns a response that it cannot open
)

// CallFault makes the Nth call (from 0) of one kind for one request fail.
type CallFault struct {
	Request int
	Op      Op
	N       int
	Mode    Mode
	For     time.Duration
}

// OutageKind is the kind of an Outage.
type OutageKind uint8

// The kinds of an Outage.
const (
	Partition OutageKind = iota // the network drops the pod's packets: calls block
	Cut                         // the same, but connections are refused
	Freeze                      // the pod's goroutines stop until the end
	Kill                        // the process ends
	Stop                        // Engine.Shutdown, which waits For
	numOutages
)

// Outage is a fault of a pod from From until From+For.
type Outage struct {
	Pod       int
	Kind      OutageKind
	From, For time.Duration
}

// JumpKind is the cause of a clock's jump.
type JumpKind uint8

// The kinds of a Jump.
const (
	// Skip moves the store's clock forward. Pods cannot notice.
	Skip JumpKind = iota
	// Suspension moves the store's clock and the wall clocks of all pods forward, as if
	// the pods' machines were suspended. The pods' monotonic clock is the bubble's, and
	// does not move.
	Suspension
	// SetBack moves the wall clocks of all pods back.
	SetBack
)

// Jump moves clocks by the duration By.
type Jump struct {
	Kind   JumpKind
	At, By time.Duration
}

// Callback is a user's function that an engine calls.
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

// Panicking makes the Nth call (from 0) of a callback panic for one request. For the
// Classifier it counts the calls of all requests, because a Classifier gets no request.
type Panicking struct {
	Request int
	In      Callback
	N       int
}

// rolling reports whether the pods differ in ExcludeFields.
func (p *Plan) rolling() bool {
	return slices.ContainsFunc(p.Pods, func(pod Pod) bool { return pod.Exclude != p.Pods[0].Exclude })
}

// request returns the request of an identity, or nil: the judge's own requests are not in the plan.
func (p *Plan) request(id int) *Request {
	if i := slices.IndexFunc(p.Requests, func(r Request) bool { return r.ID == id }); i >= 0 {
		return &p.Requests[i]
	}
	return nil
}

// quiet reports whether the plan has no faults.
func (p *Plan) quiet() bool {
	return !p.real.unsteady && len(p.Calls)+len(p.Outages)+len(p.Jumps)+len(p.Panics) == 0
}

// jumped is the sum of a kind's jumps until a time.
func (p *Plan) jumped(kind JumpKind, until time.Duration) (d time.Duration) {
	for _, j := range p.Jumps {
		if j.Kind == kind && j.At <= until {
			d += j.By
		}
	}
	return d
}

// skips reports whether the store's clock jumps without the pods noticing.
func (p *Plan) skips() bool {
	return slices.ContainsFunc(p.Jumps, func(j Jump) bool { return j.Kind == Skip })
}

// panics reports whether the plan makes a callback panic.
func (p *Plan) panics(in Callback) bool {
	return slices.ContainsFunc(p.Panics, func(c Panicking) bool { return c.In == in })
}

// nests reports whether a handler calls core.Do.
func (p *Plan) nests() bool {
	return slices.ContainsFunc(p.Requests, func(r Request) bool {
		return slices.ContainsFunc(r.Handler, func(s Step) bool { return s.Do == CallDo })
	})
}

// settled is the end of all faults, requests, handlers and leases of the plan.
func (p *Plan) settled() time.Duration {
	end := time.Second
	for _, r := range p.Requests {
		end = max(end, r.At+r.duration()+p.Find+p.Policy.Wait+p.frozen(r.Pod))
	}
	for _, o := range p.Outages {
		end = max(end, o.From+o.For)
	}
	for _, c := range p.Calls {
		end += c.For
	}
	for _, o := range p.Operations {
		end = max(end, o.At+o.Pause+operatorPatience)
	}
	for i := range p.Reconcilers {
		r := &p.Reconcilers[i]
		end = max(end, r.From+r.For+r.FindTimeout+p.frozen(r.Pod))
	}
	for _, j := range p.Jumps {
		end = max(end, j.At)
	}
	return end + 3*p.Policy.LockTTL + 8*p.Policy.StoreTimeout + settleBudget + time.Second
}

// duration is the running time of the request's handler.
func (r *Request) duration() time.Duration {
	var d time.Duration
	for _, s := range r.Handler {
		if s.Do == Keep {
			continue
		}
		d += s.For + time.Millisecond
		if s.Do == CallDo {
			d += 2 * time.Second
		}
	}
	return d
}

// frozen is the total time for which the pod is frozen.
func (p *Plan) frozen(pod int) time.Duration {
	var d time.Duration
	for _, o := range p.Outages {
		if o.Pod == pod && o.Kind == Freeze {
			d += o.For
		}
	}
	return d
}
