package storetest

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// clockGrain is how coarse a store's clock may be.
const clockGrain = 2 * time.Millisecond

var expiryCases = []testCase{
	{
		name: "a finished record expires",
		rule: "a finished record exists until its Retain has passed by the store's clock, and then no longer: the key is new " +
			"again",
		test: func(f *fixture) {
			retain := 5 * f.unit
			lease := f.win(f.claim(), 1, false)
			start := time.Now()
			f.finish(lease, retain, 0)
			f.winAfter(retain, start, f.takeOver(), 1, false)
		},
	},
	{
		name: "a result is kept for its own Retain",
		rule: "Result.Retain decides how long a finished record is kept, however short the claim's own Retain was",
		test: func(f *fixture) {
			c := f.shortClaim()
			c.Retain = 2 * f.unit
			lease := f.win(c, 1, false)
			f.complete(lease, f.result(lease))
			f.wait(3 * f.unit)
			f.replays(lease, f.result(lease))
		},
	},
	{
		name: "a record that is kept for years",
		rule: "a policy may keep a record, and then remember it, for ten years in all: 32 bits of milliseconds are 25 days",
		test: func(f *fixture) {
			const years = 5 * 365 * 24 * time.Hour
			c := f.claim()
			c.Retain, c.Remember = years, years
			lease := f.win(c, 1, false)
			f.extend(lease, f.long())
			f.wait(f.unit)
			f.holds(lease)
			res := f.finish(lease, years, years)
			f.wait(f.unit)
			f.replays(lease, res)
		},
	},
	{
		name: "an abandoned record is remembered",
		rule: "a record in progress outlives its lease until the claim's Retain has passed: the handler's progress is unknown, " +
			"and callers must see that",
		test: func(f *fixture) {
			c := f.shortClaim()
			c.Retain = 10 * f.unit
			start := time.Now()
			f.win(c, 1, false)
			f.wait(4 * f.unit)
			f.isAbandoned(f.find(f.claim()), 1)
			f.winAfter(c.Retain, start, f.claim(), 1, false)
		},
	},
	{
		name: "a record that ends with its lease",
		rule: "a claim whose Retain is its LockTTL leaves no abandoned record: when its lease ends, the key is new",
		test: func(f *fixture) {
			c := f.claim()
			c.LockTTL, c.Retain = 5*f.unit, 5*f.unit
			start := time.Now()
			f.win(c, 1, false)
			f.winAfter(c.LockTTL, start, f.takeOver(), 1, false)
		},
	},
	{
		name: "a renewed claim is remembered",
		rule: "a lease may be renewed for longer than the claim's Retain in all: the record lasts as long as the lease does",
		test: func(f *fixture) {
			c := f.claim()
			c.LockTTL, c.Retain = 10*f.unit, 10*f.unit
			lease := f.win(c, 1, false)
			for range 3 {
				f.wait(4 * f.unit)
				f.holds(lease)
				f.extend(lease, c.LockTTL)
			}
		},
	},
	{
		name: "a claim is kept for its own Retain",
		rule: "a claim that takes a key over, claims a released one or repeats an Acquire is kept for its whole Retain and Remember " +
			"from then on, however soon the record before it would have expired: else its key is new while it runs",
		test: func(f *fixture) {
			call := f.callTime()
			if call > f.unit/5 {
				f.Skip("a call takes too long for this case")
			}
			retain := 8*f.unit + 30*call
			brief := func(n int) storage.Claim {
				c := of(f.claim(), key(n))
				c.LockTTL, c.Retain = retain, retain
				return c
			}
			f.extend(f.win(brief(1), 1, false), 0)
			again := brief(2)
			again.Remember = 10 * retain
			f.win(again, 1, false)
			f.release(f.record(f.win(brief(3), 1, false), "first\n"))
			f.extend(f.win(brief(4), 1, false), 0)
			second := brief(4)
			second.TakeOver = true
			f.release(f.win(second, 2, true))
			f.wait(retain * 6 / 10)
			var leases []storage.Lease
			for n, attempt := range []uint64{2, 1, 2, 3} {
				c := brief(n + 1)
				if c.TakeOver, c.Remember = true, 10*retain; n == 1 {
					c = again
				}
				leases = append(leases, f.win(c, attempt, n == 0))
			}
			f.wait(retain * 6 / 10)
			for _, lease := range leases {
				f.runs(lease)
			}
			f.wait(retain / 2)
			for _, lease := range leases {
				f.remembers(lease, 0)
			}
		},
	},
	{
		name: "a released attempt number is remembered",
		rule: "the attempt number of a release is remembered for the lease's Retain, which begins anew with the release",
		test: func(f *fixture) {
			f.abandon(f.shortClaim())
			c := f.takeOver()
			c.LockTTL, c.Retain = 10*f.unit, 10*f.unit
			lease := f.win(c, 2, true)
			f.wait(5 * f.unit)
			f.release(lease)
			f.wait(5 * f.unit)
			f.win(f.claim(), 3, false)
		},
	},
}

