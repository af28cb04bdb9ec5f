package storetest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// decideCases are about Inspector.Settle.
var decideCases = []testCase{
	{
		name: "settle: it happened",
		rule: "an abandoned key that is settled by Happened is Unreplayable with StatusByHand, and never runs again. The record " +
			"keeps its request, its origin, its attempt, the time of its claim and its end, and has no Steps",
		test: func(f *fixture) {
			lease := f.win(f.shortClaim(), 1, false)
			lease.Steps = "a step"
			f.extend(lease, f.unit)
			f.wait(2 * f.unit)
			before := f.lookUp(lease.Key)
			f.settles(nil, lease.Key, 1, storage.Happened)
			f.replays(lease, storage.Result{State: storage.Unreplayable, Status: storage.StatusByHand})
			r := f.timed(lease.Key)
			f.isFrom(lease.Key, lease.Origin)
			f.lasts("created", before.Created, r.Created, 0)
			f.lasts("expires", before.Expires, r.Expires, 0)
			f.lasts("finished", r.Finished, time.Now(), 0)
			if r.Steps != "" {
				f.Errorf("the record has the steps %q, want none", r.Steps)
			}
			f.lists("unreplayable", storage.Filter{States: []storage.State{storage.Unreplayable}}, lease.Key)
			f.lists("abandoned", storage.Filter{Abandoned: true})
		},
	},
	{
		name: "a settled key ends when it would have",
		rule: "a key that is settled by Happened expires when the claim would have, and a Remember holds after that, with the " +
			"status. A key that is settled by DidNotHappen is not remembered",
		test: func(f *fixture) {
			plain, remembered, released := f.shortClaim(), f.shortClaim(), f.shortClaim()
			retain := 10*f.unit + 10*f.callTime()
			plain.Retain, remembered.Retain, released.Retain = retain, retain, retain
			remembered.Remember, released.Remember = f.long(), f.long()
			remembered.Key, released.Key = key(2), key(3)
			start := time.Now()
			for _, c := range []storage.Claim{plain, remembered, released} {
				f.win(c, 1, false)
			}
			claimed := time.Since(start)
			f.wait(2 * f.unit)
			f.settles(nil, plain.Key, 1, storage.Happened)
			f.settles(nil, remembered.Key, 1, storage.Happened)
			f.settles(nil, released.Key, 1, storage.DidNotHappen)
			_, after := f.winOnceClaimable(plain, start)
			if after < plain.Retain-f.unit/10 || after > plain.Retain+f.unit+f.delay() {
				f.Errorf("the record has expired after %s, want %s", after, plain.Retain)
			}
			f.wait(f.unit + claimed)
			if r := f.lookUp(remembered.Key); r.State != storage.Expired || r.Status != storage.StatusByHand || r.Fingerprint != fingerprint || r.Attempt != 1 {
				f.Errorf("the record is %s, want a tombstone of attempt 1 with StatusByHand", describe(r))
			}
			f.showsNoRecord("released", released.Key)
		},
	},
	{
		name: "settle: it did not happen",
		rule: "an abandoned key that is settled by DidNotHappen has no record. The next request runs, with a higher attempt " +
			"number and without Steps, and has not taken over the key",
		test: func(f *fixture) {
			lease := f.win(f.shortClaim(), 1, false)
			lease.Steps = "a step"
			f.extend(lease, f.unit)
			f.wait(2 * f.unit)
			f.settles(nil, lease.Key, 1, storage.DidNotHappen)
			f.showsNoRecord("released", lease.Key)
			next := f.win(f.shortClaim(), 2, false)
			if next.Steps != "" {
				f.Errorf("the lease has the steps %q, want none", next.Steps)
			}
			f.wait(2 * f.unit)
			f.settles(nil, lease.Key, 2, storage.DidNotHappen)
			f.win(ofAnotherRequest(f.claim()), 3, false)
		},
	},
	{
		name: "the holder of a settled key",
		rule: "after Settle the holder of the abandoned lease has lost the key: a late Complete, Extend or Release returns " +
			"ErrLeaseLost and changes no record",
		test: func(f *fixture) {
			kept, freed := f.abandon(f.shortClaim()), f.abandon(of(f.shortClaim(), key(2)))
			f.settles(nil, kept.Key, 1, storage.Happened)
			f.settles(nil, freed.Key, 1, storage.DidNotHappen)
			for _, late := range []storage.Lease{kept, freed} {
				f.loses(late)
			}
			f.replays(kept, storage.Result{State: storage.Unreplayable, Status: storage.StatusByHand})
			lease := f.win(of(f.claim(), freed.Key), 2, false)
			f.isLost("Complete", f.store.Complete(f.Context(), freed, f.result(freed)))
			f.finishes(lease)
		},
	},
	{
		name: "settle only an abandoned key",
		rule: "Settle returns ErrNotAbandoned, and changes no record, unless the key is in progress under the named attempt with " +
			"a lease that has ended: not for a missing key, a live lease, another attempt, a finished or released key, a tombstone",
		test: func(f *fixture) {
			buried := f.shortClaim()
			buried.Key, buried.Retain, buried.Remember = key(5), f.unit, f.long()
			f.win(buried, 1, false)
			_, current := f.overtaken()
			done := f.win(of(f.claim(), key(2)), 1, false)
			f.complete(done, f.result(done))
			abandoned := f.abandon(of(f.shortClaim(), key(4)))
			for _, confirmation := range []storage.Confirmation{storage.Happened, storage.DidNotHappen} {
				f.settles(storage.ErrNotAbandoned, current.Key, 2, confirmation)
				f.settles(storage.ErrNotAbandoned, current.Key, 1, confirmation)
				f.settles(storage.ErrNotAbandoned, done.Key, 1, confirmation)
				f.settles(storage.ErrNotAbandoned, key(3), 1, confirmation)
				f.settles(storage.ErrNotAbandoned, buried.Key, 1, confirmation)
				for _, attempt := range []uint64{0, 2, 1 << 63} {
					f.settles(storage.ErrNotAbandoned, abandoned.Key, attempt, confirmation)
				}
			}
			f.holds(current)
			f.replays(done, f.result(done))
			f.showsNoRecord("never claimed", key(3))
			if r := f.lookUp(buried.Key); r.State != storage.Expired || r.Status != 0 {
				f.Errorf("the tombstone is %s", describe(r))
			}
			f.isAbandoned(f.lookUp(abandoned.Key), 1)
			f.release(current)
			f.settles(storage.ErrNotAbandoned, current.Key, 2, storage.Happened)
			f.settles(storage.ErrNotAbandoned, current.Key, 2, storage.DidNotHappen)
			f.win(f.claim(), 3, false)
		},
	},
	{
		name: "settle without a confirmation",
		rule: "Settle changes no record for a caller that passes neither Happened nor DidNotHappen",
		test: func(f *fixture) {
			lease := f.abandon(f.shortClaim())
			for _, confirmation := range []storage.Confirmation{"", "please", storage.RerunIsSafe, storage.Happened + "."} {
				if err := f.inspector().Settle(f.Context(), lease.Key, 1, confirmation); err == nil || errors.Is(err, storage.ErrNotAbandoned) {
					f.Errorf("Settle with %q returned %v, want an error about the confirmation", confirmation, err)
				}
			}
			f.win(f.takeOver(), 2, true)
		},
	},
	{
		name: "concurrent operators",
		rule: "of several operators who settle an abandoned key at once, exactly one succeeds. The others get ErrNotAbandoned, " +
			"and the confirmation of the first stands",
		test: func(f *fixture) {
			inspector, lease := f.inspector(), f.abandon(f.shortClaim())
			confirmations := []storage.Confirmation{storage.Happened, storage.DidNotHappen}
			var won [2]atomic.Int64
			f.together(operators, func(n int) error {
				err := inspector.Settle(f.Context(), lease.Key, 1, confirmations[n%2])
				if err == nil {
					won[n%2].Add(1)
				}
				return orNotAbandoned(err)
			})
			happened, released := won[0].Load(), won[1].Load()
			if happened+released != 1 {
				f.Fatalf("%d operators have settled the key, want 1", happened+released)
			}
			if released == 1 {
				f.win(f.claim(), 2, false)
			} else {
				f.replays(lease, storage.Result{State: storage.Unreplayable, Status: storage.StatusByHand})
			}
		},
	},
	{
		name: "settle against the late holder",
		rule: "of an operator who settles an abandoned key and a late Complete or Extend of its holder, exactly one succeeds: else the " +
			"response is lost, or the key runs again beside its holder",
		test: func(f *fixture) {
			f.inspector() // or skip
			f.together(callers, func(n int) error { return f.settleAgainstHolder(key(n), n) })
		},
	},
	{
		name: "settle against a take-over",
		rule: "of an operator who settles an abandoned key and a request that takes over the key, exactly one succeeds",
		test: func(f *fixture) {
			const rounds = 8
			inspector := f.inspector()
			for n := range rounds {
				f.win(of(f.shortClaim(), key(n)), 1, false)
			}
			f.wait(2 * f.unit)
			for n := range rounds {
				var settled, taken atomic.Int64
				f.together(operators, func(caller int) error {
					if caller%2 == 1 {
						err := inspector.Settle(f.Context(), key(n), 1, storage.Happened)
						if err == nil {
							settled.Add(1)
						}
						return orNotAbandoned(err)
					}
					_, record, err := f.store.Acquire(f.Context(), of(f.takeOver(), key(n)))
					if err == nil && record == nil {
						taken.Add(1)
					}
					return err
				})
				if settled.Load()+taken.Load() != 1 {
					f.Fatalf("%d operators have settled the key, and %d requests have taken it over: want one of them",
						settled.Load(), taken.Load())
				}
			}
		},
	},
}

