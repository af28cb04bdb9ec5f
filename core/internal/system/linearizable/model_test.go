package linearizable

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"github.com/oncekey/oncekey/core/storage"
)

type method string

const (
	acquire  method = "Acquire"
	complete method = "Complete"
	release  method = "Release"
	extend   method = "Extend"
)

// call is one call at the store.
type call struct {
	method method
	// lease is the lease to settle or renew. Acquire uses only its Claim.
	lease storage.Lease
	// short: the lease may run out during the test. For Acquire and Extend.
	short bool
	// body of the result to complete.
	body string
}

// outcome is the result of a call.
type outcome struct {
	// unknown: the store gave no result before the context ended.
	unknown bool
	// lost is ErrLeaseLost.
	lost bool
	// won: Acquire returned a lease with this attempt.
	won      bool
	attempt  uint64
	tookOver bool
	// found is the record that Acquire returned instead.
	found       storage.State
	fingerprint string
	abandoned   bool
	body        string
	sketch      string
	steps       string
}

// phase of a key.
type phase string

const (
	free     phase = "free"
	running  phase = "running"
	released phase = "released" // released with steps, or as an attempt above 1
	finished phase = "finished"
)

// keyState is the state of a key.
type keyState struct {
	phase       phase
	token       storage.Token
	attempt     uint64
	tookOver    bool
	fingerprint string
	short       bool
	body        string
	steps       string
}

// possibility is a result that the contract allows, and the next state.
type possibility struct {
	outcome outcome
	after   keyState
}

// contract returns every result that the store may give in a state.
func contract(s keyState, c call) []possibility {
	switch c.method {
	case acquire:
		return acquiring(s, c)
	case complete:
		return completing(s, c)
	case release:
		return releasing(s, c)
	default:
		return extending(s, c)
	}
}

func acquiring(s keyState, c call) []possibility {
	claim := c.lease.Claim
	win := func(attempt uint64, tookOver bool) possibility {
		lease := storage.Lease{Claim: claim, Attempt: attempt, TookOver: tookOver, Steps: s.steps}
		return possibility{outcome{won: true, attempt: attempt, tookOver: tookOver, steps: s.steps}, runBy(lease, c.short)}
	}
	record := outcome{found: storage.InProgress, attempt: s.attempt, fingerprint: s.fingerprint, steps: s.steps}
	switch {
	case s.phase == free:
		return []possibility{win(1, false)}
	case s.phase == released && s.steps != "" && s.fingerprint != claim.Fingerprint:
		record.found = storage.Released
		return []possibility{{record, s}}
	case s.phase == released:
		return []possibility{win(s.attempt+1, false)}
	case s.phase == finished:
		record.found, record.body, record.sketch = storage.Completed, s.body, sketchOf(s.body)
		return []possibility{{record, s}}
	case s.token == claim.Token:
		return []possibility{win(s.attempt, s.tookOver)}
	case !s.short:
		return []possibility{{record, s}}
	case claim.TakeOver && s.fingerprint == claim.Fingerprint:
		return []possibility{{record, s}, win(s.attempt+1, true)}
	default:
		abandoned := record
		abandoned.abandoned = true
		return []possibility{{record, s}, {abandoned, s}}
	}
}

func completing(s keyState, c call) []possibility {
	switch {
	case !heldBy(s, c.lease):
		return lost(s)
	case s.phase == finished:
		return done(s)
	default:
		after := runBy(c.lease, false)
		after.phase, after.body, after.steps = finished, c.body, ""
		return done(after)
	}
}

func releasing(s keyState, c call) []possibility {
	remembered := done(keyState{phase: released, token: c.lease.Token, attempt: c.lease.Attempt})
	switch {
	case !heldBy(s, c.lease), s.phase == finished:
		return lost(s)
	case c.lease.Steps != "":
		remembered[0].after.fingerprint, remembered[0].after.steps = c.lease.Fingerprint, c.lease.Steps
		return remembered
	case c.lease.Attempt == 1:
		return done(keyState{phase: free})
	case s.phase == free:
		return append(remembered, done(s)...) // after forgetting the key, the store may do either
	default:
		return remembered
	}
}

func extending(s keyState, c call) []possibility {
	if !heldBy(s, c.lease) || s.phase == finished {
		return lost(s)
	}
	after := runBy(c.lease, c.short)
	after.steps = max(after.steps, s.steps) // the longer, because each begins with the one before
	return done(after)
}

// sketchOf is the sketch that belongs to a body.
func sketchOf(body string) string { return "sketch of the " + body }

// heldBy reports whether only the lease's attempt has claimed the key.
func heldBy(s keyState, l storage.Lease) bool {
	return s.phase == free || s.token == l.Token && s.attempt == l.Attempt
}

func runBy(l storage.Lease, short bool) keyState {
	return keyState{
		phase: running, token: l.Token, attempt: l.Attempt, tookOver: l.TookOver, fingerprint: l.Fingerprint, short: short,
		steps: l.Steps,
	}
}

func done(after keyState) []possibility { return []possibility{{outcome{}, after}} }

func lost(s keyState) []possibility { return []possibility{{outcome{lost: true}, s}} }

// model is the contract in porcupine's form, for the history of one key.
var model = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{keyState{phase: free}} },
	Step: func(state, input, output any) []any {
		s, c, answered := state.(keyState), input.(call), output.(outcome)
		var next []any
		if answered.unknown {
			next = append(next, s) // the call never took effect
		}
		for _, p := range contract(s, c) {
			if answered.unknown || answered == p.outcome {
				next = append(next, p.after)
			}
		}
		return next
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%v: %v", input, output) },
}).ToModel()

func (c call) String() string {
	l := c.lease
	switch c.method {
	case acquire:
		return fmt.Sprintf("Acquire by %.4s (take over %t, short %t, of %s)", l.Token, l.TakeOver, c.short, l.Fingerprint)
	case complete:
		return fmt.Sprintf("Complete by %.4s attempt %d with %q", l.Token, l.Attempt, c.body)
	default:
		return fmt.Sprintf("%s by %.4s attempt %d with steps %q", c.method, l.Token, l.Attempt, l.Steps)
	}
}

func (o outcome) String() string {
	switch {
	case o.unknown:
		return "unknown"
	case o.lost:
		return "lease lost"
	case o.won:
		return fmt.Sprintf("lease, attempt %d (took over %t) with steps %q", o.attempt, o.tookOver, o.steps)
	case o.found != 0:
		return fmt.Sprintf("%s attempt %d of %s (abandoned %t) %q with %q and steps %q", o.found, o.attempt, o.fingerprint, o.abandoned, o.body, o.sketch, o.steps)
	default:
		return "done"
	}
}
