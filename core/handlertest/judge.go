package handlertest

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/oncekey/oncekey/core/storage"
)

// judge finds the faults of the service in every run.
func (r *Report) judge() {
	for _, o := range r.runs {
		switch {
		case o.stuck != "":
			o.find("stuck", o.stuck, "end every goroutine and every wait of the handler with its context")
		case o.plan != nil && !o.fired:
			o.find("point not reached", "the calls of the handler change from run to run", "make equal calls in equal runs")
		default:
			r.judgeEffects(o)
			o.judgeResponses()
		}
	}
}

func (o *outcome) find(wrong, why string, do ...string) {
	o.findings = append(o.findings, finding{wrong, advice{why, do}})
}

// judgeEffects compares the effects with the responses.
func (r *Report) judgeEffects(o *outcome) {
	final := o.final()
	told := o.effectsAt(final)
	lost := told < r.want
	if o.effects > r.want {
		o.findings = append(o.findings, finding{plural(o.effects, r.want), r.adviceAgainstTwo(o)})
	}
	switch {
	case final == nil:
		o.find("no final response", "each retry fails",
			"let a retry succeed when the fault is over", "keep the response, so that a retry gets it")
	case lost && final.status < http.StatusBadRequest:
		o.find("lost effect: "+final.String(), "the client is told of an effect that has not happened",
			"respond with success only if "+r.callOf(o)+" had no error")
	case lost && final.stored && final.status >= http.StatusInternalServerError:
		o.find("lost effect: "+final.String()+" is kept", "each retry gets the error, and the effect has not happened",
			"call failure.MarkExecuted after "+r.callOf(o)+", not before it", "do not keep a 5xx (policy.Keep)")
	case told > 0 && final.code == "" && final.status >= http.StatusBadRequest && final.status < http.StatusInternalServerError:
		o.find("refused, but done: "+final.String(), "the client is told that nothing happened, but "+r.callOf(o)+" had its effect",
			"call failure.MarkUncertain when the call fails, and respond with 502 or 504")
	}
}

// effectsAt counts the effects that the final response tells of. One before the last response
// tells nothing of what the last request does, where the key was released.
func (o *outcome) effectsAt(final *exchange) int {
	if final == &o.responses[len(o.responses)-1] {
		return o.effects
	}
	return o.settled
}

func plural(effects, want int) string {
	if effects == 2 && want == 1 {
		return "two effects"
	}
	return fmt.Sprintf("%d effects, not %d", effects, want)
}

// judgeResponses compares the final responses with each other and with the record.
func (o *outcome) judgeResponses() {
	var first *exchange
	for i := range o.responses {
		x := &o.responses[i]
		if !x.isKept() {
			continue
		}
		if first == nil {
			first = x
		}
		if !x.equals(first) {
			o.find("two responses", "a later attempt responds in another way",
				"make the response from the provider's reply, or from the result of a core.Step")
			return
		}
	}
	switch {
	case first == nil, o.stored != nil && o.stored.State == storage.Unreplayable && o.stored.Status == first.status:
	case !o.stored.has(first):
		o.find("not the stored response", "the client has a response that the store does not have",
			"do not release the key of a success, and declare policy.OnStoreError(policy.FailClosed)",
			"put middleware that changes the response inside the guard")
	}
}

// callOf names the outgoing call that the run is about.
func (r *Report) callOf(o *outcome) string {
	if p := r.effectOf(o); p != nil {
		return "the call at " + p.at()
	}
	return "the effect"
}

// effectOf returns the outgoing call that had the effect of the run: the one that failed,
// or the last one before it where the failed call comes after the effect.
func (r *Report) effectOf(o *outcome) *point {
	if o.plan == nil {
		return nil
	}
	var last *point
	for i, p := range r.runs[0].points {
		if p.is(o.plan.point) {
			if p.kind.isOutgoing() && (last == nil || !r.isLate(p)) {
				return &r.runs[0].points[i]
			}
			return last
		}
		if p.kind.isOutgoing() && !r.isLate(p) {
			last = &r.runs[0].points[i]
		}
	}
	return nil
}

// isLate reports whether the effect comes before the call: it is repeated where the call
// is refused.
func (r *Report) isLate(p point) bool {
	for _, o := range r.runs[1:] {
		if o.plan.point.is(p) && o.plan.fault == (fault{before, refused}) {
			return o.effects > r.want
		}
	}
	return false
}

// adviceAgainstTwo tells how to prevent the second effect.
func (r *Report) adviceAgainstTwo(o *outcome) advice {
	p := r.effectOf(o)
	switch {
	case o.plan == nil || p == nil:
		return adviceWithoutCall(o)
	case p.kind.isSQL() && r.transacts():
		return advice{"the call at " + p.at() + " is not in the transaction of the request", []string{"write in the transaction that sqlstore.Tx returns"}}
	default:
		return o.adviceAbout(p)
	}
}

// adviceAbout tells how to prevent the second effect of a call.
func (o *outcome) adviceAbout(p *point) advice {
	at := "the call at " + p.at()
	idempotent := `pass core.DeriveKey(ctx, "charge") to the provider, which then recognizes the second call`
	if p.kind.isSQL() {
		idempotent = `write core.DeriveKey(ctx, "charge") to a column with a unique constraint, or use policy.Transactional`
	}
	switch f, own := o.plan.fault, o.plan.point.is(*p); {
	case f == fault{before, leaseLost} && own:
		return advice{at + " goes on after the lease is lost", []string{"pass the request's context to the call, and " + idempotent}}
	case f.what == killed || f.what == leaseLost:
		return advice{"the process can end after " + at, []string{idempotent, ask}}
	case f.when == during && own:
		return advice{at + " may have its effect although it fails", []string{
			idempotent,
			"call failure.MarkUncertain when the call fails, and " + ask,
		}}
	default:
		return advice{"the handler fails after " + at + ", and releases the key", []string{
			"call failure.MarkExecuted right after the call",
			idempotent,
			"wrap the call in a core.Step",
		}}
	}
}

// transacts reports whether the handler runs in a transaction of the store.
func (r *Report) transacts() bool {
	return slices.ContainsFunc(r.runs[0].points, func(p point) bool { return p.name == beginTransaction })
}

// ask is the advice for an outcome that is not known.
const ask = "declare policy.OnAbandoned(policy.Recover(find)), which asks before a second run"

// adviceWithoutCall is for an effect that the kit has not seen.
func adviceWithoutCall(o *outcome) advice {
	switch {
	case o.plan != nil && o.plan.fault.what == unreachable && o.plan.point.kind == acquire:
		return advice{"the handler runs without a claim", []string{"declare policy.OnStoreError(policy.FailClosed)"}}
	case o.plan != nil && (o.plan.fault.what == killed || o.plan.fault.what == leaseLost):
		return advice{"the process can end after the effect", []string{"make the effect idempotent with core.DeriveKey", ask}}
	default:
		return advice{"a retry runs the handler again", []string{"call failure.MarkExecuted right after the effect, and keep the response"}}
	}
}