// settleAgainstHolder lets an operator settle an abandoned key while its late holder makes a call.
func (f *fixture) settleAgainstHolder(key string, turn int) error {
	inspector := f.inspector()
	late, _, err := f.store.Acquire(f.Context(), of(f.shortClaim(), key))
	if err != nil {
		return err
	}
	f.wait(2 * f.unit)
	confirmation := []storage.Confirmation{storage.Happened, storage.DidNotHappen}[turn%2]
	var through atomic.Int64
	err = concurrently(2, func(n int) (err error) {
		switch {
		case n == turn/4%2:
			err = inspector.Settle(f.Context(), key, 1, confirmation)
		case turn/2%2 == 0:
			err = f.store.Complete(f.Context(), late, f.result(late))
		default:
			err = f.store.Extend(f.Context(), late, f.long())
		}
		if err == nil {
			through.Add(1)
			return nil
		}
		return orNotAbandoned(orLost(err))
	})
	if err == nil && through.Load() != 1 {
		err = fmt.Errorf("%d of an operator with %q and the key's holder have succeeded, want one", through.Load(), confirmation)
	}
	return err
}

// operators is the number of callers in the cases about several operators.
const operators = 6

// orNotAbandoned returns an error only if Settle may not return it.
func orNotAbandoned(err error) error {
	if err == nil || errors.Is(err, storage.ErrNotAbandoned) {
		return nil
	}
	return fmt.Errorf("Settle returned %w, want nil or ErrNotAbandoned", err)
}

// settles expects the error of a Settle, or nil.
func (f *fixture) settles(want error, key string, attempt uint64, confirmation storage.Confirmation) {
	f.Helper()
	if err := f.inspector().Settle(f.Context(), key, attempt, confirmation); !errors.Is(err, want) {
		f.Fatalf("Settle of attempt %d of %s returned %v, want %v", attempt, key, err, want)
	}
}
