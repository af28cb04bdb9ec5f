package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// RunLimiter tests a store that implements [storage.Limiter], each case against a store of its
// own, as [Run] does. A store without the interface fails.
func RunLimiter(t *testing.T, config Config) {
	t.Helper()
	needNew(t, config.New != nil)
	runAll(t, limiterCases, config.Wrap, config.open)
}

// place returns the place of a new key, in the n-th scope.
func place(n int) storage.Place { return storage.Place{Scope: key(n), Token: storage.NewToken()} }

// limiter returns the store, which must be a Limiter.
func (f *fixture) limiter() storage.Limiter {
	f.Helper()
	limiter, is := f.store.(storage.Limiter)
	if !is || !storage.Limits(f.store) {
		f.Fatalf("%T is no storage.Limiter", f.store)
	}
	return limiter
}

// limit bounds both, in a window that lasts longer than the case.
func (f *fixture) limit(inFlight, newKeys int) storage.ScopeLimit {
	return storage.ScopeLimit{InFlight: inFlight, NewKeys: newKeys, Window: f.long()}
}

func (f *fixture) ask(p storage.Place, ttl time.Duration, limit storage.ScopeLimit) storage.Admission {
	f.Helper()
	admission, err := f.limiter().Admit(f.Context(), p, ttl, limit)
	if err != nil {
		f.Fatalf("Admit: %v", err)
	}
	if (admission.Reached == storage.ReachedNewKeys) != (admission.Wait > 0) || admission.Wait > limit.Window {
		f.Fatalf("Admit returned %+v for a window of %s", admission, limit.Window)
	}
	return admission
}

// admitted expects that a new key of the first scope is admitted, and returns its place.
func (f *fixture) admitted(ttl time.Duration, limit storage.ScopeLimit) storage.Place {
	f.Helper()
	p := place(1)
	if got := f.ask(p, ttl, limit); got.Reached != 0 {
		f.Fatalf("Admit returned %+v, want that the key is admitted", got)
	}
	return p
}

// refusedFor expects that a new key of the first scope is refused for a bound.
func (f *fixture) refusedFor(bound storage.Bound, limit storage.ScopeLimit) {
	f.Helper()
	if got := f.ask(place(1), f.long(), limit); got.Reached != bound {
		f.Fatalf("Admit returned %+v, want bound %d", got, bound)
	}
}

func (f *fixture) keep(p storage.Place, ttl time.Duration) {
	f.Helper()
	if err := f.limiter().Keep(f.Context(), p, ttl); err != nil {
		f.Fatalf("Keep: %v", err)
	}
}

// renewsInTime renews a place that would end after ttl, and reports whether it did so before that end. If not, it gives the
// place back: a busy machine may be late.
func (f *fixture) renewsInTime(ttl time.Duration, limit storage.ScopeLimit) bool {
	f.Helper()
	began := time.Now()
	p := f.admitted(ttl, limit)
	f.keep(p, f.long())
	if time.Since(began) < ttl {
		return true
	}
	f.keep(p, 0)
	return false
}

// admittedOf counts the admitted keys of concurrent callers in the n-th scope.
func (f *fixture) admittedOf(scope int, limit storage.ScopeLimit) (n int) {
	f.Helper()
	admitted := make(chan struct{}, callers)
	limiter := f.limiter()
	f.together(callers, func(int) error {
		got, err := limiter.Admit(f.Context(), place(scope), f.long(), limit)
		if err == nil && got.Reached == 0 {
			admitted <- struct{}{}
		}
		return err
	})
	return len(admitted)
}

