package explore

import (
	"context"
	"testing"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
)

// twice is a plan that sends one key to two pods, to the second one at this time.
func twice(second time.Duration, handler ...Step) Plan {
	return Plan{
		Policy: defaultPolicy(), Pods: pods(2),
		Requests: []Request{
			{ID: 0, Pod: 0, At: ms, Handler: handler},
			{ID: 1, Pod: 1, At: second, Handler: []Step{{Do: CarefulEffect}}},
		},
	}
}

func sabotaged(by sabotage, plan Plan) Plan {
	plan.sabotage = by
	return plan
}

func changed[T any](value T, change func(*T)) T {
	change(&value)
	return value
}

// Each rule fails if the simulation is broken on purpose. The same plan in a sound
// simulation breaks no rule.
func TestJudgeSeesEachRuleBroken(t *testing.T) {
	t.Parallel()
	effect := Step{Do: CarefulEffect}
	oneAfterTheOther := twice(100*ms, effect)
	cutOff := changed(twice(2*time.Second, Step{Do: Sleep, For: 2500 * ms}, effect), func(p *Plan) {
		p.Outages = []Outage{{Pod: 0, Kind: Cut, From: 100 * ms, For: 10 * time.Second}}
	})
	remembered := changed(oneAfterTheOther, func(p *Plan) { p.Policy.TTL, p.Policy.Remember = 8*time.Second, time.Hour })
	continued := changed(twice(100*ms, Step{Do: InStep}, Step{Do: Respond, N: 500}), func(p *Plan) {
		p.Requests[1].Handler = []Step{{Do: InStep}}
	})
	refused := changed(oneAfterTheOther.clone(), func(p *Plan) { p.Requests[0].Refused = true })
	unknown := changed(twice(100*ms, effect, Step{Do: MarkUncertain}, Step{Do: Respond, N: 504}), func(p *Plan) { p.Policy.Abandoned = Refuse })
	reconciled := changed(unknown.clone(), func(p *Plan) {
		p.Requests[1].At = 4 * time.Second
		p.Reconcilers = []Reconciler{patientReconciler(1, Truth)}
	})
	for _, c := range []struct {
		rule Rule
		plan Plan
	}{
		{TwoEffects, sabotaged(grantsAlways, oneAfterTheOther)},
		{TwoResponses, sabotaged(grantsAlways, oneAfterTheOther)},
		{ReplayDiffers, sabotaged(altersBody, oneAfterTheOther)},
		{NotStored, sabotaged(altersStatus, oneAfterTheOther)},
		{WronglyReused, sabotaged(altersRequest, oneAfterTheOther)},
		{ReplayOfOther, sabotaged(forgetsRequest, changed(oneAfterTheOther.clone(), func(p *Plan) {
			p.Requests[1].Body.Payload = 1
		}))},
		{KeyBlocked, sabotaged(neverFinishes, oneAfterTheOther)},
		{LeaseNotRenewed, sabotaged(leaseEndsEarly, twice(100*ms, Step{Do: Sleep, For: time.Second}, effect))},
		{NoResponse, sabotaged(slowReply, oneAfterTheOther)},
		{Stuck, sabotaged(noReply, oneAfterTheOther)},
		{ShutdownFails, sabotaged(slowReply, oneAfterTheOther)},
		{ShutdownLate, sabotaged(closesLate, oneAfterTheOther)},
		{Unavailable, sabotaged(refusesQuietly, oneAfterTheOther)},
		{Unprotected, sabotaged(refusesQuietly, changed(oneAfterTheOther, func(p *Plan) { p.Policy.FailOpen = true }))},
		{WaitNoReplay, sabotaged(neverFinishes, changed(oneAfterTheOther, func(p *Plan) { p.Policy.Wait = 2 * time.Second }))},
		{RollingReused, sabotaged(altersRequest, changed(oneAfterTheOther, func(p *Plan) { p.Pods = []Pod{{ID: 0}, {ID: 1, Exclude: true}} }))},
		{DeferredResponse, sabotaged(losesResults, twice(2*time.Second, effect))},
		{UncertainResponse, sabotaged(losesResults, changed(cutOff.clone(), func(p *Plan) {
			p.Requests[0].Handler = []Step{{Do: Sleep, For: 2500 * ms}, {Do: Effect}}
		}))},
		{DecisionEvents, sabotaged(losesDecisions, oneAfterTheOther)},
		{SettlementEvents, sabotaged(losesSettlement, oneAfterTheOther)},
		{EffectAfterLease, sabotaged(neverLooks, cutOff)},
		{EffectBeside, sabotaged(neverLooks, cutOff)},
		{CutShort, sabotaged(endsRunsEarly, changed(twice(8*time.Second, Step{Do: Sleep, For: 1500 * ms}, effect), func(p *Plan) {
			p.Policy.MaxRun = 3 * time.Second
		}))},
		{UnprotectedBeside, sabotaged(opensAlways, twice(100*ms, effect, Step{Do: Sleep, For: time.Second}))},
		{RollbackHidden, sabotaged(hidesRollback, changed(oneAfterTheOther, func(p *Plan) {
			p.Policy.Transactional = true
			p.Calls = []CallFault{{Op: Commit, Mode: Refused}}
		}))},
		{PanicEscapes, sabotaged(escapes, oneAfterTheOther)},
		{PanicUnreported, sabotaged(hidesPanics, changed(oneAfterTheOther, func(p *Plan) {
			p.Panics = []Panicking{{In: InClassifier}}
		}))},
		{UncertainBlocks, sabotaged(keepsLeases, unknown)},
		{OutcomeForgotten, sabotaged(losesAbandoned, unknown)},
		{TwoEffects, sabotaged(losesAbandoned, unknown)},
		{ForgottenEarly, sabotaged(keepsNoTombstones, remembered)},
		{ExpiredWrongly, sabotaged(expiresAtOnce, oneAfterTheOther)},
		{UnknownWrongly, sabotaged(losesStatus, remembered)},
		{StepRepeated, sabotaged(losesSteps, continued)},
		{StepDiffers, sabotaged(losesSteps, continued)},
		{RefusalForgotten, sabotaged(keepsRefused, refused)},
		{RefusalRepeated, sabotaged(sendsRefusedAgain, refused)},
		{LimitIgnored, sabotaged(admitsAll, changed(twice(20*ms, Step{Do: Sleep, For: 100 * ms}), func(p *Plan) {
			p.Requests[1].Key, p.Limit.InFlight = 1, 1
		}))},
		{ReconciledRuns, sabotaged(rerunsByHand, reconciled)},
		{BrokenProblem, sabotaged(breaksProblems, twice(100*ms, effect, Step{Do: Sleep, For: time.Second}))},
	} {
		t.Run(string(c.rule), func(t *testing.T) {
			t.Parallel()
			if !breaks(t, c.plan, c.rule) {
				t.Errorf("the judge does not report the rule:\n%s", render(t, c.plan))
			}
			if sound := sabotaged(soundWorld, c.plan); breaks(t, sound, c.rule) {
				t.Errorf("the judge reports the rule in a sound world:\n%s", render(t, sound))
			}
		})
	}
}

// A real store may have granted a claim whose call was killed or has failed.
func TestClaimWithoutAReply(t *testing.T) {
	t.Parallel()
	called := Fact{Kind: Called, Op: Acquire}
	for name, row := range map[string]struct {
		facts []Fact
		want  bool
	}{
		"no call": {nil, false},
		"reply":   {[]Fact{called, {Kind: Returned, Op: Acquire}}, false},
		"killed":  {[]Fact{called}, true},
		"late":    {[]Fact{called, {Kind: Returned, Op: Acquire, Err: context.DeadlineExceeded, Flags: Faulty}}, true},
		"late, then reply": {[]Fact{
			called,
			{Kind: Returned, Op: Acquire, Err: context.DeadlineExceeded},
			{Kind: Called, Op: Acquire, N: 1},
			{Kind: Returned, Op: Acquire, N: 1},
		}, true},
	} {
		r, plan := new(run), twice(100*ms)
		for i := range row.facts {
			r.add(&plan, &row.facts[i])
		}
		testkit.Equal(t, r.mayHaveClaimed(), row.want, "%s", name)
	}
}
