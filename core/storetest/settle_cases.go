package storetest

import (
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

var completeCases = []testCase{
	{
		name: "replay",
		rule: "a result comes back as completed: state, status, header fields in order and with all values, body byte by byte",
		test: func(f *fixture) {
			for i, res := range f.results() {
				c := f.claim()
				c.Key = key(i)
				lease := f.win(c, 1, false)
				f.complete(lease, res)
				f.replays(lease, res)
			}
		},
	},
	{
		name: "unreplayable",
		rule: "of an Unreplayable result only the status and the sketch are kept",
		test: func(f *fixture) {
			lease := f.win(f.claim(), 1, false)
			res := f.result(lease)
			res.State = storage.Unreplayable
			f.complete(lease, res)
			f.replays(lease, storage.Result{State: storage.Unreplayable, Status: res.Status, Sketch: res.Sketch})
		},
	},
	{
		name: "complete after the lease ran out",
		rule: "a late response is stored until another caller claims the key: the handler's side effect has happened",
		test: func(f *fixture) {
			lease := f.abandon()
			f.complete(lease, f.result(lease))
			f.replays(lease, f.result(lease))
		},
	},
	{
		name: "complete a claim that the store lost",
		rule: "a response is stored even when the store has lost the claim, until another caller claims the key",
		test: func(f *fixture) {
			c := f.claim()
			lease := storage.Lease{Claim: c, Attempt: 3, TookOver: true}
			f.complete(lease, f.result(lease))
			f.replays(lease, f.result(lease))
		},
	},
	{
		name: "complete too late",
		rule: "after another caller has taken over the key, the old holder's Complete returns ErrLeaseLost and changes no " +
			"record (cases 5, 6)",
		test: func(f *fixture) {
			stale, current := f.overtaken()
			f.isLost("Complete", f.store.Complete(f.Context(), stale, f.result(stale)))
			f.holds(current)
			f.complete(current, f.result(current))
			f.isLost("Complete", f.store.Complete(f.Context(), stale, f.result(stale)))
			f.replays(current, f.result(current))
		},
	},
	{
		name: "complete again",
		rule: "a caller can repeat a Complete whose reply was lost: it returns nil, and the first result stays, even if the " +
			"second result differs",
		test: func(f *fixture) {
			lease := f.win(f.claim(), 1, false)
			first := f.result(lease)
			f.complete(lease, first)
			f.complete(lease, first)
			second := first
			second.Status, second.Body, second.Sketch = 500, []byte("another response"), []byte("another sketch")
			f.complete(lease, second)
			f.replays(lease, first)
		},
	},
	{
		name: "arguments are copied",
		rule: "Result.Body, Header and Sketch belong to the caller again when Complete has returned: the store keeps copies",
		test: func(f *fixture) {
			lease := f.win(f.claim(), 1, false)
			res := f.result(lease)
			f.complete(lease, res)
			clear(res.Body)
			clear(res.Header)
			clear(res.Sketch)
			f.replays(lease, f.result(lease))
		},
	},
}

var releaseCases = []testCase{
	{
		name: "release",
		rule: "a released key is unclaimed: the next claim gets the key, for another request too, and not as a take-over",
		test: func(f *fixture) {
			f.release(f.win(f.claim(), 1, false))
			f.win(ofAnotherRequest(f.claim()), 1, false)
		},
	},
	{
		name: "release of a later attempt",
		rule: "after attempt n above 1 was released, the next claim gets n+1, not taken over: a downstream resource that has " +
			"seen n must refuse only the old holders",
		test: func(f *fixture) {
			_, current := f.overtaken()
			f.release(current)
			next := f.win(ofAnotherRequest(f.claim()), 3, false)
			f.release(next)
			f.holds(f.win(f.takeOver(), 4, false))
		},
	},
	{
		name: "release too late",
		rule: "after another caller has taken over the key, the old holder's Release returns ErrLeaseLost and the new claim " +
			"stays (case 6)",
		test: func(f *fixture) {
			stale, current := f.overtaken()
			f.isLost("Release", f.store.Release(f.Context(), stale))
			f.holds(current)
			f.release(current)
			f.isLost("Release", f.store.Release(f.Context(), stale))
			f.win(f.claim(), 3, false)
		},
	},
	{
		name: "release of a claim that took over unknown to its holder",
		rule: "a caller whose Acquire was lost in a timeout releases a first attempt; if that Acquire took over an abandoned " +
			"key, the key stays abandoned",
		test: func(f *fixture) {
			_, current := f.overtaken()
			asFirst := current
			asFirst.Attempt = 1
			f.isLost("Release", f.store.Release(f.Context(), asFirst))
			f.holds(current)
		},
	},
	{
		name: "release after completion",
		rule: "a finished record cannot be released, not even by its holder: Release returns ErrLeaseLost, and the record stays",
		test: func(f *fixture) {
			lease := f.win(f.claim(), 1, false)
			f.complete(lease, f.result(lease))
			f.isLost("Release", f.store.Release(f.Context(), lease))
			f.replays(lease, f.result(lease))
		},
	},
	{
		name: "release again",
		rule: "a caller can repeat a Release whose reply was lost, until another caller claims the key",
		test: func(f *fixture) {
			first := f.win(f.claim(), 1, false)
			f.release(first)
			f.release(first)
			second := f.win(f.claim(), 1, false)
			f.isLost("Release", f.store.Release(f.Context(), first))
			f.holds(second)
		},
	},
	{
		name: "release of a later attempt again",
		rule: "repeating the Release of an attempt above 1 returns nil, and the attempt number is still remembered",
		test: func(f *fixture) {
			_, current := f.overtaken()
			f.release(current)
			f.release(current)
			f.win(f.claim(), 3, false)
		},
	},
	{
		name: "release after the lease ran out",
		rule: "a late holder may still release the key until another caller claims the key",
		test: func(f *fixture) {
			f.release(f.abandon())
			f.win(f.claim(), 1, false)
		},
	},
}

var extendCases = []testCase{
	{
		name: "extend",
		rule: "an extended lease runs for ttl from the Extend, and is not taken over before its end",
		test: func(f *fixture) {
			c := f.claim()
			c.LockTTL = 5 * f.unit
			lease := f.win(c, 1, false)
			f.wait(2 * f.unit)
			start := time.Now()
			f.extend(lease, 8*f.unit)
			_, passed := f.winOnceClaimable(f.takeOver(), start, f.long())
			if passed < 8*f.unit-clockGrain {
				f.Errorf("taken over %s after the Extend, want not before %s", passed, 8*f.unit)
			}
		},
	},
	{
		name: "extend by less",
		rule: "an Extend sets the end of the lease; it does not add to the remaining time",
		test: func(f *fixture) {
			lease := f.win(f.claim(), 1, false)
			f.extend(lease, f.unit)
			f.wait(2 * f.unit)
			f.win(f.takeOver(), 2, true)
		},
	},
	{
		name: "extend by zero",
		rule: "an Extend by zero ends the lease at once: the key is abandoned, keeps its request and its attempt, and is taken over or " +
			"completed as if the lease had ended by itself",
		test: func(f *fixture) {
			lease := f.win(f.claim(), 1, false)
			f.extend(lease, 0)
			f.extend(lease, 0) // a caller whose reply was lost repeats the call
			if r := f.find(f.claim()); !r.Abandoned() || r.Attempt != 1 || r.Fingerprint != fingerprint {
				f.Errorf("the record is %s, want attempt 1, abandoned", describe(r))
			}
			f.find(ofAnotherRequest(f.takeOver()))
			next := f.win(f.takeOver(), 2, true)
			f.isLost("Extend", f.store.Extend(f.Context(), lease, 0))
			f.holds(next)
			f.extend(next, 0)
			f.complete(next, f.result(next))
			f.replays(next, f.result(next))
		},
	},
	{
		name: "extend by zero a claim that the store lost",
		rule: "an Extend by zero of a lease that the store has lost writes an abandoned record, because the outcome of its run is " +
			"unknown too",
		test: func(f *fixture) {
			lease := storage.Lease{Claim: f.claim(), Attempt: 3, TookOver: true}
			f.extend(lease, 0)
			if r := f.find(f.claim()); !r.Abandoned() || r.Attempt != 3 {
				f.Errorf("the record is %s, want attempt 3, abandoned", describe(r))
			}
			f.win(f.takeOver(), 4, true)
		},
	},
	{
		name: "extend after the lease ran out",
		rule: "an ended lease can be renewed until another caller claims the key",
		test: func(f *fixture) {
			lease := f.abandon()
			f.extend(lease, f.long())
			f.holds(lease)
		},
	},
	{
		name: "extend a claim that the store lost",
		rule: "a lease that the store has lost can be renewed until another caller claims the key, and keeps its attempt number",
		test: func(f *fixture) {
			c := f.claim()
			lease := storage.Lease{Claim: c, Attempt: 3, TookOver: true}
			f.extend(lease, f.long())
			f.holds(lease)
			f.win(c, 3, true)
		},
	},
	{
		name: "extend too late",
		rule: "after another caller has taken over the key, the old holder's Extend returns ErrLeaseLost and changes no record " +
			"(case 7)",
		test: func(f *fixture) {
			stale, current := f.overtaken()
			f.isLost("Extend", f.store.Extend(f.Context(), stale, f.long()))
			f.holds(current)
			f.release(current)
			f.isLost("Extend", f.store.Extend(f.Context(), stale, f.long()))
			f.win(f.claim(), 3, false)
		},
	},
	{
		name: "late take-over by the holder's own token",
		rule: "a late Acquire can take over the key for the token of a holder that works under an earlier attempt; that " +
			"holder's Extend, Complete and Release return ErrLeaseLost, so that attempt numbers never decrease",
		test: func(f *fixture) {
			c := f.shortClaim()
			c.TakeOver = true
			first := f.win(c, 1, false)
			f.wait(2 * f.unit)
			next := f.takeOver()
			next.LockTTL = f.unit
			f.win(next, 2, true)
			f.wait(2 * f.unit)
			c.LockTTL = f.long()
			third := f.win(c, 3, true)
			f.isLost("Extend", f.store.Extend(f.Context(), first, f.long()))
			f.isLost("Complete", f.store.Complete(f.Context(), first, f.result(first)))
			f.isLost("Release", f.store.Release(f.Context(), first))
			f.holds(third)
			f.complete(third, f.result(third))
			f.isLost("Complete", f.store.Complete(f.Context(), first, f.result(first)))
		},
	},
	{
		name: "extend after completion",
		rule: "a finished record has no lease to renew: Extend returns ErrLeaseLost, and the record stays",
		test: func(f *fixture) {
			lease := f.win(f.claim(), 1, false)
			f.complete(lease, f.result(lease))
			f.isLost("Extend", f.store.Extend(f.Context(), lease, f.long()))
			f.replays(lease, f.result(lease))
		},
	},
	{
		name: "complete and release after extend",
		rule: "an extended lease is settled like any other",
		test: func(f *fixture) {
			lease := f.win(f.claim(), 1, false)
			f.extend(lease, f.long())
			f.release(lease)
			lease = f.win(f.claim(), 1, false)
			f.extend(lease, f.long())
			f.complete(lease, f.result(lease))
			f.replays(lease, f.result(lease))
		},
	},
}
