package storetest

import (
	"strings"

	"github.com/oncekey/oncekey/core/storage"
)

// stepCases are about the Steps that a run has recorded. The steps are part of the
// run's record: fenced by its token and attempt, and gone when the run ends.
var stepCases = []testCase{
	{
		name: "steps",
		rule: "Extend keeps the steps of a run in its record; a later Extend with more of them replaces them, and every caller " +
			"that finds the running or abandoned record sees them",
		test: func(f *fixture) {
			lease := f.win(f.shortClaim(), 1, false)
			f.hasSteps(f.find(f.claim()), "")
			lease = f.record(lease, "first\n")
			f.hasSteps(f.find(f.claim()), "first\n")
			lease = f.record(lease, "first\nsecond\n")
			f.hasSteps(f.find(ofAnotherRequest(f.takeOver())), "first\nsecond\n")
			f.extend(lease, f.unit)
			f.wait(2 * f.unit)
			if r := f.find(f.claim()); !r.Abandoned() {
				f.Errorf("the record is %s, want it abandoned", describe(r))
			} else {
				f.hasSteps(r, "first\nsecond\n")
			}
		},
	},
	{
		name: "steps of an abandoned run",
		rule: "a claim that takes over an abandoned key gets the steps of the earlier attempt in its lease, and the record " +
			"keeps them for the attempt after that",
		test: func(f *fixture) {
			f.extend(f.record(f.win(f.claim(), 1, false), "first\n"), 0)
			for attempt := uint64(2); attempt <= 3; attempt++ {
				lease := f.win(f.takeOver(), attempt, true)
				f.leasesSteps(lease, "first\n")
				f.hasSteps(f.find(f.claim()), "first\n")
				f.extend(lease, 0)
			}
			lease := f.win(f.takeOver(), 4, true)
			f.extend(f.record(lease, lease.Steps+"second\n"), 0)
			f.leasesSteps(f.win(f.takeOver(), 5, true), "first\nsecond\n")
		},
	},
	{
		name: "steps with the same token again",
		rule: "a repeated Acquire that finds its own claim gets the claim's steps, whether its lease runs or has ended",
		test: func(f *fixture) {
			c := f.shortClaim()
			lease := f.record(f.win(c, 1, false), "first\n")
			f.leasesSteps(f.win(c, 1, false), "first\n")
			f.extend(lease, 0)
			f.leasesSteps(f.win(c, 1, false), "first\n")
			f.hasSteps(f.find(f.claim()), "first\n")
		},
	},
	{
		name: "steps in the wrong order",
		rule: "an Extend with shorter steps than the record's was given up by its caller and arrives late: it renews the lease, " +
			"and the longer steps stay",
		test: func(f *fixture) {
			lease := f.record(f.win(f.claim(), 1, false), "first\nsecond\n")
			for _, steps := range []string{"first\n", ""} {
				f.extend(lease, 0)
				late := lease
				late.Steps = steps
				f.extend(late, f.long())
				f.holds(lease)
				f.hasSteps(f.find(f.claim()), "first\nsecond\n")
			}
			lease.Steps = ""
			f.extend(lease, 0)
			f.leasesSteps(f.win(f.takeOver(), 2, true), "first\nsecond\n")
		},
	},
	{
		name: "steps of a claim that the store lost",
		rule: "an Extend of a lease that the store has lost writes its steps too, because the lease has all of them",
		test: func(f *fixture) {
			lease := storage.Lease{Claim: f.claim(), Attempt: 3, TookOver: true}
			lease = f.record(lease, "first\n")
			f.hasSteps(f.find(f.claim()), "first\n")
			f.extend(lease, 0)
			f.leasesSteps(f.win(f.takeOver(), 4, true), "first\n")
		},
	},
	{
		name: "steps too late",
		rule: "after another caller has taken over the key, the old holder's Extend returns ErrLeaseLost and writes no steps, " +
			"however long they are",
		test: func(f *fixture) {
			stale, current := f.overtaken()
			current = f.record(current, "mine\n")
			stale.Steps = "of an attempt that is over\n"
			f.isLost("Extend", f.store.Extend(f.Context(), stale, f.long()))
			f.hasSteps(f.find(f.claim()), "mine\n")
			f.holds(current)
		},
	},
	{
		name: "steps of a finished run",
		rule: "Complete drops the steps: a replay does not need them",
		test: func(f *fixture) {
			for i, state := range []storage.State{storage.Completed, storage.Failed, storage.Unreplayable} {
				lease := f.record(f.win(of(f.claim(), key(i)), 1, false), "first\n")
				res := storage.Result{State: state, Status: 500, Sketch: []byte("sketch"), Retain: f.long()}
				f.complete(lease, res)
				f.replays(lease, res)
				f.hasSteps(f.find(of(f.claim(), key(i))), "")
			}
		},
	},
	{
		name: "steps of a released run",
		rule: "Release of a lease without Steps drops those of the record: the next claim of the key starts from the beginning, also as " +
			"a higher attempt, and for another request",
		test: func(f *fixture) {
			f.releaseBare(f.record(f.win(f.claim(), 1, false), "first\n"))
			f.release(f.startsAnew(f.claim(), 1))

			key := key(2)
			f.extend(f.record(f.win(of(f.claim(), key), 1, false), "first\n"), 0)
			f.releaseBare(f.win(of(f.takeOver(), key), 2, true))
			f.startsAnew(ofAnotherRequest(of(f.claim(), key)), 3)
		},
	},
	{
		name: "steps of an expired run",
		rule: "steps expire with their record: the key is new, and its next claim starts from the beginning",
		test: func(f *fixture) {
			c := f.shortClaim()
			c.Retain = 10 * f.unit
			lease := f.win(c, 1, false)
			lease.Steps = "first\n"
			f.extend(lease, f.unit)
			f.wait(11 * f.unit)
			f.startsAnew(f.takeOver(), 1)
		},
	},
	{
		name: "large steps, of any text",
		rule: "steps are any valid UTF-8 without NUL, of up to a mebibyte, and come back byte by byte",
		test: func(f *fixture) {
			for i, steps := range append(texts(), strings.Repeat("0123456789abcde\n", 1<<16), strings.Repeat("価", 1<<15)) {
				c := of(f.claim(), key(i))
				lease := f.record(f.win(c, 1, false), steps)
				f.hasSteps(f.find(of(f.claim(), c.Key)), steps)
				f.extend(lease, 0)
				f.leasesSteps(f.win(of(f.takeOver(), c.Key), 2, true), steps)
			}
		},
	},
	{
		name: "look up steps",
		rule: "Lookup returns the steps of a running and of an abandoned key; List leaves them out, as it leaves out bodies",
		test: func(f *fixture) {
			lease := f.record(f.win(f.claim(), 1, false), "first\n")
			f.hasSteps(f.lookUp(lease.Key), "first\n")
			f.extend(lease, 0)
			f.hasSteps(f.lookUp(lease.Key), "first\n")
			if r := f.list(storage.InProgress, 10, nil)[lease.Key]; r == nil {
				f.Error("the key is not listed")
			} else {
				f.hasSteps(r, "")
			}
		},
	},
}

