package storetest

import (
	"context"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// inspectorCases are skipped for a store that is no storage.Inspector.
var inspectorCases = []testCase{
	{
		name: "look up a running key",
		rule: "Lookup returns the record of a running key as Acquire does, by the store's clock, and changes no record. " +
			"LeaseLeft says since when a key is abandoned",
		test: func(f *fixture) {
			lease := f.win(f.shortClaim(), 1, false)
			f.extend(lease, f.long())
			if r := f.lookUp(key(1)); r.State != storage.InProgress || r.Attempt != 1 || r.Fingerprint != fingerprint ||
				r.LeaseLeft <= 0 || r.LeaseLeft > f.long() {
				f.Errorf("the record is %s, want attempt 1 in progress for up to %s", describe(r), f.long())
			} else {
				f.isOf(r, lease)
			}
			f.extend(lease, f.unit)
			f.wait(2 * f.unit)
			abandoned := f.lookUp(key(1))
			f.isAbandoned(abandoned, 1)
			f.saysSinceWhen(abandoned, f.unit/2)
			f.win(f.takeOver(), 2, true)
		},
	},
	{
		name: "look up a finished key",
		rule: "Lookup returns a finished record whole: status, header and body as they would be replayed",
		test: func(f *fixture) {
			for i, res := range f.results() {
				c := of(f.claim(), key(i))
				lease := f.win(c, 1, false)
				f.complete(lease, res)
				f.shows(f.lookUp(c.Key), lease, res)
			}
		},
	},
	{
		name: "look up a missing key",
		rule: "Lookup returns nil, and no error, for a key that was never claimed, was released or has expired; a released key " +
			"of which only the attempt number is remembered has no record",
		test: func(f *fixture) {
			f.showsNoRecord("never claimed", key(0))
			_, current := f.overtaken()
			f.release(current)
			f.showsNoRecord("released", current.Key)
			c := f.shortClaim()
			c.Key, c.Retain = key(2), f.unit
			f.win(c, 1, false)
			f.wait(2 * f.unit)
			f.showsNoRecord("expired", c.Key)
		},
	},
	{
		name: "list",
		rule: "List returns the records in one state, and no others: no released and no expired record. Header and Body are " +
			"left out, all other fields are there",
		test: func(f *fixture) {
			_, current := f.overtaken()
			f.release(current)
			expired := f.shortClaim()
			expired.Key, expired.Retain = key(2), f.unit
			f.win(expired, 1, false)
			f.wait(2 * f.unit)
			want := map[storage.State]storage.Lease{}
			for state := storage.InProgress; state <= storage.Unreplayable; state++ {
				want[state] = f.win(of(f.claim(), key(10+int(state))), 1, false)
				if state != storage.InProgress {
					res := f.result(want[state])
					res.State = state
					f.complete(want[state], res)
				}
			}
			for state, lease := range want {
				listed := f.list(state, 100, nil)
				r := listed[lease.Key]
				if r != nil && (r.Body != nil || r.Header != nil) {
					f.Errorf("the list has the response of %s", lease.Key)
				}
				if len(listed) != 1 || r == nil {
					f.Fatalf("%d records are listed as %s, want key %s alone", len(listed), state, lease.Key)
				}
				if r.State != state || r.Attempt != 1 || r.Fingerprint != fingerprint || state != storage.InProgress && r.Status != 201 ||
					state == storage.InProgress && (r.LeaseLeft <= 0 || r.LeaseLeft > lease.LockTTL) {
					f.Errorf("the list has %s of %s", describe(r), r.Fingerprint)
				}
				f.isOf(r, lease)
			}
		},
	},
	{
		name: "list many keys",
		rule: "the pages of a list have at most limit records each, and together have all records, however large or small the " +
			"pages are. A list stops at the end of its time",
		test: func(f *fixture) {
			f.spread(manyKeys, func(n int) error { return f.claimsOnce(key(n)) })
			for _, limit := range []int{1000, 333} {
				if listed := f.list(storage.Completed, limit, nil); len(listed) != manyKeys {
					f.Errorf("pages of %d have %d of %d records", limit, len(listed), manyKeys)
				}
			}
			began := time.Now()
			l := f.listing(storage.Filter{Abandoned: true}, storage.Page{Limit: 1, LookAt: 2 * manyKeys, Within: 1})
			inTime := time.Since(began) == 0 // in a bubble, for a store that needs no time
			if len(l.Entries) != 0 || !inTime && (l.Next == "" || l.LookedAt >= manyKeys) {
				f.Errorf("within a nanosecond List has looked at %d records of %d, and found %d", l.LookedAt, manyKeys, len(l.Entries))
			}
		},
	},
	{
		name: "list one by one",
		rule: "pages of one record together have all records too",
		test: func(f *fixture) {
			const keys = 50
			f.spread(keys, func(n int) error { return f.claimsOnce(key(n)) })
			if listed := f.list(storage.Completed, 1, nil); len(listed) != keys {
				f.Errorf("%d of %d records are listed", len(listed), keys)
			}
		},
	},
	{
		name: "list while keys come and go",
		rule: "a record that exists from the first page to the last is listed, whatever other records come and go between two " +
			"pages",
		test: func(f *fixture) {
			const staying, passing = 100, 100
			var leases []storage.Lease
			claim := func(n int) storage.Lease {
				c := of(f.claim(), storage.Key("", "", "", key(n))) // everywhere in the order
				c.Retain = 100 * f.long()                           // many keys take long
				return f.win(c, 1, false)
			}
			for n := range staying {
				claim(n)
				leases = append(leases, claim(staying+n))
			}
			came := staying + passing
			listed := f.list(storage.InProgress, 20, func() {
				for _, lease := range leases[:min(40, len(leases))] {
					f.release(lease)
				}
				leases = leases[min(40, len(leases)):]
				for range 5 {
					claim(came)
					came++
				}
			})
			for n := range staying {
				if listed[storage.Key("", "", "", key(n))] == nil {
					f.Fatalf("key %d existed all the time, and was not listed", n)
				}
			}
		},
	},
	{
		name: "list with invalid arguments",
		rule: "List refuses a limit that is not from 1 to 1000, a negative budget or age, an unknown state, and a filter for " +
			"abandoned records in some states",
		test: func(f *fixture) {
			f.win(f.claim(), 1, false)
			for _, page := range []storage.Page{{}, {Limit: -1}, {Limit: 1001}, {Limit: 1, LookAt: -1}, {Limit: 1, Within: -1}} {
				if _, err := f.inspector().List(f.Context(), storage.Filter{}, page); err == nil {
					f.Errorf("List with the page %+v returned no error", page)
				}
			}
			for _, filter := range []storage.Filter{
				{States: []storage.State{0}},
				{States: []storage.State{storage.InProgress, storage.Released + 1}},
				{Abandoned: true, States: []storage.State{storage.InProgress}},
				{OlderThan: -1},
			} {
				if _, err := f.inspector().List(f.Context(), filter, storage.Page{Limit: 1}); err == nil {
					f.Errorf("List with the filter %+v returned no error", filter)
				}
			}
		},
	},
	{
		name: "forget",
		rule: "Forget removes a record, finished or not, and reports that the record existed: the next request with its key is " +
			"a first-time request. The holder of a forgotten lease may still settle the lease until another caller claims the " +
			"key",
		test: func(f *fixture) {
			_, current := f.overtaken()
			f.forgets(true)
			f.finishes(current)
			f.forgets(true)
			f.forgets(false)
			next := f.win(f.claim(), 1, false)
			f.isLost("Complete", f.store.Complete(f.Context(), current, f.result(current)))
			f.holds(next)
		},
	},
	{
		name: "forget a released key",
		rule: "a key that was released without steps has no record to forget, but its attempt number is forgotten too",
		test: func(f *fixture) {
			_, current := f.overtaken()
			f.release(current)
			f.forgets(false)
			f.win(f.claim(), 1, false)
		},
	},
	{
		name: "forget without RerunIsSafe",
		rule: "Forget changes no record for a caller that does not pass RerunIsSafe",
		test: func(f *fixture) {
			lease := f.win(f.claim(), 1, false)
			for _, confirmation := range []storage.Confirmation{"", "please", storage.RerunIsSafe + "."} {
				if there, err := f.inspector().Forget(f.Context(), lease.Key, confirmation); err == nil || there {
					f.Errorf("Forget with %q returned %t and %v, want an error", confirmation, there, err)
				}
			}
			f.holds(lease)
		},
	},
	{
		name: "inspect with an ended context",
		rule: "Lookup, List, Settle and Forget return the error of a context that has ended, wrapped",
		test: func(f *fixture) {
			ended := f.ended()
			lease := f.win(f.claim(), 1, false)
			_, err := f.inspector().Lookup(ended, lease.Key)
			f.isError("Lookup", err, context.Canceled)
			_, err = f.inspector().List(ended, storage.Filter{States: []storage.State{storage.InProgress}}, storage.Page{Limit: 1})
			f.isError("List", err, context.Canceled)
			f.isError("Settle", f.inspector().Settle(ended, lease.Key, 1, storage.Happened), context.Canceled)
			_, err = f.inspector().Forget(ended, lease.Key, storage.RerunIsSafe)
			f.isError("Forget", err, context.Canceled)
			f.holds(lease)
		},
	},
}

func (f *fixture) inspector() storage.Inspector {
	f.Helper()
	inspector, is := f.store.(storage.Inspector)
	if !is {
		f.Skip("the store is no storage.Inspector")
	}
	return inspector
}

// lookUp expects a record.
func (f *fixture) lookUp(key string) *storage.Record {
	f.Helper()
	r, err := f.inspector().Lookup(f.Context(), key)
	if err != nil {
		f.Fatalf("Lookup: %v", err)
	}
	if r == nil {
		f.Fatalf("Lookup found no record of %s", key)
	}
	return r
}

func (f *fixture) showsNoRecord(history, key string) {
	f.Helper()
	if r, err := f.inspector().Lookup(f.Context(), key); err != nil || r != nil {
		f.Errorf("Lookup of a key that was %s returned %v and %v, want nil and nil", history, r, err)
	}
}

// list returns the records in a state, see listed.
func (f *fixture) list(state storage.State, limit int, between func()) map[string]*storage.Record {
	f.Helper()
	return f.listed(storage.Filter{States: []storage.State{state}}, storage.Page{Limit: limit}, between)
}

// forgets expects Forget to report whether there was a record.
func (f *fixture) forgets(want bool) {
	f.Helper()
	if there, err := f.inspector().Forget(f.Context(), key(1), storage.RerunIsSafe); err != nil || there != want {
		f.Fatalf("Forget returned %t and %v, want %t", there, err, want)
	}
}
