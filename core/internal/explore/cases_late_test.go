package explore

import (
	"time"

	"github.com/oncekey/oncekey/core"
)

// Plans in which something comes too late: a claim, a step, the RecoverFunc, the store. The
// mutants that these plans find are rarely found by a drawn plan.
var lateCases = []planned{
	{
		// A claim reaches the store after its caller gave up, and after its first release. The
		// second release gives it back.
		name: "a claim reaches the store after its release",
		plan: Plan{
			Policy:   with(func(p *Policy) { p.LockTTL = 2 * time.Second }),
			Pods:     pods(1),
			Requests: []Request{{ID: 0, At: ms, Handler: []Step{{Do: Effect}}}},
			Calls:    []CallFault{{Op: Acquire, Mode: Late, For: 600 * ms}},
		},
	},
	{
		// The store's reply to an Admit comes after the end of the lease. The handler does not
		// start beside the run of another process.
		name: "the store admits a key after its lease",
		plan: Plan{
			Policy: with(func(p *Policy) { p.LockTTL = 300 * ms }),
			Pods:   pods(2),
			Limit:  core.ScopeLimit{InFlight: 2},
			Requests: []Request{
				{ID: 0, At: ms, Handler: []Step{{Do: Effect}}},
				{ID: 1, Pod: 1, At: 350 * ms, Handler: []Step{{Do: Effect}}},
			},
			Calls: []CallFault{{Op: Admit, Mode: SlowBack, For: 400 * ms}},
		},
	},
	{
		// The store is unreachable for longer than the settle budget, and the response is lost.
		name: "the settle budget ends",
		plan: Plan{
			Policy:   defaultPolicy(),
			Pods:     pods(1),
			Requests: []Request{{ID: 0, At: ms, Handler: []Step{{Do: Sleep, For: 100 * ms}, {Do: Effect}}}},
			Outages:  []Outage{{Pod: 0, Kind: Cut, From: 50 * ms, For: 40 * time.Second}},
		},
	},
	{
		// The RecoverFunc finds no effect, and returns after the end of its lease. The handler
		// does not run.
		name: "a RecoverFunc ends after its lease",
		plan: Plan{
			Policy: with(func(p *Policy) { p.Abandoned = Recover }),
			Pods:   pods(2),
			Find:   3 * time.Second,
			Requests: []Request{
				{ID: 0, Pod: 0, At: ms, Handler: []Step{{Do: Sleep, For: 500 * ms}}},
				{ID: 1, Pod: 1, At: 1500 * ms, Handler: []Step{{Do: Effect}}},
			},
			Outages: []Outage{
				{Pod: 0, Kind: Kill, From: 50 * ms, For: time.Second},
				{Pod: 1, Kind: Partition, From: 1600 * ms, For: 8 * time.Second},
			},
		},
	},
	{
		// The RecoverFunc finds an informational response, which ends no request.
		name: "a RecoverFunc finds a status below 200",
		plan: Plan{
			Policy: with(func(p *Policy) { p.Abandoned = Recover }),
			Pods:   pods(2),
			Found:  150,
			Requests: []Request{
				{ID: 0, Pod: 0, At: ms, Handler: []Step{{Do: Effect}, {Do: Sleep, For: 500 * ms}}},
				{ID: 1, Pod: 1, At: 1500 * ms, Handler: []Step{{Do: Effect}}},
			},
			Outages: []Outage{{Pod: 0, Kind: Kill, From: 50 * ms, For: time.Second}},
		},
	},
	{
		// MaxRun passes while the line that begins a step is written. The step is not called.
		name: "a run ends while its step begins",
		plan: Plan{
			Policy:   with(func(p *Policy) { p.LockTTL, p.MaxRun = 10*time.Second, 2*time.Second }),
			Pods:     pods(1),
			Requests: []Request{{ID: 0, At: ms, Handler: []Step{{Do: Sleep, For: 1900 * ms}, {Do: InStep, For: 10 * ms}}}},
			Calls:    []CallFault{{Op: Extend, Mode: SlowBack, For: 300 * ms}},
		},
	},
	{
		// A result reaches the store after its caller gave up, while the caller's pod is frozen.
		// The race detector looks at the explorer itself here.
		name: "a result comes to the store while its pod is frozen",
		plan: changed(twice(3*time.Second, Step{Do: Effect}), func(p *Plan) {
			p.Calls = []CallFault{{Op: Complete, Mode: Late, For: 450 * ms}}
			p.Outages = []Outage{{Pod: 0, Kind: Freeze, From: 480 * ms, For: 100 * ms}}
		}),
	},
	{
		// The minute of a limit begins with a key inside of core.Do. Two keys run after it.
		name: "a limit counts a key inside of core.Do",
		plan: Plan{
			Policy: with(func(p *Policy) { p.Optional = true }),
			Pods:   pods(1),
			Limit:  core.ScopeLimit{PerMinute: 2},
			Requests: []Request{
				{ID: 0, At: ms, Key: 0, NoKey: true, Handler: []Step{{Do: CallDo}}},
				{ID: 1, At: 10 * time.Second, Key: 1, Handler: []Step{{Do: Effect}}},
				{ID: 2, At: 61 * time.Second, Key: 2, Handler: []Step{{Do: Effect}}},
				{ID: 3, At: 61 * time.Second, Key: 3, Handler: []Step{{Do: Effect}}},
			},
		},
	},
	{
		// The result of a step reaches the store with an Abandon, after the store has forgotten
		// the key. The RecoverFunc is told of the step.
		name: "an Abandon comes after the record's time",
		plan: Plan{
			Policy: with(func(p *Policy) { p.Abandoned, p.TTL = Recover, time.Second }),
			Pods:   pods(2),
			Requests: []Request{
				{ID: 0, Pod: 0, At: ms, Handler: []Step{{Do: InStep, For: 50 * ms}}},
				{ID: 1, Pod: 1, At: 6 * time.Second, Handler: []Step{{Do: InStep, For: 10 * ms}}},
			},
			Outages: []Outage{{Pod: 0, Kind: Partition, From: 20 * ms, For: 4 * time.Second}},
		},
	},
	{
		// The store does not confirm the result of a step, and the database refuses the commit
		// of its run. The outcome of the step is unknown, so the key is not released.
		name: "a commit is refused after a step with an unknown outcome",
		plan: Plan{
			Policy:   with(func(p *Policy) { p.LockTTL, p.Transactional = 5*time.Second, true }),
			Pods:     pods(1),
			Requests: []Request{{ID: 0, At: ms, Handler: []Step{{Do: MarkExecuted}, {Do: InStep, For: 10 * ms}}}},
			Calls:    []CallFault{{Op: Extend, N: 1, Mode: Hang}, {Op: Commit, Mode: Refused}},
		},
	},
	{
		// A run has lost its key, and ends beside a later run of its key in the same process.
		// The store then forgets the key. The later run still keeps others away.
		name: "a run that lost its key ends beside a later run",
		plan: Plan{
			Policy: defaultPolicy(),
			Pods:   pods(2),
			Requests: []Request{
				{ID: 0, Pod: 0, At: ms, Handler: []Step{{Do: Sleep, For: 1500 * ms}}},
				{ID: 1, Pod: 1, At: 150 * ms, Handler: []Step{{Do: MarkRetryable}}},
				{ID: 2, Pod: 0, At: 600 * ms, Handler: []Step{{Do: Sleep, For: 3 * time.Second}}},
				{ID: 3, Pod: 0, At: 1750 * ms, Handler: []Step{{Do: Sleep, For: 100 * ms}}},
			},
			Jumps: []Jump{{Kind: Skip, At: 100 * ms, By: 2 * time.Second}, {Kind: Skip, At: 1700 * ms, By: time.Hour}},
		},
	},
	{
		// The store says that a record cannot be used. That is no outage, and FailOpen does not
		// apply.
		name: "FailOpen meets a record that cannot be used",
		plan: Plan{
			Policy: with(func(p *Policy) { p.FailOpen = true }),
			Pods:   pods(1),
			Requests: []Request{
				{ID: 0, Key: 0, At: ms, Handler: []Step{{Do: Effect}}},
				{ID: 1, Key: 1, At: ms, Handler: []Step{{Do: Effect}}},
				{ID: 2, Key: 2, At: ms, Handler: []Step{{Do: Effect}}},
			},
			Calls: []CallFault{
				{Request: 0, Op: Acquire, Mode: Corrupt},
				{Request: 1, Op: Acquire, Mode: Unreadable},
				{Request: 1, Op: Acquire, N: 1, Mode: Unreadable},
				{Request: 1, Op: Acquire, N: 2, Mode: Unreadable},
				{Request: 2, Op: Acquire, Mode: Forbidden},
			},
		},
	},
	{
		// A response waits for the store, which takes other calls. The process lets no other
		// request in, and lets one in again when the response is stored.
		name: "a request comes while a response waits for the store",
		plan: Plan{
			Policy:    defaultPolicy(),
			Pods:      pods(1),
			Unsettled: 1,
			Requests: []Request{
				{ID: 0, Key: 0, At: ms, Handler: []Step{{Do: Effect}}},
				{ID: 1, Key: 1, At: 800 * ms, Handler: []Step{{Do: Effect}}},
				{ID: 2, Key: 2, At: 3 * time.Second, Handler: []Step{{Do: Effect}}},
			},
			Calls: []CallFault{{Op: Complete, Mode: Hang}, {Op: Complete, N: 1, Mode: Hang}},
		},
	},
	{
		// A run cannot begin its transaction, and its key is given back late. Its request claims the key again, and runs beside
		// another one: no response waits for the store.
		name: "a request runs after its first settlement was late",
		plan: Plan{
			Policy:    with(func(p *Policy) { p.Transactional, p.Wait, p.Uncertain = true, 10*time.Second, []string{"201"} }),
			Pods:      pods(1),
			Unsettled: 1,
			Requests: []Request{
				{ID: 0, At: ms},
				{ID: 1, At: 2 * ms, Handler: []Step{{Do: Sleep, For: 500 * ms}}},
				{ID: 2, Key: 1, At: 150 * ms},
			},
			Calls: []CallFault{{Request: 1, Op: Begin, Mode: FailAfter}, {Request: 1, Op: Abandon, Mode: FailAfter}},
		},
	},
	{
		// While the release of a run hangs, an earlier claim of its request is given back once more.
		// The process does not take that for the settlement, and the place ends with its lease.
		name: "an earlier claim is given back while a release hangs",
		plan: Plan{
			Policy: with(func(p *Policy) { p.LockTTL, p.StoreTimeout, p.Wait = time.Second, 500*ms, 10*time.Second }),
			Pods:   pods(1),
			Limit:  core.ScopeLimit{InFlight: 1},
			Requests: []Request{
				{ID: 0, At: 2 * ms},
				{ID: 1, At: 10 * ms, Handler: []Step{{Do: Respond, N: 500}}},
			},
			Calls: []CallFault{
				{Request: 1, Op: Release, N: 1, Mode: HangAfter},
				{Request: 0, Op: LeavePlace, Mode: HangAfter},
				{Request: 0, Op: Admit, Mode: Slow, For: 1100 * ms},
			},
			Outages: []Outage{{Pod: 0, Kind: Partition, From: 900 * ms, For: 720 * ms}},
		},
	},
	{
		// The renewal that records a step arrives after the release of its run, and of the next one. It
		// claims the key again, and a RecoverFunc is told of a step that has not run.
		name: "a step is recorded after its run's release",
		plan: Plan{
			Policy: with(func(p *Policy) {
				p.LockTTL, p.StoreTimeout, p.Abandoned, p.Release = time.Second, 500*ms, Recover, []string{"5xx"}
			}),
			Pods: pods(2),
			Requests: []Request{
				{ID: 0, At: ms, Handler: []Step{{Do: Beside, N: 1}, {Do: Sleep, For: 10 * ms}, {Do: Panic}}},
				{ID: 1, At: 600 * ms, Handler: []Step{{Do: Panic}}},
				{ID: 2, Pod: 1, At: 10 * time.Second, Handler: []Step{{Do: CarefulEffect}}},
			},
			Calls: []CallFault{{Op: Extend, Mode: Late, For: 3800 * ms}},
		},
	},
	{
		// The operator forgets the key, and then a renewal from before the result of a step holds it
		// again. The next run repeats the step, as the operator has confirmed.
		name: "a renewal without the result of a step comes after its key was forgotten",
		plan: Plan{
			Policy: with(func(p *Policy) { p.LockTTL, p.StoreTimeout = time.Second, 500*ms }),
			Pods:   pods(1),
			Requests: []Request{
				{ID: 0, At: ms, Handler: []Step{{Do: InStep, For: 1100 * ms}}},
				{ID: 1, At: 3 * time.Second, Handler: []Step{{Do: InStep}}},
			},
			Operations: []Operation{{Forget: true, At: 1400 * ms}},
			Calls:      []CallFault{{Op: Extend, N: 3, Mode: Late, For: 500 * ms}},
		},
	},
	{
		// The reply to a step's renewal comes late, so that the next renewal is due at once. It does
		// not wait for the call that keeps the place of the key, which the store does not answer.
		name: "a place is kept while a renewal is due",
		plan: Plan{
			Policy:   with(func(p *Policy) { p.LockTTL, p.StoreTimeout = 300*ms, 500*ms }),
			Pods:     pods(1),
			Limit:    core.ScopeLimit{InFlight: 1},
			Requests: []Request{{ID: 0, At: ms, Handler: []Step{{Do: InStep, N: 1, For: 2 * ms}, {Do: Sleep, For: 100 * ms}}}},
			Calls:    []CallFault{{Op: Extend, N: 1, Mode: SlowBack, For: 255 * ms}},
			Outages:  []Outage{{Kind: Partition, From: 160 * ms, For: 200 * ms}},
		},
	},
	{
		// A claim is applied when the store has forgotten the response of its request and another
		// request has run. The two responses are of two lives of the key.
		name: "a claim comes after the response of its request was forgotten",
		plan: Plan{
			Policy: with(func(p *Policy) { p.StoreTimeout, p.Wait = 100*ms, time.Second }),
			Pods:   pods(2),
			Requests: []Request{
				{ID: 0, At: ms, Handler: []Step{{Do: Sleep, For: 300 * ms}, {Do: Panic}}},
				{ID: 1, Pod: 1, At: 50 * ms, Handler: []Step{{Do: Effect}}},
				{ID: 2, At: 2 * time.Second, Handler: []Step{{Do: Effect}}},
			},
			Jumps: []Jump{{Kind: Skip, At: 1500 * ms, By: time.Hour}},
			Calls: []CallFault{{Request: 1, Op: Acquire, N: 1, Mode: Late, For: 3 * time.Second}},
		},
	},
}
