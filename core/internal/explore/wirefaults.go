package explore

import (
	"time"

	faultproxy "github.com/oncekey/oncekey/internal/testkit/proxy"
)

// trouble is one fault on one network of a pod.
type trouble struct {
	fault faultproxy.Fault
	where *faultproxy.Proxy
}

// harm starts a fault on one of the pod's networks, or on all of them if which is
// even. It returns a function that ends the fault.
func (l *wire) harm(fault faultproxy.Fault, which int) (end func()) {
	var ends []func()
	for i, where := range l.Networks {
		if which%2 == 0 || i == which/2%len(l.Networks) {
			ends = append(ends, l.begin(&trouble{fault, where}))
		}
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// faultOf is the network fault for a call's mode.
func faultOf(mode Mode) faultproxy.Fault {
	switch mode {
	case FailBefore:
		return faultproxy.LoseRequests()
	case FailAfter:
		return faultproxy.LoseReplies()
	case HangAfter:
		return faultproxy.HoldReplies()
	case Refused:
		return faultproxy.Refuse()
	case SlowBack:
		return faultproxy.Latency(50 * time.Millisecond)
	default:
		return faultproxy.Blackhole()
	}
}

func (l *wire) begin(t *trouble) (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, t)
	l.episodes++
	t.where.Set(t.fault)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		left := l.faults[:0]
		fault := faultproxy.None()
		for _, other := range l.faults {
			if other == t {
				continue
			}
			left = append(left, other)
			if other.where == t.where {
				fault = other.fault
			}
		}
		l.faults = left
		t.where.Set(fault)
	}
}

// state returns the number of faults so far, and whether no fault is in force.
func (l *wire) state() (episodes int, calm bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.episodes, len(l.faults) == 0
}

// disconnect applies an outage to the connections of its pod.
func (r *reality) disconnect(n int, o Outage) {
	var fault faultproxy.Fault
	switch o.Kind {
	case Partition:
		fault = faultproxy.Blackhole()
	case Cut, Kill:
		fault = faultproxy.Refuse()
	default:
		return
	}
	sleep(o.From)
	var ends []func()
	if o.Kind == Kill {
		n = 0 // all networks
	}
	for _, l := range r.wiresOf(o.Pod) {
		ends = append(ends, l.harm(fault, n))
	}
	if o.Kind == Kill { // a killed pod never reconnects
		return
	}
	sleep(o.For)
	for _, end := range ends {
		end()
	}
}

func (r *reality) wiresOf(pod int) (of []*wire) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	for _, l := range r.pods {
		if l.pod.ID == pod {
			of = append(of, l)
		}
	}
	return of
}