// limiterCases are the rules of storage.Limiter.
var limiterCases = []testCase{
	{
		name: "keys in flight",
		rule: "a scope gets as many places as the limit has, and another one for each that it gives back",
		test: func(f *fixture) {
			limit := f.limit(3, 0)
			first := f.admitted(f.long(), limit)
			f.admitted(f.long(), limit)
			f.admitted(f.long(), limit)
			f.refusedFor(storage.ReachedInFlight, limit)
			f.keep(first, 0)
			f.admitted(f.long(), limit)
			f.refusedFor(storage.ReachedInFlight, limit)
		},
	},
	{
		name: "places of dead holders",
		rule: "a place ends by itself after its ttl, because its holder may have died, and no place of another holder ends with it",
		test: func(f *fixture) {
			limit := f.limit(2, 0)
			f.admitted(f.unit, limit)
			f.admitted(f.long(), limit)
			f.wait(2 * f.unit)
			f.admitted(f.long(), limit)
			f.refusedFor(storage.ReachedInFlight, limit)
		},
	},
	{
		name: "a renewed place",
		rule: "a place that is renewed lasts for its new ttl: a handler that runs for long stays in flight",
		test: func(f *fixture) {
			limit, ttl := f.limit(1, 0), f.unit
			for !f.renewsInTime(ttl, limit) {
				ttl *= 2
			}
			f.wait(2 * ttl)
			f.refusedFor(storage.ReachedInFlight, limit)
		},
	},
	{
		name: "a place that is gone",
		rule: "renewing or giving back a place that does not exist has no effect: a late call takes no place, and ends no other one",
		test: func(f *fixture) {
			limit := f.limit(1, 0)
			p := f.admitted(f.long(), limit)
			f.keep(p, 0)
			f.keep(p, f.long())
			f.admitted(f.long(), limit)
			f.keep(p, 0)
			f.refusedFor(storage.ReachedInFlight, limit)
		},
	},
	{
		name: "the same token again",
		rule: "a repeated call after a timeout that hid a success is admitted, and counts no second key and no second place",
		test: func(f *fixture) {
			limit := f.limit(2, 2)
			p := f.admitted(f.long(), limit)
			for range 3 {
				if got := f.ask(p, f.long(), limit); got != (storage.Admission{}) {
					f.Fatalf("a repeated Admit returned %+v, want that the key is admitted", got)
				}
			}
			f.admitted(f.long(), limit)
			f.refusedFor(storage.ReachedInFlight, limit)
			f.keep(p, 0)
			f.refusedFor(storage.ReachedNewKeys, limit)
		},
	},
	{
		name: "new keys of a window",
		rule: "a window counts each new key, also when its place was given back, and says how long it lasts",
		test: func(f *fixture) {
			limit := f.limit(0, 3)
			for range 3 {
				f.keep(f.admitted(f.long(), limit), 0)
			}
			f.refusedFor(storage.ReachedNewKeys, limit)
		},
	},
	{
		name: "the next window",
		rule: "a window ends after its length, and the next one counts from zero",
		test: func(f *fixture) {
			limit := storage.ScopeLimit{NewKeys: 1, Window: 2 * f.unit}
			f.admitted(f.long(), limit)
			f.wait(3 * f.unit)
			f.admitted(f.long(), limit)
		},
	},
	{
		name: "a clock that is set back",
		rule: "a window that would last for longer than its length is over: it began before the store's clock was set back",
		test: func(f *fixture) {
			limit := f.limit(0, 1)
			f.admitted(f.long(), storage.ScopeLimit{NewKeys: 1, Window: 2 * limit.Window})
			f.admitted(f.long(), limit)
			f.refusedFor(storage.ReachedNewKeys, limit)
		},
	},
	{
		name: "refused keys",
		rule: "a refused key counts nowhere: a flood does not use up the keys of its window",
		test: func(f *fixture) {
			limit := f.limit(1, 2)
			p := f.admitted(f.long(), limit)
			for range 5 {
				f.refusedFor(storage.ReachedInFlight, limit)
			}
			f.keep(p, 0)
			f.keep(f.admitted(f.long(), limit), 0)
			f.refusedFor(storage.ReachedNewKeys, limit)
		},
	},
	{
		name: "independent scopes",
		rule: "one scope's keys do not count for another one",
		test: func(f *fixture) {
			limit := f.limit(1, 1)
			f.admitted(f.long(), limit)
			f.refusedFor(storage.ReachedInFlight, limit)
			if got := f.ask(place(2), f.long(), limit); got.Reached != 0 {
				f.Fatalf("Admit of another scope returned %+v", got)
			}
		},
	},
	{
		name: "concurrent keys",
		rule: "of any number of concurrent callers exactly as many are admitted as the limit allows, of either bound",
		test: func(f *fixture) {
			const allowed = 10
			for scope, limit := range []storage.ScopeLimit{f.limit(allowed, 0), f.limit(0, allowed), f.limit(allowed, allowed)} {
				if n := f.admittedOf(scope, limit); n != allowed {
					f.Errorf("%d of %d callers are admitted under %+v, want %d", n, callers, limit, allowed)
				}
			}
		},
	},
	{
		name: "records and counts",
		rule: "counts are no records: a list shows none, and a claim of a key finds none",
		test: func(f *fixture) {
			limit := f.limit(1, 1)
			f.admitted(f.long(), limit)
			lease := f.win(f.claim(), 1, false)
			if inspector, is := f.store.(storage.Inspector); is {
				all, err := inspector.List(f.Context(), storage.Filter{}, storage.Page{Limit: 10, Within: time.Minute})
				if err != nil || len(all.Entries) != 1 || all.Entries[0].Key != lease.Key {
					f.Fatalf("List returned %+v, %v, want the record alone", all.Entries, err)
				}
			}
			f.complete(lease, f.result(lease))
			f.refusedFor(storage.ReachedInFlight, limit)
		},
	},
	{
		name: "an ended context",
		rule: "a call with an ended context returns an error, and counts nothing",
		test: func(f *fixture) {
			ended := f.ended()
			limit := f.limit(1, 1)
			_, err := f.limiter().Admit(ended, place(1), f.long(), limit)
			f.isError("Admit", err, context.Canceled)
			f.isError("Keep", f.limiter().Keep(ended, f.admitted(f.long(), limit), 0), context.Canceled)
			f.refusedFor(storage.ReachedInFlight, limit)
		},
	},
}
