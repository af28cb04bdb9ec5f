package storetest

import (
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

var claimCases = []testCase{
	{
		name: "first claim",
		rule: "the first claim of a key gets a lease: the caller's own claim, attempt 1, not taken over",
		test: func(f *fixture) { f.holds(f.win(f.claim(), 1, false)) },
	},
	{
		name: "second claim",
		rule: "a second claim gets no lease, but the record in progress: its fingerprint, its attempt, and the remaining lease " +
			"time",
		test: func(f *fixture) {
			lease := f.win(f.claim(), 1, false)
			r := f.find(ofAnotherRequest(f.claim()))
			if r.State != storage.InProgress || r.Fingerprint != lease.Fingerprint || r.Attempt != 1 || r.Abandoned() {
				f.Errorf("the record is %s of %s, want attempt 1 of %s in progress", describe(r), r.Fingerprint, lease.Fingerprint)
			}
			if r.LeaseLeft <= 0 || r.LeaseLeft > lease.LockTTL {
				f.Errorf("LeaseLeft is %s, want more than 0 and at most %s", r.LeaseLeft, lease.LockTTL)
			}
			if r.Status != 0 || len(r.Header) != 0 || len(r.Body) != 0 {
				f.Errorf("the record has a response already: %s", describe(r))
			}
		},
	},
	{
		name: "a claim asked for again",
		rule: "a caller that asks again for a key in progress, as a duplicate that waits does, sees how the claim has gone on: " +
			"that its lease has ended, or its response",
		test: func(f *fixture) {
			c := f.claim()
			c.LockTTL = 5 * f.unit
			lease := f.win(c, 1, false)
			f.holds(lease)
			f.wait(6 * f.unit)
			f.isAbandoned(f.find(f.claim()), 1)
			f.finishes(lease)
		},
	},
	{
		name: "same token again",
		rule: "a caller can repeat an Acquire whose reply was lost: the same token finds its own claim and gets its lease " +
			"again, with the same attempt number",
		test: func(f *fixture) {
			c := f.claim()
			lease := f.win(c, 1, false)
			f.win(c, 1, false)
			f.holds(lease)
		},
	},
	{
		name: "same token again after its lease ran out",
		rule: "the lease of a repeated Acquire lasts for its whole LockTTL from the repeated call on, because its caller relies on " +
			"that",
		test: func(f *fixture) {
			c := f.shortClaim()
			c.LockTTL = 5 * f.unit
			f.win(c, 1, false)
			f.wait(6 * f.unit)
			f.holds(f.win(c, 1, false))
		},
	},
	{
		name: "same token after completion",
		rule: "a finished key is never claimed again, not even by the token that finished the key",
		test: func(f *fixture) {
			c := f.claim()
			lease := f.win(c, 1, false)
			f.complete(lease, f.result(lease))
			if r := f.find(c); r.State != storage.Completed {
				f.Errorf("the record is %s, want the completed one", describe(r))
			}
		},
	},
	{
		name: "independent keys",
		rule: "keys do not affect each other: each of many keys is claimed once, and settled alone",
		test: func(f *fixture) {
			const keys = 200 // more are claimed in the case "list many keys"
			f.spread(keys, func(n int) error { return f.claimsOnce(key(n)) })
			f.spread(keys, func(n int) error { return f.claimedBefore(key(n)) })
		},
	},
	{
		name: "a lease lasts as its holder asked",
		rule: "only the LockTTL and the Retain of the holder decide when a lease ends, not those of a later caller",
		test: func(f *fixture) {
			asker := f.takeOver()
			asker.LockTTL, asker.Retain = time.Millisecond, 2*time.Millisecond
			holder := f.win(f.claim(), 1, false)
			f.wait(f.unit)
			if r := f.find(asker); r.Abandoned() || r.LeaseLeft > holder.LockTTL {
				f.Errorf("the record is %s, want it in progress for up to %s", describe(r), holder.LockTTL)
			}
			asker.Key = f.abandon(of(f.shortClaim(), key(2))).Key
			asker.LockTTL, asker.Retain, asker.TakeOver = f.long(), 20*f.long(), false
			f.isAbandoned(f.find(asker), 1)
		},
	},
}

var takeOverCases = []testCase{
	{
		name: "take over again and again",
		rule: "a key whose lease ended unsettled goes to the next caller with TakeOver, with the next attempt number; the lease " +
			"says that it was taken over, because the progress of the previous holder is unknown",
		test: func(f *fixture) {
			for attempt := uint64(1); attempt <= 3; attempt++ {
				c := f.takeOver()
				c.LockTTL = f.unit
				f.win(c, attempt, attempt > 1)
				f.wait(2 * f.unit)
			}
			f.holds(f.win(f.takeOver(), 4, true))
		},
	},
	{
		name: "same token again after taking over",
		rule: "a repeated Acquire that took over a key returns the same lease: same attempt, TookOver still true",
		test: func(f *fixture) {
			f.abandon(f.shortClaim())
			c := f.takeOver()
			f.win(c, 2, true)
			f.holds(f.win(c, 2, true))
		},
	},
	{
		name: "abandoned without TakeOver",
		rule: "without TakeOver an abandoned key is not claimed: the caller gets the key's record, which is abandoned",
		test: func(f *fixture) {
			f.abandon(f.shortClaim())
			for range 2 { // reading the record does not change it
				f.isAbandoned(f.find(f.claim()), 1)
			}
			f.win(f.takeOver(), 2, true)
		},
	},
	{
		name: "abandoned by another request",
		rule: "a request with another fingerprint and another digest does not take over a key: the caller gets the record, and " +
			"its client a 422",
		test: func(f *fixture) {
			f.abandon(f.shortClaim())
			f.isAbandoned(f.find(ofAnotherRequest(f.takeOver())), 1)
			f.win(f.takeOver(), 2, true)
		},
	},
	{
		name: "no take-over before the lease ends",
		rule: "a running lease is never taken over, and an ended lease can be taken over at once",
		test: func(f *fixture) {
			c := f.claim()
			c.LockTTL = 5 * f.unit
			start := time.Now()
			f.win(c, 1, false)
			f.winAfter(c.LockTTL, start, f.takeOver(), 2, true)
		},
	},
}
