package explore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/oncekey/oncekey/core/storage"
	faultproxy "github.com/oncekey/oncekey/internal/testkit/proxy"
)

// wire connects a pod to a real store. A fault of the plan is applied to the pod's
// connections, so it also hits the pod's other calls.
type wire struct {
	*Connection
	world *world
	pod   *pod

	mu       sync.Mutex
	faults   []*trouble // the faults in force, the newest last
	episodes int        // the number of faults so far
	begun    []storage.Transaction
}

var _ storage.Transactor = (*wire)(nil)

// open makes the pod's client.
func (r *reality) open(p *pod) storage.Store {
	connection, err := r.Connect()
	if err != nil {
		panic(err)
	}
	l := &wire{Connection: connection, world: r.world, pod: p}
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	r.pods = append(r.pods, l)
	return l
}

// Transacts reports whether the store supports transactions.
func (l *wire) Transacts() bool { return l.world.real.Written != nil }

func (l *wire) Acquire(ctx context.Context, request storage.Request) (lease storage.Lease, record *storage.Record, err error) {
	c := request.Claim()
	who := l.world.introduce(ctx, l.pod, c)
	err = l.call(Acquire, who, func() verdict {
		lease, record, err = l.Store.Acquire(ctx, c)
		return l.world.real.claimed(c.Key, lease, record, err, who)
	})
	return lease, record, err
}

func (l *wire) Complete(ctx context.Context, lease storage.Lease, res storage.Result) error {
	return l.call(Complete, l.world.callerOf(lease.Token), func() verdict {
		return settledBy(l.Store.Complete(ctx, lease, res), res.State.String())
	})
}

func (l *wire) Release(ctx context.Context, lease storage.Lease) error {
	return l.call(Release, l.world.callerOf(lease.Token), func() verdict {
		return settledBy(l.Store.Release(ctx, lease), "released")
	})
}

func (l *wire) Extend(ctx context.Context, lease storage.Lease, ttl time.Duration) error {
	return l.call(extension(ttl), l.world.callerOf(lease.Token), func() verdict {
		return settledBy(l.Store.Extend(ctx, lease, ttl), "extended")
	})
}

func settledBy(err error, outcome string) verdict {
	if errors.Is(err, storage.ErrLeaseLost) {
		outcome = "lease lost"
	}
	return verdict{source: -1, err: err, word: outcome}
}

// claimed returns the verdict on a claim.
func (r *reality) claimed(key string, lease storage.Lease, record *storage.Record, err error, who caller) verdict {
	v := verdict{lease: lease, record: record, err: err, source: -1, word: "lease"}
	switch {
	case err != nil:
		v.word = ""
	case record != nil:
		v.lease, v.source, v.word = storage.Lease{}, r.holderOf(key, record.Attempt), record.State.String()
		if record.Abandoned() {
			v.word = "abandoned"
		}
	default:
		v.source = r.granted(key, lease, who)
		if lease.TookOver {
			v.word = "lease taken over"
		}
	}
	return v
}

// granted records an attempt, and returns the request whose lease it took over, or -1.
func (r *reality) granted(key string, lease storage.Lease, who caller) (from int) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	if r.holders[key] == nil {
		r.holders[key] = map[uint64]int{}
	}
	from = -1
	last := uint64(0)
	for attempt, request := range r.holders[key] {
		if lease.TookOver && attempt < lease.Attempt && attempt > last {
			last, from = attempt, request
		}
	}
	r.holders[key][lease.Attempt] = who.request
	return from
}

func (r *reality) holderOf(key string, attempt uint64) int {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	if request, known := r.holders[key][attempt]; known {
		return request
	}
	return -1
}

// call makes one call under the plan's fault, and records the call.
func (l *wire) call(op Op, who caller, do func() verdict) error {
	w := l.world
	j := &journey{link: &link{world: w, pod: l.pod}, op: op, who: who, n: w.count(who, op), do: do}
	j.fault = w.faultOf(who, op, j.n)
	held := l.pod.hold(who.request, 0)
	j.faulty = held
	j.log(Called, verdict{source: -1})
	v, explained := l.observe(j)
	unexpected := v.err != nil && !errors.Is(v.err, storage.ErrLeaseLost)
	j.faulty = l.pod.hold(who.request, 0) || held || explained || unexpected
	if !unexpected {
		j.log(Applied, v)
	}
	j.log(Returned, v)
	if errors.Is(v.err, errClient) {
		panic(v.err)
	}
	return v.err
}

// observe makes the call, and reports whether a fault of the plan explains the
// result. An unexplained failure makes the run unsteady.
func (l *wire) observe(j *journey) (v verdict, explained bool) {
	before, calm := l.state()
	began := time.Now()
	v = verdict{err: errGone, source: -1}
	if !l.pod.isDead() {
		v = l.under(j)
	}
	took := time.Since(began)
	after, still := l.state()
	explained = j.faulty || j.fault != nil || before != after || !calm || !still
	failed := v.err != nil && !errors.Is(v.err, storage.ErrLeaseLost)
	if !explained && (failed || took > l.world.plan.Policy.steady()) {
		l.world.real.unsteady.Store(true)
	}
	return v, explained
}

// under makes the call while its fault lasts.
func (l *wire) under(j *journey) verdict {
	if j.fault == nil {
		return j.do()
	}
	mode, which := j.fault.Mode, int(j.op)+j.n
	switch mode {
	case PanicBefore:
		return verdict{err: errClient, source: -1}
	case PanicAfter:
		if v := j.do(); v.err != nil {
			return v
		}
		return verdict{err: errClient, source: -1}
	case Slow:
		time.AfterFunc(j.fault.For, l.harm(faultOf(mode), which))
	case Late:
		end := l.harm(faultOf(mode), which)
		defer time.AfterFunc(j.fault.For, end)
	case Hang: // a request already sent must not arrive
		end := l.harm(faultOf(mode), which)
		defer func() {
			reset := l.harm(faultproxy.Refuse(), which)
			end()
			reset()
		}()
	default:
		defer l.harm(faultOf(mode), which)()
	}
	return j.do()
}