// record renews the lease and records the steps.
func (f *fixture) record(l storage.Lease, steps string) storage.Lease {
	f.Helper()
	l.Steps = steps
	f.extend(l, f.long())
	return l
}

// releaseBare releases the lease without its steps.
func (f *fixture) releaseBare(l storage.Lease) {
	f.Helper()
	l.Steps = ""
	f.release(l)
}

// startsAnew expects that the claim gets the key without steps, not as a take-over.
func (f *fixture) startsAnew(c storage.Claim, attempt uint64) storage.Lease {
	f.Helper()
	lease := f.win(c, attempt, false)
	f.leasesSteps(lease, "")
	f.hasSteps(f.find(of(f.claim(), c.Key)), "")
	return lease
}

func (f *fixture) hasSteps(r *storage.Record, want string) {
	f.Helper()
	if r.Steps != want {
		f.Fatalf("the record %s has the steps %s, want %s", describe(r), shorten([]byte(r.Steps)), shorten([]byte(want)))
	}
}

func (f *fixture) leasesSteps(l storage.Lease, want string) {
	f.Helper()
	if l.Steps != want {
		f.Fatalf("the lease of attempt %d has the steps %s, want %s", l.Attempt, shorten([]byte(l.Steps)), shorten([]byte(want)))
	}
}
