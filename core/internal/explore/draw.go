package explore

import (
	"slices"
	"time"
)

// dice are the random numbers of one plan: splitmix64 from its seed.
type dice struct{ state uint64 }

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (d *dice) next() uint64 {
	d.state += 0x9e3779b97f4a7c15
	return mix(d.state)
}

// below returns a number from 0 to n-1.
func (d *dice) below(n int) int { return int(d.next() % uint64(n)) }

// percent is true in n of 100 cases.
func (d *dice) percent(n int) bool { return d.below(100) < n }

// span returns a duration from low to high, to the nanosecond.
func (d *dice) span(low, high time.Duration) time.Duration {
	return low + time.Duration(d.next()%uint64(high-low+1))
}

func pick[T any](d *dice, of ...T) T { return of[d.below(len(of))] }

// Draw makes the plan of a seed. A new draw comes after the others, so that the rest of a
// seed's plan stays as it is.
func Draw(seed uint64) Plan {
	d := &dice{state: mix(seed)}
	p := Plan{Seed: seed, Policy: drawPolicy(d)}
	rolling := d.percent(10)
	for id := range 1 + d.below(3) {
		p.Pods = append(p.Pods, Pod{ID: id, Exclude: rolling && id == 0})
	}
	keys := 1 + d.below(2)
	for id := range 1 + d.below(7) {
		p.Requests = append(p.Requests, drawRequest(d, &p, id, keys))
	}
	if d.percent(70) {
		drawFaults(d, &p)
	}
	if d.percent(50) {
		drawUncertain(d, &p)
	}
	if d.percent(40) {
		drawMemory(d, &p.Policy)
	}
	if d.percent(40) {
		drawKeys(d, &p)
	}
	if d.percent(40) {
		drawSteps(d, &p)
	}
	p.Policy.OtherHeaders = d.percent(20)
	p.Near = d.percent(50)
	if d.percent(15) {
		drawRefusals(d, &p)
	}
	if d.percent(10) {
		p.Calls = append(p.Calls, CallFault{
			Request: d.below(len(p.Requests)), Op: Acquire, N: pick(d, 0, 0, 1), Mode: pick(d, Corrupt, Unreadable, Forbidden, Sealed),
		})
	}
	if d.percent(10) {
		p.Unsettled = 1 + d.below(2)
	}
	if d.percent(10) {
		drawOperations(d, &p)
	}
	if d.percent(15) && !p.Policy.Observe {
		drawReconcilers(d, &p)
	}
	if d.percent(15) && !p.Policy.Observe {
		drawLimit(d, &p)
	}
	return p
}

// drawSteps replaces handlers by handlers of one to three steps.
func drawSteps(d *dice, p *Plan) {
	for i := range p.Requests {
		if d.percent(30) {
			continue
		}
		var handler []Step
		for n := range 1 + d.below(3) {
			step := Step{Do: InStep, N: n, For: d.span(0, pick(d, 20*time.Millisecond, 20*time.Millisecond, 2*p.Policy.LockTTL))}
			if d.percent(10) {
				step.N += 10
			}
			handler = append(handler, step)
		}
		switch again := handler[0]; {
		case d.percent(20):
			handler = drawBeside(d, p)
		case d.percent(5):
			handler = append(handler, again)
		}
		p.Requests[i].Newer = d.percent(4)
		switch d.below(6) {
		case 0:
			handler = append(handler, Step{Do: Panic})
		case 1:
			handler = append(handler, Step{Do: Respond, N: pick(d, 409, 429, 500, 503)})
		case 2:
			handler = append(handler, Step{Do: pick(d, MarkRetryable, MarkUncertain, MarkExecuted)})
		default:
		}
		p.Requests[i].Handler = handler
	}
}

// drawKeys draws where keys come from, which requests and responses count, and how long
// a response is kept.
func drawKeys(d *dice, p *Plan) {
	p.Policy.KeyField, p.Policy.Include = d.percent(30), d.percent(30)
	p.Policy.OnlySuccess = d.percent(30) && !p.Policy.Keep5xx && !p.panics(InClassifier)
	for i := range p.Requests {
		p.Requests[i].Skip = d.percent(5)
		if d.percent(20) {
			handler := &p.Requests[i].Handler
			*handler = slices.Insert(*handler, d.below(len(*handler)+1), Step{Do: Keep, For: pick(d, 5*time.Second, time.Hour)})
		}
	}
}

