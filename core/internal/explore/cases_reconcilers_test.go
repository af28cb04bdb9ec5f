package explore

import (
	"time"

	"github.com/oncekey/oncekey/core"
)

// uncertain is a request that leaves its key abandoned.
func uncertain(more ...Step) Request {
	return Request{At: ms, Handler: append([]Step{{Do: Sleep, For: ms}, {Do: MarkUncertain}}, more...)}
}

// Plans with reconcilers. The mutants that these plans find are rarely found by a drawn plan.
var reconcilerCases = []planned{
	{
		// The claim of a reconciler is slow. Meanwhile another one has asked, and has left the
		// key abandoned again. The first one does not ask about the attempt that it has not seen.
		name: "two reconcilers claim one key",
		plan: Plan{
			Policy:      defaultPolicy(),
			Pods:        pods(2),
			Requests:    []Request{uncertain()},
			Reconcilers: []Reconciler{patientReconciler(0, Again), changed(patientReconciler(1, Again), func(r *Reconciler) { r.From = 160 * ms })},
			Calls:       []CallFault{{Request: questionID, Op: Acquire, Mode: Slow, For: 300 * ms}},
		},
	},
	{
		// The process is cut off while it asks. The FindFunc learns of the lost lease, and another
		// process asks again, and settles the key.
		name: "a reconciler is cut off while it asks",
		plan: Plan{
			Policy:   defaultPolicy(),
			Pods:     pods(2),
			Requests: []Request{uncertain(Step{Do: Effect})},
			Reconcilers: []Reconciler{
				changed(patientReconciler(0, Truth), func(r *Reconciler) { r.Takes, r.FindTimeout = 2*time.Second, 5*time.Second }),
				changed(patientReconciler(1, Truth), func(r *Reconciler) { r.From, r.Backoff, r.Responds = 500*ms, 10*ms, true }),
			},
			Outages: []Outage{{Pod: 0, Kind: Partition, From: 250 * ms, For: 5 * time.Second}},
		},
	},
	{
		// A reconciler asks about one key at a time. When it comes to the second key, another one has
		// asked about it: the first one looks at the record again, and does not ask.
		name: "a list is out of date",
		plan: Plan{
			Policy:   defaultPolicy(),
			Pods:     pods(2),
			Requests: []Request{uncertain(), {ID: 1, Key: 1, At: 2 * ms, Handler: []Step{{Do: MarkUncertain}}}},
			Reconcilers: []Reconciler{
				changed(patientReconciler(0, Again), func(r *Reconciler) { r.Alone, r.Takes = true, 800*ms }),
				changed(patientReconciler(1, Again), func(r *Reconciler) { r.From = 300 * ms }),
			},
		},
	},
	{
		// The reconciler gives up after its last attempt.
		name: "a reconciler gives up",
		plan: Plan{
			Policy:      with(func(p *Policy) { p.Abandoned = Refuse }),
			Pods:        pods(1),
			Requests:    []Request{uncertain()},
			Reconcilers: []Reconciler{changed(patientReconciler(0, Fails, Again), func(r *Reconciler) { r.Backoff, r.MaxAttempts, r.For = 10*ms, 3, 2*time.Second })},
		},
	},
	{
		// An operator has forgotten the first response. The process replays one that its reconciler has
		// found, and that the store has not confirmed: it belongs to the second life of the key.
		name: "a response is found after the first was forgotten",
		plan: Plan{
			Policy: with(func(p *Policy) { p.LockTTL, p.StoreTimeout = time.Second, 100*ms }),
			Pods:   pods(1),
			Requests: []Request{
				{ID: 0, At: 100 * ms, Handler: []Step{{Do: Effect}}},
				{ID: 1, At: 1500 * ms, Handler: []Step{{Do: MarkUncertain}}},
				{ID: 2, At: 2500 * ms},
			},
			Operations:  []Operation{{At: 400 * ms, Pause: 400 * ms, Forget: true}},
			Reconcilers: []Reconciler{changed(patientReconciler(0, Truth), func(r *Reconciler) { r.From, r.Takes, r.Responds = 1900*ms, 350*ms, true })},
			Calls: []CallFault{
				{Request: questionID, Op: Complete, Mode: SlowBack, For: 2600 * ms},
				{Request: questionID, Op: Complete, N: 1, Mode: SlowBack, For: 2600 * ms},
			},
		},
	},
	{
		// The store refuses the response for good, and the call without it hangs until the lease has
		// ended. The client has its response, and a reconciler, which has found no effect, releases the key.
		name: "a refused response is lost to a reconciler",
		plan: Plan{
			Policy:      with(func(p *Policy) { p.LockTTL, p.StoreTimeout = 300*ms, 500*ms }),
			Pods:        pods(2),
			Requests:    []Request{{ID: 0, Pod: 1, At: ms, Refused: true}},
			Reconcilers: []Reconciler{changed(patientReconciler(0, Truth), func(r *Reconciler) { r.After = ms })},
			Calls: []CallFault{
				{Op: Complete, Mode: PanicAfter},
				{Op: Complete, N: 2, Mode: Hang},
			},
		},
	},
	{
		// A claim of a reconciler is applied when another one has released its key, and another
		// request has left it abandoned. The record has the bytes of the first request again, and a
		// pod that excludes nothing takes the second one's for another payload.
		name: "a claim comes after the next abandoned request of a rolling deployment",
		plan: Plan{
			Policy: with(func(p *Policy) { p.Abandoned, p.LockTTL, p.StoreTimeout = Refuse, time.Second, 500*ms }),
			Pods:   []Pod{{Exclude: true}, {ID: 1}},
			Requests: []Request{
				{At: ms, Body: Body{Spelling: 1}, Handler: []Step{{Do: MarkUncertain}}},
				{ID: 1, At: 2 * time.Second, Handler: []Step{{Do: MarkUncertain}}},
				{ID: 2, Pod: 1, At: 6 * time.Second},
			},
			Reconcilers: []Reconciler{changed(patientReconciler(1, Truth), func(r *Reconciler) { r.After, r.MaxAttempts, r.For = ms, 3, 5*time.Second })},
			Calls:       []CallFault{{Request: questionID, Op: Acquire, Mode: Late, For: 3200 * ms}},
		},
	},
	{
		// A late renewal brings back the record of a run whose key was released. Meanwhile another request had the key for a moment:
		// the time before a question is that of the record.
		name: "a question is about a record that a late renewal has brought back",
		plan: Plan{
			Policy: with(func(p *Policy) { p.StoreTimeout = 100 * ms }),
			Pods:   pods(1),
			Limit:  core.ScopeLimit{InFlight: 1, PerMinute: 1},
			Requests: []Request{
				{At: 50 * ms, Handler: []Step{{Do: Sleep, For: 900 * ms}, {Do: MarkRetryable}}},
				{ID: 1, At: time.Second},
			},
			Reconcilers: []Reconciler{changed(patientReconciler(0, Truth), func(r *Reconciler) {
				r.From, r.For, r.After, r.Search = time.Second, 20*time.Second, 3900*ms, 300*ms
			})},
			Calls: []CallFault{{Op: Extend, N: 1, Mode: Late, For: 600 * ms}},
		},
	},
}
