package explore

import (
	"slices"
	"time"
)

// drawUncertain adds lists of statuses, and handlers that do not know their outcome.
func drawUncertain(d *dice, p *Plan) {
	if d.percent(50) {
		drawLists(d, &p.Policy)
	}
	for i := range p.Requests {
		handler := &p.Requests[i].Handler
		if d.percent(20) {
			*handler = append(*handler, Step{Do: Respond, N: pick(d, 400, 402, 429, 500, 502, 504)})
		}
		if d.percent(10) { // a panic after a response was written
			*handler = append(*handler, Step{Do: Panic})
		}
		if d.percent(25) {
			*handler = slices.Insert(*handler, d.below(len(*handler)+1), Step{Do: MarkUncertain})
		}
	}
	for range pick(d, 0, 0, 0, 1, 2) {
		p.drawFault(d, d.below(len(p.Requests)), Abandon, pick(d, 0, 0, 1), 1, 1, 5)
	}
}

// drawLists puts statuses and classes into lists of their own. Release takes no success.
func drawLists(d *dice, p *Policy) {
	statuses := []string{"4xx", "5xx", "400", "404", "422", "429", "500", "502", "503", "504", "2xx", "201", "303"}
	for range 1 + d.below(4) {
		at := d.below(len(statuses))
		status := statuses[at]
		statuses = slices.Delete(statuses, at, at+1)
		switch list := d.below(3); {
		case list == 0 && status >= "4":
			p.Release = append(p.Release, status)
		case list == 1:
			p.Keep = append(p.Keep, status)
		default:
			p.Uncertain = append(p.Uncertain, status)
		}
	}
}

// drawFault adds a fault of a single call, or of one of the numbers of calls in a row.
func (p *Plan) drawFault(d *dice, request int, op Op, n int, calls ...int) {
	fault := CallFault{
		Request: request, Op: op, N: n, Mode: Mode(d.below(int(numModes))),
		For: d.span(0, pick(d, 20*time.Millisecond, time.Second, 4*time.Second)),
	}
	for range pick(d, calls...) {
		p.Calls = append(p.Calls, fault)
		fault.N++
	}
}

func drawFaults(d *dice, p *Plan) {
	ops := []Op{Acquire, Acquire, Extend, Extend, Complete, Complete, Release}
	if p.Policy.Transactional {
		ops = []Op{Acquire, Extend, Begin, Commit, Commit, Rollback, Release}
	}
	for range d.below(4) {
		p.drawFault(d, d.below(len(p.Requests)), pick(d, ops...), pick(d, 0, 0, 0, 1, 1, 2, 3), 1, 1, 1, 5)
	}
	lock := p.Policy.LockTTL
	for range pick(d, 0, 0, 1, 1, 2) {
		p.Outages = append(p.Outages, Outage{
			Pod:  d.below(len(p.Pods)),
			Kind: pick(d, Partition, Partition, Partition, Cut, Freeze, Kill, Stop),
			From: d.span(0, pick(d, 50*time.Millisecond, lock, 4*time.Second)),
			For:  d.span(10*time.Millisecond, pick(d, lock, 2*lock, 8*time.Second)),
		})
	}
	if d.percent(12) {
		jump := Jump{
			Kind: pick(d, Skip, Skip, Skip, Suspension, Suspension, Suspension, Suspension, SetBack),
			At:   d.span(0, 4*time.Second), By: d.span(0, 5*time.Second),
		}
		if jump.Kind == Skip && d.percent(30) {
			jump.By = time.Hour // the store forgets every key
		}
		p.Jumps = append(p.Jumps, jump)
	}
	if d.percent(10) {
		in := Callback(d.below(int(numCallbacks)))
		if p.Policy.Abandoned == Recover && d.percent(50) {
			in = InRecoverFunc
		}
		p.Panics = append(p.Panics, Panicking{Request: d.below(len(p.Requests)), In: in, N: pick(d, 0, 0, 1, 2)})
	}
}
