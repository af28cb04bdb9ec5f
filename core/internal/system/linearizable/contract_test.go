package linearizable

import (
	"math"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// Short histories that the contract allows or forbids.
func TestContract(t *testing.T) {
	t.Parallel()
	a, b := storage.Claim{Token: storage.Token{1}, Fingerprint: "f", TakeOver: true}, storage.Claim{Token: storage.Token{2}, Fingerprint: "f", TakeOver: true}
	leaseA, leaseB := storage.Lease{Claim: a, Attempt: 1}, storage.Lease{Claim: b, Attempt: 2, TookOver: true}
	claimA, shortA := call{method: acquire, lease: storage.Lease{Claim: a}}, call{method: acquire, lease: storage.Lease{Claim: a}, short: true}
	claimB := call{method: acquire, lease: storage.Lease{Claim: b}}
	completeA, completeB := call{method: complete, lease: leaseA, body: "A"}, call{method: complete, lease: leaseB, body: "B"}
	releaseA := call{method: release, lease: leaseA}
	won := outcome{won: true, attempt: 1}
	tookOver := outcome{won: true, attempt: 2, tookOver: true}
	busy := outcome{found: storage.InProgress, attempt: 1, fingerprint: "f"}
	isA := outcome{found: storage.Completed, attempt: 1, fingerprint: "f", body: "A", sketch: sketchOf("A")}
	unknown := outcome{unknown: true}
	releaseB, third := call{method: release, lease: leaseB}, outcome{won: true, attempt: 3}

	stepped := leaseA
	stepped.Steps = "step"
	releaseSteps, second := call{method: release, lease: stepped}, outcome{won: true, attempt: 2, steps: "step"}
	other := call{method: acquire, lease: storage.Lease{Claim: storage.Claim{Token: storage.Token{3}, Fingerprint: "g"}}}
	kept := outcome{found: storage.Released, attempt: 1, fingerprint: "f", steps: "step"}

	type test struct {
		calls []porcupine.Operation
		want  bool
	}
	testkit.Each(t, map[string]test{
		"released with steps": {[]porcupine.Operation{
			at(0, 1, claimA, won), at(2, 3, releaseSteps, outcome{}), at(4, 5, other, kept), at(6, 7, claimB, second),
		}, true},
		"released with steps to another request": {[]porcupine.Operation{
			at(0, 1, claimA, won), at(2, 3, releaseSteps, outcome{}), at(4, 5, other, second),
		}, false},
		"released with steps, without them": {[]porcupine.Operation{
			at(0, 1, claimA, won), at(2, 3, releaseSteps, outcome{}), at(4, 5, claimB, outcome{won: true, attempt: 2}),
		}, false},
		"one of two":                   {[]porcupine.Operation{at(0, 5, claimA, won), at(1, 4, claimB, busy)}, true},
		"none of two":                  {[]porcupine.Operation{at(0, 5, claimA, busy), at(1, 4, claimB, busy)}, false},
		"both of two":                  {[]porcupine.Operation{at(0, 5, claimA, won), at(1, 4, claimB, won)}, false},
		"before the claim":             {[]porcupine.Operation{at(0, 1, claimB, busy), at(2, 3, claimA, won)}, false},
		"take-over of a lasting lease": {[]porcupine.Operation{at(0, 1, claimA, won), at(2, 3, claimB, tookOver)}, false},
		"take-over of a short lease":   {[]porcupine.Operation{at(0, 1, shortA, won), at(2, 3, claimB, tookOver)}, true},
		"two results": {[]porcupine.Operation{
			at(0, 1, shortA, won), at(2, 3, claimB, tookOver), at(4, 5, completeB, outcome{}), at(6, 7, completeA, outcome{}),
		}, false},
		"a late result is lost": {[]porcupine.Operation{
			at(0, 1, shortA, won), at(2, 3, claimB, tookOver), at(4, 5, completeB, outcome{}), at(6, 7, completeA, outcome{lost: true}),
		}, true},
		"no result yet":           {[]porcupine.Operation{at(0, 1, claimA, won), at(2, 3, completeA, outcome{}), at(4, 5, claimB, busy)}, false},
		"unknown, and stored":     {[]porcupine.Operation{at(0, 1, claimA, won), at(2, never, completeA, unknown), at(4, 5, claimB, isA)}, true},
		"unknown, and not stored": {[]porcupine.Operation{at(0, 1, claimA, won), at(2, never, completeA, unknown), at(4, 5, claimB, busy)}, true},
		"unknown, and stored later": {[]porcupine.Operation{
			at(0, 1, claimA, won), at(2, never, completeA, unknown), at(4, 5, claimB, busy), at(6, 7, claimB, isA),
		}, true},
		"unknown, and unstored": {[]porcupine.Operation{
			at(0, 1, claimA, won), at(2, never, completeA, unknown), at(4, 5, claimB, isA), at(6, 7, claimB, busy),
		}, false},
		"a forgotten attempt is released":                 {[]porcupine.Operation{at(0, 1, releaseB, outcome{}), at(2, 3, claimA, won)}, true},
		"a forgotten attempt is released, and remembered": {[]porcupine.Operation{at(0, 1, releaseB, outcome{}), at(2, 3, claimA, third)}, true},
		"a forgotten attempt comes again": {[]porcupine.Operation{
			at(0, 1, releaseB, outcome{}), at(2, 3, claimA, outcome{won: true, attempt: 2}),
		}, false},
		"a finished key is not released": {[]porcupine.Operation{
			at(0, 1, claimA, won), at(2, 3, completeA, outcome{}), at(4, 5, releaseA, outcome{}),
		}, false},
	}, func(t *testing.T, test test) {
		h := &history{calls: test.calls}
		testkit.Equal(t, h.check() == nil, test.want, "the checker says")
	})
}

// never is the end of a call without a result.
const never time.Duration = math.MaxInt64

func at(called, answered time.Duration, c call, o outcome) porcupine.Operation {
	return porcupine.Operation{Input: c, Output: o, Call: int64(called), Return: int64(answered)}
}
