package storetest

import (
	"strings"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// origin is that of every claim of the suite.
var origin = storage.Origin{
	Route: "POST /payments/{id}", Holder: "payments-7d4b9", KeyHash: "f2ca1bb6", Trace: "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
	Program: "9c56cc51",
}

// originCases are about the fields that tell operators where a record comes from, and
// when. The suite compares times of one store with each other only, because the
// store's clock may differ from the tests' clock.
var originCases = []testCase{
	{
		name: "origin",
		rule: "a record has the origin of its claim, in progress and finished, in Acquire as in Lookup; no origin stays none",
		test: func(f *fixture) {
			for i, origin := range origins() {
				for state := storage.Completed; state <= storage.Unreplayable; state++ {
					c := of(f.claim(), key(10*i+int(state)))
					c.Origin = origin
					lease := f.win(c, 1, false)
					f.isFrom(c.Key, origin)
					f.extend(lease, f.long())
					f.isFrom(c.Key, origin)
					res := f.result(lease)
					res.State = state
					f.complete(lease, res)
					f.isFrom(c.Key, origin)
				}
			}
		},
	},
	{
		name: "origin of a take-over",
		rule: "the record of a key that was taken over or claimed after a release has the origin of its last claim",
		test: func(f *fixture) {
			f.abandon(f.shortClaim())
			c := f.takeOver()
			c.Origin.Holder, c.Origin.Trace = "payments-x2k8m", ""
			lease := f.win(c, 2, true)
			f.isFrom(c.Key, c.Origin)
			f.release(lease)
			lease = f.win(f.claim(), 3, false)
			f.isFrom(c.Key, origin)
			f.complete(lease, f.result(lease))
			f.isFrom(c.Key, origin)
		},
	},
	{
		name: "origin of a claim that the store lost",
		rule: "Extend and Complete of a lease that the store has lost write its origin too",
		test: func(f *fixture) {
			extended := storage.Lease{Claim: f.claim(), Attempt: 3}
			f.extend(extended, f.long())
			f.isFrom(extended.Key, origin)
			completed := storage.Lease{Claim: of(f.claim(), key(2)), Attempt: 3}
			f.complete(completed, f.result(completed))
			f.isFrom(completed.Key, origin)
		},
	},
	{
		name: "times of a running key",
		rule: "a record in progress has the time of its attempt's claim and the end of its Retain, and is not finished: Extend " +
			"moves the end and not the beginning, and a take-over begins anew",
		test: func(f *fixture) {
			c := f.shortClaim()
			c.Retain = 20 * f.unit
			lease := f.win(c, 1, false)
			first := f.timed(lease.Key)
			f.lasts("Retain", first.Created, first.Expires, 20*f.unit)
			f.wait(5 * f.unit)
			lease.Age = 5 * f.unit
			f.extend(lease, f.unit)
			renewed := f.timed(lease.Key)
			f.lasts("the claim until the same claim", first.Created, renewed.Created, 0)
			f.lasts("the record until its renewed end", first.Expires, renewed.Expires, 5*f.unit)
			f.extend(lease, 0)
			f.wait(5 * f.unit)
			f.win(f.takeOver(), 2, true)
			f.lasts("the first claim until the second", first.Created, f.timed(lease.Key).Created, 10*f.unit)
			for _, r := range []*storage.Record{first, renewed} {
				if !r.Finished.IsZero() {
					f.Errorf("a record in progress was finished at %s, want no time", r.Finished)
				}
			}
		},
	},
	{
		name: "times of a finished key",
		rule: "a finished record has the time of its attempt's claim, the time of its Complete and the end of the result's Retain; " +
			"a repeated Complete changes none of them",
		test: func(f *fixture) {
			lease := f.win(f.claim(), 1, false)
			running := f.timed(lease.Key)
			f.wait(10 * f.unit)
			lease.Age = 10 * f.unit
			res := f.finish(lease, 50*f.unit, f.long())
			f.wait(5 * f.unit)
			lease.Age = 15 * f.unit
			f.complete(lease, res)
			r := f.timed(lease.Key)
			f.lasts("the claim until the same claim", running.Created, r.Created, 0)
			f.lasts("the run", r.Created, r.Finished, 10*f.unit)
			f.lasts("Retain", r.Finished, r.Expires, res.Retain)
			if r.Finished.Before(r.Created) || r.Expires.Before(r.Finished) {
				f.Errorf("created at %s, finished at %s, expires at %s: want them in this order", r.Created, r.Finished, r.Expires)
			}
		},
	},
	{
		name: "times of a claim that the store lost",
		rule: "a record whose claim the store has lost was created as long ago as the lease's Age says",
		test: func(f *fixture) {
			extended := storage.Lease{Claim: f.claim(), Attempt: 3, Age: 10 * f.unit}
			f.extend(extended, f.long())
			f.wait(5 * f.unit)
			completed := storage.Lease{Claim: of(f.claim(), key(2)), Attempt: 3, Age: 20 * f.unit}
			f.complete(completed, f.result(completed))
			r := f.timed(completed.Key)
			f.lasts("the run", r.Created, r.Finished, 20*f.unit)
			f.lasts("the first claim until the second", r.Created, f.timed(extended.Key).Created, 5*f.unit)
		},
	},
	{
		name: "times of a tombstone",
		rule: "a tombstone has the end of its Remember, and no other time",
		test: func(f *fixture) {
			abandoned := f.briefClaim()
			abandoned.Retain = 10*f.unit + 10*f.callTime()
			f.win(abandoned, 1, false)
			f.finish(f.win(of(f.claim(), key(2)), 1, false), abandoned.Retain, f.long())
			before := []*storage.Record{f.timed(key(1)), f.timed(key(2))}
			f.wait(abandoned.Retain + f.unit)
			for i, before := range before {
				r := f.timed(key(1 + i))
				f.lasts("Remember", before.Expires, r.Expires, f.long())
				if r.State != storage.Expired || !r.Created.IsZero() || !r.Finished.IsZero() {
					f.Errorf("the record was created at %s and finished at %s, want a tombstone without these", r.Created, r.Finished)
				}
			}
		},
	},
	{
		name: "list origins and times",
		rule: "the records of a list have their origin and their times",
		test: func(f *fixture) {
			f.win(f.claim(), 1, false)
			lease := f.win(of(f.claim(), key(2)), 1, false)
			f.complete(lease, f.result(lease))
			f.finishBriefly(key(3))
			f.wait(2 * f.unit)
			for state, key := range map[storage.State]string{storage.InProgress: key(1), storage.Completed: key(2), storage.Expired: key(3)} {
				listed, want := f.list(state, 10, nil)[key], f.lookUp(key)
				if listed == nil {
					f.Fatalf("the record in state %s is not listed", state)
				}
				if listed.Origin != want.Origin {
					f.Errorf("in state %s the origin is %+v, want %+v", state, listed.Origin, want.Origin)
				}
				f.lasts("created", want.Created, listed.Created, 0)
				f.lasts("finished", want.Finished, listed.Finished, 0)
				f.lasts("expires", want.Expires, listed.Expires, 0)
			}
		},
	},
}

// origins have every text and every length that a store may cut.
func origins() []storage.Origin {
	all := []storage.Origin{
		{},
		origin,
		{Route: strings.Repeat("r", 200), Holder: strings.Repeat("h", 100), KeyHash: strings.Repeat("0", 64), Trace: strings.Repeat("t", 100), Program: "01234567"},
		{Route: strings.Repeat("価", 66), Holder: strings.Repeat("é", 50)},
		{Route: "r"},
		{Holder: "h"},
		{KeyHash: "k"},
		{Trace: "t"},
		{Program: "p"},
	}
	for _, text := range texts() {
		all = append(all, storage.Origin{Route: text, Holder: text, KeyHash: text, Trace: text, Program: text})
	}
	return all
}

// isFrom expects a key's record to have the origin, however it is read.
func (f *fixture) isFrom(key string, want storage.Origin) {
	f.Helper()
	records := []*storage.Record{f.find(of(f.claim(), key))}
	if _, can := f.store.(storage.Inspector); can {
		records = append(records, f.lookUp(key))
	}
	for _, r := range records {
		if r.Origin != want {
			f.Fatalf("the record %s is from %+v, want %+v", describe(r), r.Origin, want)
		}
	}
}

// timed returns a key's record, and expects it to have the same times however it is
// read.
func (f *fixture) timed(key string) *storage.Record {
	f.Helper()
	r := f.find(of(f.claim(), key))
	if _, can := f.store.(storage.Inspector); can {
		other := f.lookUp(key)
		f.lasts("created", r.Created, other.Created, 0)
		f.lasts("finished", r.Finished, other.Finished, 0)
		f.lasts("expires", r.Expires, other.Expires, 0)
	}
	if r.Expires.IsZero() || r.Created.IsZero() != (r.State == storage.Expired) {
		f.Fatalf("the record %s was created at %s and expires at %s, want both times", describe(r), r.Created, r.Expires)
	}
	return r
}

// lasts expects that a time is later than another by a duration, give or take a unit
// and the delays of a busy machine.
func (f *fixture) lasts(name string, from, until time.Time, want time.Duration) {
	f.Helper()
	if got := until.Sub(from); (got - want).Abs() > f.unit+f.delay() {
		f.Errorf("%s: from %s until %s, %s later: want %s", name, from, until, got, want)
	}
}
