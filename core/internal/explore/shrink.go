package explore

import (
	"slices"
	"time"
)

// shrinkRuns bounds how many plans Shrink tries.
const shrinkRuns = 4000

// Shrink returns a smaller plan that still fails: fewer elements, simpler handlers
// and policies, rounder times. It makes one change at a time, and keeps each change
// after which the plan still fails.
func Shrink(plan Plan, fails func(Plan) bool) Plan {
	tries := 0
	for smaller := true; smaller; {
		smaller = false
		for _, change := range changes(&plan) {
			if tries++; tries > shrinkRuns {
				return plan
			}
			candidate := plan.clone()
			if change(&candidate) && fails(candidate) {
				plan, smaller = candidate, true
				break
			}
		}
	}
	return plan
}

// clone copies the plan as deep as changes reach.
func (p *Plan) clone() Plan {
	c := *p
	c.Pods, c.Requests = slices.Clone(p.Pods), slices.Clone(p.Requests)
	c.Calls, c.Outages, c.Jumps = slices.Clone(p.Calls), slices.Clone(p.Outages), slices.Clone(p.Jumps)
	c.Panics, c.Operations, c.Reconcilers = slices.Clone(p.Panics), slices.Clone(p.Operations), slices.Clone(p.Reconcilers)
	for i := range c.Requests {
		c.Requests[i].Handler = slices.Clone(c.Requests[i].Handler)
	}
	return c
}

// change simplifies a plan, or reports false if the plan cannot be simplified so.
type change func(*Plan) bool

// changes are all changes to try, the largest first.
func changes(p *Plan) []change {
	var all []change
	for i := range p.Requests {
		all = append(all, func(p *Plan) bool { return p.dropRequest(i) })
	}
	for i := range p.Pods {
		all = append(all, func(p *Plan) bool { return p.dropPod(i) })
	}
	all = slices.Concat(all,
		removals(p, func(p *Plan) *[]Outage { return &p.Outages }),
		removals(p, func(p *Plan) *[]CallFault { return &p.Calls }),
		removals(p, func(p *Plan) *[]Jump { return &p.Jumps }),
		removals(p, func(p *Plan) *[]Panicking { return &p.Panics }),
		removals(p, func(p *Plan) *[]Operation { return &p.Operations }),
		removals(p, func(p *Plan) *[]Reconciler { return &p.Reconcilers }),
		policyChanges)
	for i := range p.Requests {
		all = append(all, requestChanges(p, i)...)
	}
	for i := range p.Outages {
		all = append(all,
			func(p *Plan) bool { return round(&p.Outages[i].From) },
			func(p *Plan) bool { return round(&p.Outages[i].For) })
	}
	for i := range p.Calls {
		all = append(all, func(p *Plan) bool { return zero(&p.Calls[i].For) }, func(p *Plan) bool { return round(&p.Calls[i].For) })
	}
	for i := range p.Operations {
		all = append(all,
			func(p *Plan) bool { return round(&p.Operations[i].At) },
			func(p *Plan) bool { return round(&p.Operations[i].Pause) })
	}
	for i := range p.Reconcilers {
		all = append(all,
			func(p *Plan) bool { return round(&p.Reconcilers[i].From) },
			func(p *Plan) bool { return round(&p.Reconcilers[i].For) },
			func(p *Plan) bool { return round(&p.Reconcilers[i].After) },
			func(p *Plan) bool { return set(&p.Reconcilers[i].Takes, time.Millisecond) })
	}
	return all
}

// removals remove one element of a list each.
func removals[T any](p *Plan, list func(*Plan) *[]T) (all []change) {
	for i := range *list(p) {
		all = append(all, func(p *Plan) bool { *list(p) = slices.Delete(*list(p), i, i+1); return true })
	}
	return all
}

