package explore

import (
	"slices"
	"testing"
	"time"
)

// Plans of defects that were found once.

func defaultPolicy() Policy {
	return Policy{
		TTL: 10 * time.Minute, LockTTL: time.Second, StoreTimeout: 500 * time.Millisecond,
		MaxRun: time.Minute, MaxResponse: 1 << 20,
	}
}

func pods(n int) []Pod {
	all := make([]Pod, n)
	for id := range all {
		all[id].ID = id
	}
	return all
}

const ms = time.Millisecond

// planned is a plan that breaks no rule.
type planned struct {
	name string
	plan Plan
}

var cases = []planned{
	{
		// Case 35: a duplicate waits for a handler of another process. The engine asks the
		// store again, and the duplicate gets the replay.
		name: "a duplicate waits across pods",
		plan: changed(twice(10*ms, Step{Do: Sleep, For: 300 * ms}, Step{Do: CarefulEffect}), func(p *Plan) { p.Policy.Wait = 10 * time.Second }),
	},
	{
		// Case 35: with FailOpen no handler runs twice.
		name: "a duplicate waits across pods with FailOpen",
		plan: changed(twice(10*ms, Step{Do: Sleep, For: 300 * ms}, Step{Do: CarefulEffect}), func(p *Plan) {
			p.Policy.Wait, p.Policy.FailOpen = 10*time.Second, true
		}),
	},
	{
		// Case 36: the last renewal hangs. The handler's context ends with the lease, before
		// the call returns.
		name: "a renewal hangs past the end of the lease",
		plan: changed(twice(3010*ms, Step{Do: Sleep, For: 3150 * ms}, Step{Do: CarefulEffect}), func(p *Plan) {
			p.Policy.LockTTL, p.Policy.StoreTimeout = 3*time.Second, time.Second
			p.Outages = []Outage{{Pod: 0, Kind: Partition, From: 900 * ms, For: 6 * time.Second}}
		}),
	},
	{
		// Case 37: the process is cut off for longer than its lease, and another process runs
		// the handler. No client gets the first handler's response.
		name: "a response after the lease is not confirmed",
		plan: changed(twice(2*time.Second, Step{Do: Effect}, Step{Do: Sleep, For: 3 * time.Second}), func(p *Plan) {
			p.Outages = []Outage{{Pod: 0, Kind: Partition, From: 100 * ms, For: 8 * time.Second}}
		}),
	},
	{
		// Case 37: once the lease has ended, a duplicate in the same process does not get
		// that response from memory.
		name: "a duplicate after the lease gets no unconfirmed replay",
		plan: Plan{
			Policy: defaultPolicy(),
			Pods:   pods(2),
			Requests: []Request{
				{ID: 0, Pod: 0, At: ms, Handler: []Step{{Do: Effect}, {Do: Sleep, For: 600 * ms}}, Leave: 100 * ms},
				{ID: 1, Pod: 0, At: 1600 * ms, Handler: []Step{{Do: CarefulEffect}}},
				{ID: 2, Pod: 1, At: 1700 * ms, Handler: []Step{{Do: CarefulEffect}}},
			},
			Outages: []Outage{{Pod: 0, Kind: Cut, From: 40 * ms, For: 5 * time.Second}},
		},
	},
	{
		// Case 40: the pods of a rolling deployment differ in ExcludeFields. A retry
		// with the same bytes is a replay at both.
		name: "a retry meets a pod with another ExcludeFields",
		plan: changed(twice(100*ms, Step{Do: CarefulEffect}), func(p *Plan) { p.Pods[0].Exclude = true }),
	},
	{
		// A Shutdown that gave up is called again when all handlers have returned.
		name: "Shutdown is called again",
		plan: Plan{
			Policy:   defaultPolicy(),
			Pods:     pods(1),
			Requests: []Request{{ID: 0, At: ms, Handler: []Step{{Do: Sleep, For: 2 * time.Second}, {Do: CarefulEffect}}}},
			Outages: []Outage{
				{Pod: 0, Kind: Stop, From: 100 * ms, For: 200 * ms},
				{Pod: 0, Kind: Stop, From: 4 * time.Second, For: 400 * ms},
			},
		},
	},
	{
		// Case 41: the machines are suspended, and the store's clock continues. Another
		// process takes the key over, and the first handler then checks the wall clock.
		name: "a handler wakes up on a machine that was suspended",
		plan: changed(twice(120*ms, Step{Do: Sleep, For: 300 * ms}, Step{Do: CarefulEffect}), func(p *Plan) {
			p.Jumps = []Jump{{Kind: Suspension, At: 100 * ms, By: 5 * time.Second}}
		}),
	},
	{
		// Case 41: the machine wakes up before the end of its lease, and cannot reach the
		// store. The handler waits for its context, which ends by the wall clock.
		name: "a lease ends soon after a suspension",
		plan: Plan{
			Policy:   with(func(p *Policy) { p.LockTTL = 30 * time.Second }),
			Pods:     pods(1),
			Requests: []Request{{ID: 0, At: ms, Handler: []Step{{Do: Await, For: 8 * time.Second}, {Do: Effect}}}},
			Outages:  []Outage{{Pod: 0, Kind: Partition, From: 500 * ms, For: 12 * time.Second}},
			Jumps:    []Jump{{Kind: Suspension, At: 600 * ms, By: 28500 * ms}},
		},
	},
	{
		// Case 13: the store is unreachable when the handler ends, and reachable again before
		// the lease ends. The client has the response, and a retry gets it from the other process.
		name: "a response is stored after it was shown",
		plan: Plan{
			Policy: with(func(p *Policy) { p.LockTTL = 3 * time.Second }),
			Pods:   pods(2),
			Requests: []Request{
				{ID: 0, Pod: 0, At: ms, Handler: []Step{{Do: Sleep, For: 100 * ms}, {Do: CarefulEffect}}},
				{ID: 1, Pod: 0, At: 1200 * ms, Handler: []Step{{Do: CarefulEffect}}},
				{ID: 2, Pod: 1, At: 4 * time.Second, Handler: []Step{{Do: CarefulEffect}}},
			},
			Outages: []Outage{{Pod: 0, Kind: Cut, From: 50 * ms, For: 1500 * ms}},
		},
	},
	{
		// Case 39: the store's client panics in a renewal and in the settlement, and the
		// Observer panics on both events.
		name: "the store's client and the Observer panic",
		plan: changed(twice(3*time.Second, Step{Do: Sleep, For: 500 * ms}, Step{Do: CarefulEffect}), func(p *Plan) {
			p.Calls = []CallFault{{Op: Extend, Mode: PanicBefore}, {Op: Complete, Mode: PanicAfter}, {Op: Complete, N: 1, Mode: PanicBefore}}
			p.Panics = []Panicking{{In: InObserver, N: 1}, {In: InObserver, N: 2}}
		}),
	},
	{
		// Case 50: the database refuses the commit. The key is released at once.
		name: "a commit is refused",
		plan: changed(twice(100*ms, Step{Do: CarefulEffect}), func(p *Plan) {
			p.Policy.Transactional = true
			p.Calls = []CallFault{{Op: Commit, Mode: Refused}}
		}),
	},
	{
		// The store forgets the claim of a running handler, and grants the key to an earlier
		// request of the same process. The second handler does not run.
		name: "the store forgets a claim that this process holds",
		plan: Plan{
			Policy: with(func(p *Policy) { p.LockTTL = 3 * time.Second }),
			Pods:   pods(1),
			Requests: []Request{
				{ID: 0, At: ms, Handler: []Step{{Do: Sleep, For: 500 * ms}, {Do: Effect}}},
				{ID: 1, At: 2 * ms, Handler: []Step{{Do: Effect}}},
			},
			Calls: []CallFault{{Request: 1, Op: Acquire, Mode: Slow, For: 200 * ms}},
			Jumps: []Jump{{Kind: Skip, At: 100 * ms, By: time.Hour}},
		},
	},
	{
		// A process takes an abandoned key over and begins to shut down before its handler
		// runs. The key stays abandoned: the next request must call the RecoverFunc. Another
		// handler keeps the process running until then.
		name: "an abandoned key is taken over by a process that shuts down",
		plan: Plan{
			Policy: with(func(p *Policy) { p.Abandoned = Recover }),
			Pods:   pods(3),
			Requests: []Request{
				{ID: 0, Pod: 0, At: ms, Handler: []Step{{Do: Effect}, {Do: Sleep, For: 500 * ms}}},
				{ID: 1, Pod: 1, At: 1500 * ms, Handler: []Step{{Do: Effect}}},
				{ID: 2, Pod: 2, At: 4 * time.Second, Handler: []Step{{Do: Effect}}},
				{ID: 3, Pod: 1, Key: 1, At: 1400 * ms, Handler: []Step{{Do: Sleep, For: 500 * ms}, {Do: Effect}}},
			},
			Calls: []CallFault{{Request: 1, Op: Acquire, Mode: SlowBack, For: 50 * ms}},
			Outages: []Outage{
				{Pod: 0, Kind: Kill, From: 100 * ms, For: time.Second},
				{Pod: 1, Kind: Stop, From: 1510 * ms, For: time.Second},
			},
		},
	},
	{
		// A duplicate takes the key over while its process does not know yet that the key is
		// abandoned. The process gives the claim back, and the duplicate takes the key over
		// again.
		name: "a duplicate claims a key that is just left abandoned",
		plan: Plan{
			Policy: with(func(p *Policy) { p.LockTTL, p.Wait = 3*time.Second, time.Second }),
			Pods:   pods(1),
			Requests: []Request{
				{ID: 0, At: ms, Handler: []Step{{Do: MarkUncertain}, {Do: Effect}}},
				{ID: 1, At: ms, Handler: []Step{{Do: CarefulEffect}}},
			},
			Calls: []CallFault{
				{Request: 1, Op: Acquire, Mode: Slow, For: 20 * ms},
				{Request: 0, Op: Abandon, Mode: SlowBack, For: 100 * ms},
			},
		},
	},
	{
		// The time that a request waits for another request does not count for its MaxRun.
		name: "a handler starts after a long wait",
		plan: Plan{
			Policy: with(func(p *Policy) { p.Wait, p.MaxRun = 10*time.Second, 2*time.Second }),
			Pods:   pods(1),
			Requests: []Request{
				{ID: 0, At: ms, Handler: []Step{{Do: Sleep, For: 1800 * ms}, {Do: Panic}}},
				{ID: 1, At: 10 * ms, Handler: []Step{{Do: Sleep, For: 500 * ms}, {Do: CarefulEffect}}},
			},
		},
	},
}

// with returns the default policy with a change.
func with(change func(*Policy)) Policy {
	return changed(defaultPolicy(), change)
}

// patientReconciler is a reconciler on a pod, with these answers.
func patientReconciler(pod int, answers ...Answer) Reconciler {
	return Reconciler{
		Pod: pod, From: 100 * ms, For: 3 * time.Second, After: 100 * ms, Backoff: 2 * time.Second, FindTimeout: time.Second,
		MaxAttempts: 5, Search: 50 * ms, Takes: ms, Answers: answers,
	}
}

func TestCases(t *testing.T) {
	t.Parallel()
	for _, c := range slices.Concat(cases, lateCases, reconcilerCases) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if len(judged(t, c.plan)) > 0 {
				t.Errorf("\n%s", render(t, c.plan))
			}
		})
	}
}
