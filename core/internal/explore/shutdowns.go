package explore

import (
	"cmp"
	"slices"
	"time"
)

// closing is the state of one pod's shutdowns.
type closing struct {
	open   int           // calls of Shutdown that have not returned
	begun  *Fact         // the first call
	gaveUp bool          // one call has given up: from then on no work continues in the background
	done   bool          // one call has succeeded
	at     time.Duration // when a call gave up
}

// shutdowns: Shutdown returns in time, and succeeds when no work is left.
func (j *judge) shutdowns() {
	pods := map[int]*closing{}
	for _, f := range j.history.Facts {
		c := pods[f.Pod]
		if c == nil && f.Kind == Closing {
			c = new(closing)
			pods[f.Pod] = c
		}
		if c != nil {
			j.closing(f, c)
		}
	}
	for _, p := range j.plan.Pods {
		if c := pods[p.ID]; c != nil && c.open > 0 && !j.plan.kills(p.ID) {
			j.report(ShutdownLate, "p%d does not shut down", p.ID)
		}
	}
}

// closing judges a fact of a pod that shuts down.
func (j *judge) closing(f *Fact, c *closing) {
	switch {
	case f.Kind == Closing:
		c.open++
		c.begun = cmp.Or(c.begun, f)
	case f.Kind == Closed:
		j.closed(f, c)
	case (c.isWork(f, j.runs[f.Request], j.slack()) || c.letsIn(f, j.runs[f.Request], j.plan.real.slack)) && j.plan.frozen(f.Pod) == 0 && !j.plan.kills(f.Pod):
		j.report(WorkAfterShutdown, "p%d works for r%d at %v, after its Shutdown", f.Pod, f.Request, f.At)
	}
}

// isWork reports whether a fact is work that Shutdown should have waited for, or
// background work that Shutdown should have ended when it gave up.
func (c *closing) isWork(f *Fact, r *run, slack time.Duration) bool {
	unused := f.Op == Abandon && r != nil && r.started == nil // a claim that came too late is given back
	calls := !unused && f.Kind == Called && slices.Contains([]Op{Extend, Abandon, Complete, Commit}, f.Op)
	if c.done {
		return calls || f.Kind == Started && f.has(Guarded)
	}
	inBackground := r != nil && r.deferred > 0 && f.At > r.deferred
	return c.gaveUp && calls && inBackground && f.At > c.at+slack
}

// letsIn reports whether a handler starts under a claim that the store granted after
// Shutdown had begun.
func (c *closing) letsIn(f *Fact, r *run, slack time.Duration) bool {
	return f.Kind == Started && f.has(Guarded) && r != nil && len(r.held) > 0 && r.held[0].known > c.begun.At+slack
}

// closed judges a Shutdown that has returned.
func (j *judge) closed(f *Fact, c *closing) {
	c.open--
	took, patience := f.At-f.Since, time.Duration(f.N)
	if took > patience+j.plan.frozen(f.Pod)+j.slack() {
		j.report(ShutdownLate, "p%d takes %v to shut down, want at most %v", f.Pod, took, patience)
	}
	idle := !j.plan.ends(f.Pod) || !j.plan.reconciles(f.Pod) && (c.gaveUp && !j.serves(f.Pod, f.Since) ||
		j.plan.onlyStops() && !j.serves(f.Pod, f.At-50*time.Millisecond-j.plan.real.slack))
	switch {
	case f.Err == nil && idle && patience > 0 && took >= patience && j.plan.real.slack == 0: // a busy machine may be as slow
		j.report(ShutdownLate, "p%d has no work left, and Shutdown returns at the end of its context, %v", f.Pod, patience)
	case f.Err != nil && idle:
		j.report(ShutdownFails, "p%d has no work left, and Shutdown returns %v", f.Pod, f.Err)
	}
	if f.Err == nil {
		c.done = true
	} else {
		c.gaveUp, c.at = true, f.At
	}
}

// serves reports whether a request of the pod was open at that time.
func (j *judge) serves(pod int, at time.Duration) bool {
	return slices.ContainsFunc(j.order, func(r *run) bool {
		return r.pod == pod && r.sent != nil && (r.shown == nil || r.shown.At >= at)
	})
}

// onlyStops reports whether the plan shuts pods down and has no other fault.
func (p *Plan) onlyStops() bool {
	return !p.real.unsteady && len(p.Calls)+len(p.Jumps)+len(p.Panics) == 0 &&
		!slices.ContainsFunc(p.Outages, func(o Outage) bool { return o.Kind != Stop })
}

// reconciles reports whether a reconciler of the pod may be at work.
func (p *Plan) reconciles(pod int) bool {
	return slices.ContainsFunc(p.Reconcilers, func(r Reconciler) bool { return r.Pod == pod })
}