var policyChanges = []change{
	func(p *Plan) bool { return zero(&p.Policy.FailOpen) },
	func(p *Plan) bool { return zero(&p.Policy.Transactional) },
	func(p *Plan) bool { return zero(&p.Policy.Observe) },
	func(p *Plan) bool { return zero(&p.Policy.Keep5xx) },
	func(p *Plan) bool { return zero(&p.Policy.Optional) },
	func(p *Plan) bool { return zero(&p.Policy.Abandoned) },
	func(p *Plan) bool { return drop(&p.Policy.Release) },
	func(p *Plan) bool { return drop(&p.Policy.Keep) },
	func(p *Plan) bool { return drop(&p.Policy.Uncertain) },
	func(p *Plan) bool { return zero(&p.Policy.Remember) },
	func(p *Plan) bool { return zero(&p.Policy.OnlySuccess) },
	func(p *Plan) bool { return zero(&p.Policy.Include) },
	func(p *Plan) bool { return zero(&p.Policy.KeyField) },
	func(p *Plan) bool { return zero(&p.Policy.OtherHeaders) },
	func(p *Plan) bool { return zero(&p.Near) },
	func(p *Plan) bool { return zero(&p.Unsettled) },
	func(p *Plan) bool { return zero(&p.Limit) },
	func(p *Plan) bool { return zero(&p.Policy.Wait) },
	func(p *Plan) bool { return set(&p.Policy.TTL, 10*time.Minute) },
	func(p *Plan) bool { return set(&p.Policy.MaxRun, time.Minute) },
	func(p *Plan) bool { return set(&p.Policy.MaxResponse, 1<<20) },
	func(p *Plan) bool { return set(&p.Policy.LockTTL, time.Second) },
	func(p *Plan) bool { return set(&p.Policy.StoreTimeout, 500*time.Millisecond) },
}

func requestChanges(p *Plan, i int) []change {
	all := []change{
		func(p *Plan) bool { return zero(&p.Requests[i].Leave) },
		func(p *Plan) bool { return zero(&p.Requests[i].NoKey) },
		func(p *Plan) bool { return zero(&p.Requests[i].Skip) },
		func(p *Plan) bool { return zero(&p.Requests[i].Refused) },
		func(p *Plan) bool { return zero(&p.Requests[i].Newer) },
		func(p *Plan) bool { return zero(&p.Requests[i].Body) },
		func(p *Plan) bool { return zero(&p.Requests[i].Key) },
		func(p *Plan) bool { return round(&p.Requests[i].At) },
	}
	for s := range p.Requests[i].Handler {
		all = append(all,
			func(p *Plan) bool {
				p.Requests[i].Handler = slices.Delete(p.Requests[i].Handler, s, s+1)
				return true
			},
			func(p *Plan) bool { return round(&p.Requests[i].Handler[s].For) })
	}
	return all
}

// dropRequest removes a request and the faults of its calls.
func (p *Plan) dropRequest(i int) bool {
	id := p.Requests[i].ID
	p.Requests = slices.Delete(p.Requests, i, i+1)
	p.Calls = slices.DeleteFunc(p.Calls, func(c CallFault) bool { return c.Request == id })
	p.Panics = slices.DeleteFunc(p.Panics, func(c Panicking) bool { return c.Request == id && c.In != InClassifier })
	return true
}

// dropPod removes a pod. The first remaining pod gets its requests.
func (p *Plan) dropPod(i int) bool {
	if len(p.Pods) == 1 {
		return false
	}
	id := p.Pods[i].ID
	p.Pods = slices.Delete(p.Pods, i, i+1)
	p.Outages = slices.DeleteFunc(p.Outages, func(o Outage) bool { return o.Pod == id })
	p.Operations = slices.DeleteFunc(p.Operations, func(o Operation) bool { return o.Pod == id })
	p.Reconcilers = slices.DeleteFunc(p.Reconcilers, func(r Reconciler) bool { return r.Pod == id })
	for i := range p.Requests {
		if p.Requests[i].Pod == id {
			p.Requests[i].Pod = p.Pods[0].ID
		}
	}
	return true
}

// set assigns a value, and reports whether the value was different before.
func set[T comparable](value *T, to T) bool {
	changed := *value != to
	*value = to
	return changed
}

// drop removes the last element. It leaves the array alone, which other plans share.
func drop[T any](list *[]T) bool {
	if len(*list) == 0 {
		return false
	}
	*list = (*list)[:len(*list)-1]
	return true
}

func zero[T comparable](value *T) bool {
	var none T
	return set(value, none)
}

// round truncates a time to whole milliseconds, or to 10 or 100 ms.
func round(d *time.Duration) bool {
	for _, unit := range []time.Duration{100 * time.Millisecond, 10 * time.Millisecond, time.Millisecond} {
		if rounded := d.Round(unit); rounded != *d && rounded > 0 {
			*d = rounded
			return true
		}
	}
	return false
}
