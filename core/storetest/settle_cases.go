package storetest

import (
	"github.com/oncekey/oncekey/core/storage"
)

var completeCases = []testCase{
	{
		name: "replay",
		rule: "a result comes back as completed: state, status, header fields in order and with all values, body byte by byte",
		test: func(f *fixture) {
			for i, res := range f.results() {
				lease := f.win(of(f.claim(), key(i)), 1, false)
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
			f.finishes(f.abandon(f.shortClaim()))
		},
	},
	{
		name: "complete a claim that the store lost",
		rule: "a response is stored even when the store has lost the claim, with its request, until another caller claims the key",
		test: func(f *fixture) {
			f.finishes(storage.Lease{Claim: f.claim(), Attempt: 3, TookOver: true})
		},
	},
	{
		name: "complete too late",
		rule: "after another caller has taken over the key, the old holder's Complete returns ErrLeaseLost and changes no " +
			"record",
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
			"seen n must refuse only the old holders; the Release can be repeated, if its reply was lost",
		test: func(f *fixture) {
			_, current := f.overtaken()
			f.release(current)
			f.release(current)
			f.release(f.win(ofAnotherRequest(f.claim()), 3, false))
			f.holds(f.win(f.takeOver(), 4, false))
		},
	},
	{
		name: "release too late",
		rule: "after another caller has taken over the key, the old holder's Release returns ErrLeaseLost and the new claim " +
			"stays",
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
		name: "release after the lease ran out",
		rule: "a late holder may still release the key until another caller claims the key",
		test: func(f *fixture) {
			f.release(f.abandon(f.shortClaim()))
			f.win(f.claim(), 1, false)
		},
	},
}
