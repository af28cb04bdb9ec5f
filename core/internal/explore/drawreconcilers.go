package explore

import (
	"fmt"
	"time"
)

// drawReconcilers lets pods reconcile. Half of the handlers do not know their outcome, so that
// there is work.
func drawReconcilers(d *dice, p *Plan) {
	lock := p.Policy.LockTTL
	for i := range p.Requests {
		if d.percent(50) {
			p.Requests[i].Handler = append(p.Requests[i].Handler, Step{Do: MarkUncertain})
		}
	}
	for n := range 1 + d.below(2) {
		r := Reconciler{
			Pod: d.below(len(p.Pods)), From: d.span(0, 2*lock), For: d.span(lock, pick(d, 4*lock, 15*time.Second, 40*time.Second)),
			After:   d.span(time.Millisecond, pick(d, 10*time.Millisecond, 2*lock, 4*lock)),
			Backoff: d.span(time.Millisecond, pick(d, 50*time.Millisecond, lock, 3*time.Second)), FindTimeout: pick(d, 500*time.Millisecond, 5*time.Second),
			MaxAttempts: uint64(pick(d, 3, 5, 30)), Alone: d.percent(30), Search: d.span(50*time.Millisecond, 400*time.Millisecond),
			Takes: d.span(0, pick(d, 5*time.Millisecond, 50*time.Millisecond, 2*lock)), Responds: d.percent(60),
		}
		for range 1 + d.below(4) {
			r.Answers = append(r.Answers, pick(d, Truth, Truth, Truth, Truth, Answer(d.below(int(numAnswers)))))
		}
		p.Reconcilers = append(p.Reconcilers, r)
		for range pick(d, 0, 0, 1, 2) {
			p.drawFault(d, questionID+n*maxQuestions+d.below(3), pick(d, Acquire, Acquire, Extend, Complete, Release, Abandon), 0, 1, 1, 4)
		}
	}
}

func (r *Reconciler) String() string {
	return fmt.Sprintf("reconciles from %v for %v: After %v, Backoff %v, FindTimeout %v, MaxAttempts %d, one at a time %t, a search each %v, the FindFunc takes %v, knows responses %t, answers %v",
		r.From, r.For, r.After, r.Backoff, r.FindTimeout, r.MaxAttempts, r.Alone, r.Search, r.Takes, r.Responds, r.Answers)
}
