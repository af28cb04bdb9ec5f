package explore

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// journey is one call on its way.
type journey struct {
	*link
	op     Op
	who    caller
	n      int
	fault  *CallFault
	faulty bool
	do     func() verdict
}

func (l *link) call(ctx context.Context, op Op, who caller, do func() verdict) verdict {
	j := journey{link: l, op: op, who: who, n: l.world.count(who, op), do: do}
	j.fault = l.world.faultOf(who, op, j.n)
	j.faulty = j.fault != nil
	sleep(j.delay(2) % jitter) // another goroutine of the request must not begin in the same instant
	j.faulty = j.hold(3) || j.faulty
	j.log(Called, verdict{source: -1})
	v := j.travel(ctx)
	if v.err != nil { // the end of a context wakes other goroutines, too
		sleep(j.delay(5) % jitter)
	}
	if j.hold(4) && !j.faulty { // a late call, which has a fault, may read the field meanwhile
		j.faulty = true
	}
	j.log(Returned, v)
	if errors.Is(v.err, errClient) {
		panic(v.err)
	}
	return v
}

// jitter bounds the delay that separates the beginning and the end of a call from
// other events in the same instant.
const jitter = 20 * time.Microsecond

// hold delays the call while its pod is frozen.
func (j *journey) hold(leg int) bool { return j.pod.hold(0, j.delay(leg)) }

// delay is how long one leg of the journey takes: 0.2 to 2 ms.
func (j *journey) delay(leg int) time.Duration {
	d := j.world.hash(j.pod.ID, j.who.request, bit(j.who.inner), int(j.op), j.n, leg)
	return 200*time.Microsecond + time.Duration(d%1_800_000)
}

// travel makes the call.
func (j *journey) travel(ctx context.Context) verdict {
	if v, over := j.stillborn(ctx); over {
		return v
	}
	there, back := j.delay(0), j.delay(1)
	switch j.mode() {
	case Hang:
		return j.lost(ctx)
	case Refused:
		return j.fail(ctx, there/4, j.refusal())
	case PanicBefore:
		return j.fail(ctx, there, errClient)
	case FailBefore:
		return j.fail(ctx, there, errBroken)
	case Corrupt, Unreadable, Forbidden:
		return j.fail(ctx, there, lasting[j.fault.Mode])
	case Late:
		j.world.later(there+j.fault.For, func() { j.apply() })
		return j.lost(ctx)
	case Slow:
		there += j.fault.For
	case SlowBack:
		back += j.fault.For
	default:
	}
	if err := j.pass(ctx, there); err != nil {
		return verdict{err: err, source: -1}
	}
	return j.reply(ctx, j.apply(), back)
}

// reply brings the store's verdict back to the caller.
func (j *journey) reply(ctx context.Context, v verdict, back time.Duration) verdict {
	if j.mode() == HangAfter {
		return j.lost(ctx)
	}
	if err := j.pass(ctx, back); err != nil {
		return verdict{err: err, source: -1}
	}
	switch j.mode() {
	case FailAfter:
		v = verdict{err: errBroken, source: -1}
	case Sealed:
		v.seal()
	case PanicAfter:
		v = verdict{err: errClient, source: -1}
	default:
	}
	return v
}

// refusal is the error of a call that was not made. A refused commit is rolled back.
func (j *journey) refusal() error {
	if j.op == Commit {
		return storage.ErrRolledBack
	}
	return errRefused
}

// mode is how the call fails, or numModes. A Release waits for the commit before
// it, so a commit is never applied late.
func (j *journey) mode() Mode {
	switch {
	case j.fault == nil:
		return numModes
	case j.fault.Mode == Late && j.op == Commit:
		return HangAfter
	default:
		return j.fault.Mode
	}
}

// stillborn reports whether the call ends before it begins.
func (j *journey) stillborn(ctx context.Context) (v verdict, over bool) {
	if err := ctx.Err(); err != nil {
		return verdict{err: err, source: -1}, true
	}
	if j.pod.isDead() {
		j.faulty = true
		return verdict{err: errGone, source: -1}, true
	}
	return j.sabotaged()
}

// sabotaged applies the plan's sabotage of the network.
func (j *journey) sabotaged() (v verdict, over bool) {
	by := j.world.plan.sabotage
	switch {
	case j.op == Complete && by == slowReply:
		sleep(10 * time.Minute)
	case j.op == Complete && by == noReply:
		<-make(chan struct{})
	case j.op == Acquire && by == refusesQuietly:
		return verdict{err: errRefused, source: -1}, true
	}
	return verdict{}, false
}

// pass waits for one leg of the journey. A partition blocks the call until the
// partition ends.
func (j *journey) pass(ctx context.Context, leg time.Duration) error {
	for {
		if j.pod.isDead() {
			j.faulty = true
			return errGone
		}
		o := j.pod.outage(Cut)
		if o != nil {
			j.faulty = true
			return j.fail(ctx, leg/4, errRefused).err
		}
		if o = j.pod.outage(Partition); o == nil {
			break
		}
		j.faulty = true
		if err := wait(ctx, o.From+o.For-j.world.since()+leg); err != nil {
			return err
		}
	}
	return wait(ctx, leg)
}

func (j *journey) fail(ctx context.Context, after time.Duration, err error) verdict {
	if ended := wait(ctx, after); ended != nil {
		err = ended
	}
	return verdict{err: err, source: -1}
}

// lost waits for a reply that never comes.
func (j *journey) lost(ctx context.Context) verdict {
	<-ctx.Done()
	return verdict{err: ctx.Err(), source: -1}
}

// apply runs the call at the store.
func (j *journey) apply() verdict {
	v := j.do()
	j.log(Applied, v)
	return v
}

func (j *journey) log(kind Kind, v verdict) {
	f := Fact{
		Pod: j.pod.ID, Request: j.who.request, Inner: j.who.inner, Kind: kind,
		Op: j.op, N: j.n, Attempt: v.lease.Attempt, Life: v.life, Source: v.source, Err: v.err, Text: v.word, Since: v.age,
	}
	if v.err == nil && v.lease.Attempt > 0 {
		f.Flags |= Granted
		if v.lease.TookOver {
			f.Flags |= TookOver
		}
	}
	if j.faulty {
		f.Flags |= Faulty
	}
	if strings.HasPrefix(v.lease.Steps, newerLine) {
		f.Flags |= NewerSteps
	}
	if v.record != nil {
		f.Status, f.Attempt = v.record.Status, v.record.Attempt
	}
	j.world.add(f)
}

// wait waits for d. It returns the error of ctx if ctx ends first.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// sleep lets virtual time pass.
func sleep(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // the clock is the bubble's, not the machine's
