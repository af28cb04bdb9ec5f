// Package linearizable holds tests alone: they let many callers do anything
// with a few keys of a store at once, record what each call was answered and
// when, and search for an order of the calls, one after the other, that the
// contract of [storage.Store] allows. If there is none, the store has answered two
// calls in ways that contradict each other.
//
// The search is porcupine's; the contract is written down in model_test.go, with
// nothing in it that depends on time: a lease is either one that lasts longer
// than the test, or one that may be taken to have run out at any moment. A call
// that ended with its context may have taken effect at any later moment, or
// never.
//
// A new store is one more line in stores_test.go.
package linearizable
