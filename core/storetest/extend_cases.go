package storetest

import (
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

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
			f.winAfter(8*f.unit, start, f.takeOver(), 2, true)
		},
	},
	{
		name: "extend by less",
		rule: "an Extend sets the end of the lease; it does not add to the remaining time",
		test: func(f *fixture) {
			f.extend(f.win(f.claim(), 1, false), f.unit)
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
			f.isAbandoned(f.find(f.claim()), 1)
			f.find(ofAnotherRequest(f.takeOver()))
			next := f.win(f.takeOver(), 2, true)
			f.isLost("Extend", f.store.Extend(f.Context(), lease, 0))
			f.holds(next)
			f.extend(next, 0)
			f.finishes(next)
		},
	},
	{
		name: "extend by zero a claim that the store lost",
		rule: "an Extend by zero of a lease that the store has lost writes an abandoned record, because the outcome of its run is " +
			"unknown too. Its attempt may have any number",
		test: func(f *fixture) {
			const many = 1 << 40
			lease := storage.Lease{Claim: f.claim(), Attempt: many, TookOver: true}
			f.extend(lease, 0)
			f.isAbandoned(f.find(f.claim()), many)
			f.win(f.takeOver(), many+1, true)
		},
	},
	{
		name: "extend after the lease ran out",
		rule: "an ended lease can be renewed, or ended by an Extend by zero, until another caller claims the key",
		test: func(f *fixture) {
			lease := f.abandon(f.shortClaim())
			f.extend(lease, 0)
			f.isAbandoned(f.find(f.claim()), 1)
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
		rule: "after another caller has taken over the key, the old holder's Extend, also by zero, returns ErrLeaseLost and changes " +
			"no record",
		test: func(f *fixture) {
			stale, current := f.overtaken()
			f.cannotExtend(stale)
			f.holds(current)
			f.release(current)
			f.cannotExtend(stale)
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
			first := f.abandon(c)
			next := f.takeOver()
			next.LockTTL = f.unit
			f.win(next, 2, true)
			f.wait(2 * f.unit)
			c.LockTTL = f.long()
			third := f.win(c, 3, true)
			f.loses(first)
			f.holds(third)
			f.complete(third, f.result(third))
			f.isLost("Complete", f.store.Complete(f.Context(), first, f.result(first)))
		},
	},
	{
		name: "extend after completion",
		rule: "a finished record has no lease to renew or to end: Extend returns ErrLeaseLost, and the record stays",
		test: func(f *fixture) {
			lease := f.win(f.claim(), 1, false)
			f.complete(lease, f.result(lease))
			f.cannotExtend(lease)
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
			f.finishes(lease)
		},
	},
}