var callerCases = []testCase{
	{
		name: "ended context",
		rule: "a call whose context has ended, or whose deadline has passed, returns the context's error, wrapped, and changes no " +
			"record: the same call can be repeated",
		test: func(f *fixture) {
			expired, cancel := context.WithDeadline(f.Context(), time.Now().Add(-time.Second))
			defer cancel()
			f.ignores(f.ended(), key(1))
			f.ignores(expired, key(2))
		},
	},
	{
		name: "records that were given out",
		rule: "a record that a caller has got does not change when the key's record does: the caller reads it without a lock, while " +
			"another one renews, completes or claims the key, or the record expires",
		test: func(f *fixture) {
			var got []*storage.Record
			var then []storage.Record
			look := func() {
				got = append(got, f.find(ofAnotherRequest(f.claim())))
				if inspector, is := f.store.(storage.Inspector); is {
					r, err := inspector.Lookup(f.Context(), key(1))
					if err != nil {
						f.Fatalf("Lookup: %v", err)
					}
					got = append(got, r)
				}
				for _, r := range got[len(then):] {
					then = append(then, *r)
					then[len(then)-1].Body, then[len(then)-1].Sketch = bytes.Clone(r.Body), bytes.Clone(r.Sketch)
				}
				f.wait(f.unit)
			}
			f.win(f.shortClaim(), 1, false)
			look()
			look()
			lease := f.win(f.takeOver(), 2, true)
			look()
			f.extend(lease, f.long())
			look()
			f.finish(lease, 5*f.unit, f.long())
			look()
			f.finishes(f.win(of(f.claim(), key(2)), 1, false)) // with a body and a sketch of the same length
			f.wait(5 * f.unit)
			look()
			for i, r := range got {
				if want := then[i]; !reflect.DeepEqual(*r, want) {
					f.Errorf("the record was %s, and is now %s", describe(&want), describe(r))
				}
			}
		},
	},
	{
		name: "tight deadlines",
		rule: "when a call is cut short, exactly one caller gets the lease, and finds the lease by repeating the call",
		test: func(f *fixture) {
			for i := range 50 {
				c := of(f.claim(), key(i))
				short, cancel := context.WithTimeout(f.Context(), time.Duration(i)*10*time.Microsecond)
				_, _, err := f.store.Acquire(short, c)
				cancel()
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					f.Fatalf("Acquire with little time returned %v, want it done or context.DeadlineExceeded", err)
				}
				f.win(c, 1, false)
			}
		},
	},
}

// ignores expects each call with an ended context to return an error, and to change
// no record.
func (f *fixture) ignores(ended context.Context, key string) {
	f.Helper()
	_, _, err := f.store.Acquire(ended, of(f.claim(), key))
	f.isError("Acquire", err, ended.Err())
	lease := f.win(of(f.claim(), key), 1, false)
	f.isError("Extend", f.store.Extend(ended, lease, f.unit), ended.Err())
	f.wait(2 * f.unit)
	f.runs(lease)
	f.isError("Release", f.store.Release(ended, lease), ended.Err())
	f.runs(lease)
	f.isError("Complete", f.store.Complete(ended, lease, f.result(lease)), ended.Err())
	f.runs(lease)
	f.finishes(lease)
}

// runs expects the lease's key to be in progress, unsettled.
func (f *fixture) runs(l storage.Lease) {
	f.Helper()
	if r := f.find(of(f.takeOver(), l.Key)); r.State != storage.InProgress || r.Abandoned() {
		f.Fatalf("the record is %s, want it in progress", describe(r))
	}
}

// claimsOnce claims and completes a key.
func (f *fixture) claimsOnce(key string) error {
	lease, record, err := f.store.Acquire(f.Context(), of(f.claim(), key))
	if err != nil {
		return err
	}
	if record != nil || lease.Attempt != 1 {
		return errors.New(key + " was claimed already")
	}
	res := f.result(lease)
	res.Body, res.Retain = []byte(key), 100*f.long() // many keys take long
	return f.store.Complete(f.Context(), lease, res)
}

// claimedBefore expects the record that claimsOnce has made.
func (f *fixture) claimedBefore(key string) error {
	_, record, err := f.store.Acquire(f.Context(), of(f.claim(), key))
	if err != nil {
		return err
	}
	if record == nil || record.State != storage.Completed || string(record.Body) != key {
		return errors.New(key + " has not kept its own response")
	}
	return nil
}
