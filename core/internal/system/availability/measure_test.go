package availability

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/policy"
)

// slack is for busy machines: the guard's interruption may be so much longer than the
// store's outage and one StoreTimeout.
const slack = 10 * time.Second

// scenario is one row of the table.
type scenario struct {
	name          string
	guarded, bare post
	// strike makes the event under the load. It returns when the event began, when the
	// service's operators, or the servers themselves, have done all they do.
	strike func(l *load) time.Time
	// orderly: the event takes no store away, and processes end in order.
	orderly bool
	// effects returns the number of effects of each key.
	effects func(t *testing.T) map[string]int
	// mayRepeat reports whether the store may have lost the key's first run at the event. Nil:
	// the store loses nothing.
	mayRepeat func(key string, event time.Time) bool
}

// outcome is the effect of an event on the requests that were not over when it began.
type outcome struct {
	name                        string
	requests                    int // at each service
	both, guardAlone, guardElse int
	guarded, bare               time.Duration // from the event to the first success after a failure
	lastGuarded, lastBare       time.Duration // from the event to the begin of the last failed request
	keys, twice                 int
	codes                       map[string]int // of the guard's refusals
	lost                        int            // requests to the guarded service without a response of it
}

// measure makes an event under a steady load, and judges the guard by its target.
func measure(t *testing.T, e scenario, before, after time.Duration) outcome {
	t.Helper()
	l := start(t, e.guarded, e.bare)
	l.awaitFlow(t)
	wait(before)
	began := e.strike(l)
	l.awaitFlow(t)
	wait(after)
	l.end()
	l.insist(t)
	o := judge(e.name, l.endedSince(began), began)
	o.count(t, e, l, began)
	t.Logf("%s: %+v", e.name, o)
	o.check(t)
	late := o.codes[problem.ShuttingDown] + o.codes[problem.NotConfirmed]
	if most := o.requests / 100; e.orderly && o.lost+late > most { // a busy machine may accept a connection too late
		t.Errorf("%s: %d requests got no response, and %d met a process that ends, want at most %d", o.name, o.lost, late, most)
	}
	return o
}

// judge compares the services pair by pair.
func judge(name string, pairs []pair, began time.Time) outcome {
	o := outcome{name: name, requests: len(pairs), codes: make(map[string]int)}
	for _, one := range pairs {
		if one.guarded.refused() {
			o.codes[one.guarded.code]++
		}
		if one.guarded.status == 0 || one.guarded.status == http.StatusBadGateway {
			o.lost++
		}
		switch {
		case one.guarded.succeeded():
		case !one.bare.succeeded():
			o.both++
		case one.guarded.refused():
			o.guardAlone++
		default:
			o.guardElse++
		}
	}
	o.guarded, o.lastGuarded = interruption(pairs, began, ofGuarded)
	o.bare, o.lastBare = interruption(pairs, began, ofBare)
	return o
}

// interruption returns the time until the end of the first new key that was served after a
// failure had ended, and the time until the end of the last failure.
func interruption(pairs []pair, began time.Time, service of) (first, last time.Duration) {
	var failed, served time.Time // the first failure, and the first success after it
	for _, one := range pairs {
		if got := service(one); one.first && !got.succeeded() {
			last = max(last, got.ended.Sub(began))
			failed = earlier(failed, got.ended)
		}
	}
	for _, one := range pairs {
		if got := service(one); one.first && got.succeeded() && !failed.IsZero() && one.began.After(failed) {
			served = earlier(served, got.ended)
		}
	}
	if !served.IsZero() {
		first = served.Sub(began)
	}
	return first, last
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// count counts the keys with several effects. Each request that succeeded has an effect.
func (o *outcome) count(t *testing.T, e scenario, l *load, began time.Time) {
	t.Helper()
	effects := e.effects(t)
	o.keys = len(effects)
	for key, n := range effects {
		if n == 1 {
			continue
		}
		o.twice++
		if e.mayRepeat == nil || !e.mayRepeat(key, began) {
			t.Errorf("%s: %s has %d effects", o.name, key, n)
		}
	}
	for _, one := range l.since(time.Time{}) {
		if one.guarded.succeeded() && effects[one.key] == 0 {
			t.Errorf("%s: %s succeeded without an effect", o.name, one.key)
		}
	}
}

// check compares the guard with its target: the store's own outage plus one StoreTimeout.
func (o *outcome) check(t *testing.T) {
	t.Helper()
	if o.requests == 0 || o.keys == 0 {
		t.Errorf("%s: there were %d requests and %d keys with an effect", o.name, o.requests, o.keys)
	}
	if limit := o.bare + policy.DefaultStoreTimeout + slack; o.guarded > limit {
		t.Errorf("%s: the guarded service served after %v, want at most %v", o.name, o.guarded, limit)
	}
	if limit := max(o.bare, o.lastBare) + policy.DefaultStoreTimeout + slack; o.lastGuarded > limit {
		t.Errorf("%s: the guarded service failed until %v, want at most %v", o.name, o.lastGuarded, limit)
	}
}

// header has the columns of table.
const header = `| event | requests | failed at both services | refused by the guard alone | guarded: first success, last failure after | without a guard | keys with two effects |
|---|---|---|---|---|---|---|
`

// table prints outcomes in the form of docs/guarantees.md.
func table(outcomes []outcome) string {
	var b strings.Builder
	b.WriteString(header)
	for _, o := range outcomes {
		fmt.Fprintf(&b, "| %s | %d | %d | %s | %s | %s | %d of %d |\n",
			o.name, o.requests, o.both, o.alone(), times(o.guarded, o.lastGuarded), times(o.bare, o.lastBare), o.twice, o.keys)
	}
	return b.String()
}

// alone prints the requests that the guard alone refused, with their share.
func (o *outcome) alone() string {
	if o.guardAlone == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%.2f %%)", o.guardAlone, 100*float64(o.guardAlone)/float64(o.requests))
}

func times(first, last time.Duration) string {
	if last == 0 {
		return "no failure"
	}
	return fmt.Sprintf("%.2f s, %.2f s", first.Seconds(), last.Seconds())
}

// refusals lists the codes of the guard's refusals, the most frequent first.
func (o *outcome) refusals() string {
	var all []string
	for _, code := range slices.SortedFunc(maps.Keys(o.codes), func(a, b string) int { return cmp.Compare(o.codes[b], o.codes[a]) }) {
		all = append(all, fmt.Sprintf("%s %d", code, o.codes[code]))
	}
	return strings.Join(all, ", ")
}