// drawMemory lets a key be remembered. Half of these keys expire before the judge's own
// requests at the end.
func drawMemory(d *dice, p *Policy) {
	p.Remember = pick(d, 3*time.Second, time.Minute, 10*time.Minute)
	if d.percent(50) {
		p.TTL = 8 * time.Second
	}
}

func drawPolicy(d *dice) Policy {
	p := Policy{
		TTL:          pick(d, 10*time.Minute, 10*time.Minute, 10*time.Minute, 8*time.Second),
		LockTTL:      pick(d, 300*time.Millisecond, time.Second, 3*time.Second),
		StoreTimeout: pick(d, 100*time.Millisecond, 500*time.Millisecond),
		Wait:         pick(d, 0, 0, time.Second, 10*time.Second),
		MaxRun:       pick(d, time.Minute, time.Minute, 2*time.Second),
		MaxResponse:  pick[int64](d, 1<<20, 1<<20, 64),
		FailOpen:     d.percent(15),
		Keep5xx:      d.percent(10),
		Optional:     d.percent(10),
		Abandoned:    pick(d, Reexecute, Reexecute, Refuse, Recover),
	}
	switch {
	case d.percent(15):
		p.Transactional, p.FailOpen = true, false
	case d.percent(4):
		p.Observe = true
	}
	return p
}

func drawRequest(d *dice, p *Plan, id, keys int) Request {
	r := Request{
		ID: id, Pod: d.below(len(p.Pods)), Key: d.below(keys),
		At:   d.span(0, pick(d, 5*time.Millisecond, 100*time.Millisecond, 2*p.Policy.LockTTL, 4*time.Second)),
		Body: Body{Spelling: d.below(3)},
	}
	if d.percent(8) {
		r.Body.Payload = 1 + d.below(2)
	}
	if p.Pods[0].Exclude && d.percent(50) {
		r.Body.Nonce = 1 + d.below(2)
	}
	if d.percent(15) {
		r.Leave = d.span(time.Millisecond, 2*time.Second)
	}
	r.NoKey = d.percent(3)
	r.Handler = drawHandler(d, p)
	return r
}

// drawHandler makes a handler of one of many kinds.
func drawHandler(d *dice, p *Plan) []Step {
	nap := func() Step {
		lock := p.Policy.LockTTL
		shortest, longest := time.Duration(0), pick(d, 5*time.Millisecond, 50*time.Millisecond, lock, 3*lock)
		if d.percent(10) { // about as long as the lease
			shortest, longest = lock, lock+lock/10
		}
		return Step{Do: Sleep, For: d.span(shortest, longest)}
	}
	effect := Step{Do: pick(d, CarefulEffect, CarefulEffect, Effect)}
	switch d.below(14) {
	case 0, 1, 2, 3:
		return []Step{nap(), effect}
	case 4, 5:
		return []Step{nap(), effect, nap()}
	case 6:
		return []Step{nap(), effect, {Do: Respond, N: pick(d, 200, 303, 404, 409, 422)}}
	case 7:
		return []Step{nap(), effect, {Do: MarkExecuted}, nap(), {Do: pick(d, Panic, Respond, Look), N: 500}}
	case 8:
		return []Step{nap(), {Do: pick(d, Panic, Respond, MarkRetryable), N: pick(d, 429, 500, 503)}}
	case 9:
		return []Step{nap(), effect, {Do: Write, N: 40}, {Do: Flush}, nap(), {Do: Write, N: 10}}
	case 10:
		return []Step{nap(), effect, {Do: Write, N: 100}, nap(), {Do: Write, N: 10}}
	case 11:
		return []Step{{Do: CallDo, For: d.span(0, 20*time.Millisecond)}, nap(), {Do: Look}, effect}
	case 12:
		return []Step{{Do: Look}, nap(), {Do: Look}, {Do: Await, For: nap().For}, effect, nap(), {Do: Look}}
	default:
		return []Step{nap(), {Do: MarkRetryable}, nap(), effect, {Do: MarkExecuted}, {Do: Respond, N: pick(d, 201, 500)}}
	}
}
