package storetest

import (
	"fmt"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// rememberCases are about tombstones: the records in state Expired that a Remember
// leaves after Retain. A late retry of a forgotten key would run again.
var rememberCases = []testCase{
	{
		name: "a finished key is remembered",
		rule: "after its Retain a finished record is Expired for its Remember: no caller claims the key, and every caller gets " +
			"the fingerprint, the digest, the attempt and the status, and no response",
		test: func(f *fixture) {
			for i, state := range []storage.State{storage.Completed, storage.Failed, storage.Unreplayable} {
				lease := f.win(of(f.claim(), key(i)), 1, false)
				res := f.result(lease)
				res.State, res.Status, res.Retain, res.Remember = state, 200+i, f.unit, f.long()
				f.complete(lease, res)
				f.wait(2 * f.unit)
				f.remembers(lease, res.Status)
			}
		},
	},
	{
		name: "an abandoned key is remembered",
		rule: "after its Retain an abandoned record is Expired for its claim's Remember, with a status of zero: no caller claims " +
			"the key, not even its own holder, because its outcome stays unknown",
		test: func(f *fixture) {
			lease := f.win(f.briefClaim(), 1, false)
			lease.Steps = "first\n"
			f.extend(lease, f.unit)
			f.wait(11 * f.unit)
			f.remembers(lease, 0)
		},
	},
	{
		name: "a later attempt is remembered",
		rule: "a tombstone has the number of the last attempt, and the request of its claim",
		test: func(f *fixture) {
			f.extend(f.win(f.briefClaim(), 1, false), 0)
			c := f.briefClaim()
			c.TakeOver, c.Digest = true, otherDigest
			lease := f.win(c, 2, true)
			f.wait(11 * f.unit)
			f.remembers(lease, 0)
		},
	},
	{
		name: "any request is remembered",
		rule: "a tombstone keeps any fingerprint and a digest of zero, as every record does",
		test: func(f *fixture) {
			var leases []storage.Lease
			for i, text := range texts() {
				c := of(f.briefClaim(), key(i))
				c.Remember = 100 * f.long() // many keys take long
				if c.Fingerprint = text; i%2 == 0 {
					c.Digest = storage.Digest{}
				}
				leases = append(leases, f.win(c, 1, false))
			}
			f.wait(11 * f.unit)
			for _, lease := range leases {
				f.remembers(lease, 0)
			}
		},
	},
	{
		name: "a tombstone cannot be settled",
		rule: "Complete, Release and Extend of a remembered key return ErrLeaseLost and change no record, also for the lease " +
			"that was finished or abandoned",
		test: func(f *fixture) {
			finished := f.finishBriefly(key(1))
			abandoned := f.win(of(f.briefClaim(), key(2)), 1, false)
			f.wait(11 * f.unit)
			for lease, status := range map[storage.Lease]int{finished: 201, abandoned: 0} {
				lease.Retain = 20 * f.long()
				f.isLost("Extend", f.store.Extend(f.Context(), lease, 0))
				f.loses(lease)
				f.remembers(lease, status)
			}
		},
	},
	{
		name: "a tombstone expires",
		rule: "a tombstone exists until Retain and Remember have passed, one after the other, and then no longer: the key is new, " +
			"and its next claim is attempt 1",
		test: func(f *fixture) {
			f.expires(key(1), 6*f.unit, func(c storage.Claim) {
				f.finish(f.win(c, 1, false), 2*f.unit, 4*f.unit)
			})
			f.expires(key(2), 14*f.unit, func(c storage.Claim) { f.win(c, 1, false) })
		},
	},
	{
		name: "the result decides what is remembered",
		rule: "a result's Remember replaces the claim's, whether longer, shorter or zero: with zero the key is new after Retain",
		test: func(f *fixture) {
			for i, test := range []struct{ claim, result time.Duration }{{0, f.long()}, {f.unit, f.long()}, {f.long(), 0}, {f.long(), f.unit}} {
				c := of(f.claim(), key(i))
				c.Remember = test.claim
				lease := f.win(c, 1, false)
				res := f.finish(lease, f.unit, test.result)
				f.wait(3 * f.unit)
				if test.result == f.long() {
					f.remembers(lease, res.Status)
				} else {
					f.win(of(f.takeOver(), c.Key), 1, false)
				}
			}
		},
	},
	{
		name: "a released key is not remembered",
		rule: "a released key leaves no tombstone: it is new at once, or after the Retain of its attempt number",
		test: func(f *fixture) {
			f.release(f.win(f.briefClaim(), 1, false))
			f.extend(f.win(f.briefClaim(), 1, false), 0)
			c := f.briefClaim()
			c.TakeOver = true
			f.release(f.win(c, 2, true))
			f.wait(11 * f.unit)
			f.win(f.claim(), 1, false)
		},
	},
	{
		name: "a renewed claim is remembered for as long",
		rule: "Extend renews a record's Retain and keeps its Remember, which begins when the renewed Retain has passed; also for a claim " +
			"that the store lost",
		test: func(f *fixture) {
			lost := storage.Lease{Claim: of(f.briefClaim(), key(2)), Attempt: 3}
			lease := f.win(f.briefClaim(), 1, false)
			lease.Retain = 25 * f.unit
			f.extend(lease, f.unit)
			f.extend(lost, f.unit)
			f.wait(11 * f.unit)
			f.isAbandoned(f.find(f.claim()), 1)
			f.remembers(lost, 0)
			f.wait(15 * f.unit)
			f.remembers(lease, 0)
		},
	},
	{
		name: "concurrent claims at the end of a record",
		rule: "no caller claims a key at the moment when its record becomes a tombstone",
		test: func(f *fixture) {
			c := f.claim()
			c.LockTTL, c.Retain, c.Remember = f.unit, 3*f.unit, f.long()
			lease := f.win(c, 1, false)
			f.wait(f.unit)
			f.together(callersOfEach, func(int) error { return f.noneWins(4 * f.unit) })
			f.remembers(lease, 0)
		},
	},
	{
		name: "look up a remembered key",
		rule: "Lookup returns a tombstone as Acquire does, also before any other call has read it, and none after its Remember",
		test: func(f *fixture) {
			finished := f.finishBriefly(key(1))
			abandoned := f.win(of(f.briefClaim(), key(2)), 1, false)
			c := of(f.briefClaim(), key(3))
			c.Remember = f.unit
			f.win(c, 1, false)
			f.wait(12 * f.unit)
			f.isTombstone(f.lookUp(key(1)), finished, 201)
			f.isTombstone(f.lookUp(key(2)), abandoned, 0)
			f.showsNoRecord("remembered for a time that is over", key(3))
		},
	},
	{
		name: "list remembered keys",
		rule: "List has a tombstone under Expired, and no longer under the state of its record",
		test: func(f *fixture) {
			leases := map[storage.State]storage.Lease{storage.InProgress: f.win(of(f.briefClaim(), key(1)), 1, false)}
			for state := storage.Completed; state <= storage.Unreplayable; state++ {
				lease := f.win(of(f.claim(), key(int(state))), 1, false)
				res := f.result(lease)
				res.State, res.Retain, res.Remember = state, f.unit, f.long()
				f.complete(lease, res)
				leases[state] = lease
			}
			f.wait(11 * f.unit)
			for state := range leases {
				if listed := f.list(state, 10, nil); len(listed) != 0 {
					f.Errorf("%d records are listed as %s, want none", len(listed), state)
				}
			}
			listed := f.list(storage.Expired, 10, nil)
			for state, lease := range leases {
				status := 201
				if state == storage.InProgress {
					status = 0
				}
				if r := listed[lease.Key]; r == nil {
					f.Errorf("the tombstone of a key that was %s is not listed", state)
				} else {
					f.isTombstone(r, lease, status)
				}
			}
			if len(listed) != len(leases) {
				f.Errorf("%d tombstones are listed, want %d", len(listed), len(leases))
			}
		},
	},
	{
		name: "forget a remembered key",
		rule: "Forget removes a tombstone and reports it, so that the next request runs: as attempt 1",
		test: func(f *fixture) {
			f.finishBriefly(key(1))
			f.wait(2 * f.unit)
			f.forgets(true)
			f.forgets(false)
			f.holds(f.win(f.claim(), 1, false))
		},
	},
}

// briefClaim returns a claim with a lease of one unit, kept for ten, so that a busy
// machine can settle it in time, and remembered for longer than the case.
func (f *fixture) briefClaim() storage.Claim {
	c := f.shortClaim()
	c.Retain, c.Remember = 10*f.unit, f.long()
	return c
}

// finishBriefly completes a key with a result that is kept for one unit, and
// remembered for longer than the case.
func (f *fixture) finishBriefly(key string) storage.Lease {
	f.Helper()
	lease := f.record(f.win(of(f.claim(), key), 1, false), "first\n")
	f.finish(lease, f.unit, f.long())
	return lease
}

// expires expects a key to be remembered for the time, and to be new after that. begin
// makes the key's record, from a claim with a Retain of ten units and a Remember of four.
func (f *fixture) expires(key string, want time.Duration, begin func(storage.Claim)) {
	f.Helper()
	c := of(f.briefClaim(), key)
	c.Remember = 4 * f.unit
	start := time.Now()
	begin(c)
	f.winAfter(want, start, of(f.claim(), key), 1, false)
}

// remembers expects every kind of claim to find the lease's tombstone.
func (f *fixture) remembers(l storage.Lease, status int) {
	f.Helper()
	again := f.takeOver()
	again.Fingerprint, again.Digest = l.Fingerprint, l.Digest
	own := l.Claim
	own.TakeOver = true
	for _, c := range []storage.Claim{f.claim(), again, ofAnotherRequest(f.takeOver()), l.Claim, own} {
		f.isTombstone(f.find(of(c, l.Key)), l, status)
	}
}

func (f *fixture) isTombstone(r *storage.Record, l storage.Lease, status int) {
	f.Helper()
	if r.State != storage.Expired || r.Status != status {
		f.Fatalf("the record is %s, want it expired with status %d", describe(r), status)
	}
	if len(r.Header)+len(r.Body)+len(r.Sketch)+len(r.Steps) != 0 || r.Origin != (storage.Origin{}) {
		f.Fatalf("the tombstone has more than it may: %+v", *r)
	}
	f.isOf(r, l)
}

// noneWins claims the key again and again for some time, and expects a record each
// time.
func (f *fixture) noneWins(patience time.Duration) error {
	for start := time.Now(); time.Since(start) < patience; f.wait(f.unit / 20) {
		c := f.claim()
		lease, record, err := f.store.Acquire(f.Context(), c)
		if err != nil {
			return err
		}
		if record == nil {
			return fmt.Errorf("a caller claimed the key as attempt %d", lease.Attempt)
		}
	}
	return nil
}
