package storetest

import (
	"strings"

	"github.com/oncekey/oncekey/core/storage"
)

// releasedCases are about keys that are released with Steps. They stay in the store in
// state Released, for a retry of the same request.
var releasedCases = []testCase{
	{
		name: "release with steps",
		rule: "a lease that is released with Steps leaves a record in state Released, with its request, attempt, origin and steps. " +
			"Another request gets the record, and its own request gets the key: as the next attempt, not taken over, and with the " +
			"steps, whatever its TakeOver says",
		test: func(f *fixture) {
			for i, own := range []func() storage.Claim{f.claim, f.takeOver} {
				key := key(1 + i)
				lease := f.record(f.win(of(f.claim(), key), 1, false), "first\n")
				lease.Steps += "second\n"
				f.release(lease)
				f.isReleased(lease)
				lease = f.win(of(own(), key), 2, false)
				f.leasesSteps(lease, "first\nsecond\n")
				running := f.find(of(f.claim(), key))
				f.hasSteps(running, "first\nsecond\n")
				if running.State != storage.InProgress {
					f.Fatalf("the record is %s, want it in progress", describe(running))
				}
				f.isOf(running, lease)
				f.finishes(lease)
			}
		},
	},
	{
		name: "release with steps of a later attempt",
		rule: "a run that took its key over, or claimed a Released one, is released with Steps as the first one is: the next attempt " +
			"has a higher number, and is not taken over",
		test: func(f *fixture) {
			f.extend(f.record(f.win(f.claim(), 1, false), "first\n"), 0)
			lease := f.win(f.takeOver(), 2, true)
			f.release(lease)
			f.isReleased(lease)
			lease = f.win(f.takeOver(), 3, false)
			f.release(lease)
			f.isReleased(lease)
			lease = f.win(f.claim(), 4, false)
			f.extend(lease, 0)
			f.leasesSteps(f.win(f.takeOver(), 5, true), "first\n")
		},
	},
	{
		name: "a released request by its digest or its fingerprint",
		rule: "a Released key goes to a claim with an equal digest, or with an equal fingerprint. Two zero digests are not equal",
		test: func(f *fixture) {
			f.release(f.record(f.win(f.claim(), 1, false), "first\n"))
			c := f.claim()
			c.Fingerprint = otherFingerprint
			f.release(f.win(c, 2, false))
			c.Digest = otherDigest
			f.release(f.win(c, 3, false))
			c.Fingerprint, c.Digest = fingerprint, storage.Digest{}
			f.find(c)
			c.Fingerprint = otherFingerprint
			f.release(f.win(c, 4, false))
			c.Fingerprint = fingerprint
			f.find(c)
		},
	},
	{
		name: "release with steps again",
		rule: "a caller can repeat a Release with Steps whose reply was lost, until another caller claims the key",
		test: func(f *fixture) {
			lease := f.record(f.win(f.claim(), 1, false), "first\n")
			f.release(lease)
			f.release(lease)
			f.isReleased(lease)
			next := f.win(f.claim(), 2, false)
			f.isLost("Release", f.store.Release(f.Context(), lease))
			f.holds(next)
			f.complete(next, f.result(next))
			f.isLost("Release", f.store.Release(f.Context(), next))
			f.replays(next, f.result(next))
		},
	},
	{
		name: "release with steps too late",
		rule: "after another caller has taken over the key, the old holder's Release with Steps returns ErrLeaseLost and changes no " +
			"record; so does one of another attempt by the same token",
		test: func(f *fixture) {
			stale, current := f.overtaken()
			stale.Steps = "mine\n"
			f.isLost("Release", f.store.Release(f.Context(), stale))
			asFirst := current
			asFirst.Attempt, asFirst.Steps = 1, "mine\n"
			f.isLost("Release", f.store.Release(f.Context(), asFirst))
			f.holds(current)
			f.hasSteps(f.find(f.claim()), "")
		},
	},
	{
		name: "release with steps after the lease ran out",
		rule: "a late holder may still release the key with Steps until another caller claims the key",
		test: func(f *fixture) {
			lease := f.abandon(f.shortClaim())
			lease.Steps = "first\n"
			f.release(lease)
			f.isReleased(lease)
			f.win(f.claim(), 2, false)
		},
	},
	{
		name: "complete after a release with steps",
		rule: "after a Release with Steps, a Complete of the same lease stores its result or returns ErrLeaseLost",
		test: func(f *fixture) {
			lease := f.record(f.win(f.claim(), 1, false), "first\n")
			f.release(lease)
			if err := f.store.Complete(f.Context(), lease, f.result(lease)); err != nil {
				f.isLost("Complete", err)
				return
			}
			f.replays(lease, f.result(lease))
		},
	},
	{
		name: "release with steps of a claim that the store lost",
		rule: "a Release with Steps of a lease that the store has lost writes its record too: the next attempt must not repeat them",
		test: func(f *fixture) {
			lease := storage.Lease{Claim: f.claim(), Attempt: 3, TookOver: true, Steps: "first\n"}
			f.release(lease)
			f.isReleased(lease)
			f.leasesSteps(f.win(f.claim(), 4, false), "first\n")
		},
	},
	{
		name: "a key that is released with steps expires",
		rule: "a Released record is kept for the Retain of its lease, from the Release on. Then the key is new, also for a claim with a " +
			"Remember",
		test: func(f *fixture) {
			kept := f.win(f.briefClaim(), 1, false)
			kept.Steps, kept.Retain = "first\n", f.long()
			f.release(kept)
			brief := of(f.briefClaim(), key(2))
			brief.Retain = f.long()
			gone := f.win(brief, 1, false)
			gone.Steps, gone.Retain = "first\n", f.unit
			f.release(gone)
			f.wait(11 * f.unit)
			f.isReleased(kept)
			f.startsAnew(ofAnotherRequest(of(f.claim(), gone.Key)), 1)
		},
	},
	{
		name: "times of a key that is released with steps",
		rule: "a Released record has the time of its attempt's claim and the end of its Retain, and was not finished",
		test: func(f *fixture) {
			lease := f.win(f.claim(), 1, false)
			running := f.timed(lease.Key)
			f.wait(10 * f.unit)
			lease.Steps, lease.Age, lease.Retain = "first\n", 10*f.unit, f.long()
			f.release(lease)
			r := f.find(ofAnotherRequest(f.claim()))
			f.lasts("the claim until the same claim", running.Created, r.Created, 0)
			f.lasts("the claim until the end", r.Created, r.Expires, 10*f.unit+f.long())
			if !r.Finished.IsZero() {
				f.Errorf("a Released record was finished at %s, want no time", r.Finished)
			}
		},
	},
	{
		name: "concurrent claims of a key that is released with steps",
		rule: "of any number of concurrent callers exactly one gets the key",
		test: func(f *fixture) {
			f.release(f.record(f.win(f.claim(), 1, false), "first\n"))
			f.leasesSteps(f.race(f.claim, 2, false), "first\n")
		},
	},
	{
		name: "release with large steps, of any text",
		rule: "the steps of a Released record are any valid UTF-8 without NUL, of up to a mebibyte, and come back byte by byte",
		test: func(f *fixture) {
			for i, steps := range append(texts(), strings.Repeat("0123456789abcde\n", 1<<16)) {
				if steps == "" {
					continue
				}
				c := of(f.claim(), key(i))
				f.release(f.record(f.win(c, 1, false), steps))
				f.hasSteps(f.find(ofAnotherRequest(of(f.claim(), c.Key))), steps)
				f.leasesSteps(f.win(of(f.claim(), c.Key), 2, false), steps)
			}
		},
	},
	{
		name: "inspect a key that is released with steps",
		rule: "Lookup returns a Released record whole, List lists it in its state and not as abandoned, without its steps, and Settle " +
			"returns ErrNotAbandoned",
		test: func(f *fixture) {
			lease := f.record(f.win(f.claim(), 1, false), "first\n")
			f.release(lease)
			r := f.lookUp(lease.Key)
			if r.State != storage.Released || r.Origin != origin {
				f.Errorf("the record is %s from %+v, want it released from %+v", describe(r), r.Origin, origin)
			}
			f.isOf(r, lease)
			f.hasSteps(r, "first\n")
			listed := f.list(storage.Released, 10, nil)
			wantKeys(f, "released", listed, lease.Key)
			for _, r := range listed {
				f.isOf(r, lease)
				f.hasSteps(r, "")
			}
			f.lists("in all states", storage.Filter{}, lease.Key)
			f.lists("in progress", storage.Filter{States: []storage.State{storage.InProgress}})
			f.lists("abandoned", storage.Filter{Abandoned: true})
			for _, confirmation := range []storage.Confirmation{storage.Happened, storage.DidNotHappen} {
				f.settles(storage.ErrNotAbandoned, lease.Key, 1, confirmation)
			}
			f.isReleased(lease)
		},
	},
	{
		name: "forget a key that is released with steps",
		rule: "a Released record is a record to forget. The key is then new, for any request",
		test: func(f *fixture) {
			f.release(f.record(f.win(f.claim(), 1, false), "first\n"))
			f.forgets(true)
			f.showsNoRecord("forgotten", key(1))
			f.startsAnew(ofAnotherRequest(f.claim()), 1)
		},
	},
}

// isReleased expects that the lease was released with its steps.
func (f *fixture) isReleased(l storage.Lease) {
	f.Helper()
	r := f.find(ofAnotherRequest(of(f.takeOver(), l.Key)))
	if r.State != storage.Released || r.Abandoned() || r.Origin != l.Origin || len(r.Header)+len(r.Body)+len(r.Sketch) != 0 {
		f.Fatalf("the record is %s from %+v, want it released from %+v", describe(r), r.Origin, l.Origin)
	}
	f.isOf(r, l)
	f.hasSteps(r, l.Steps)
}
