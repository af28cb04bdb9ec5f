// Package linearizable contains only tests. Many callers make random calls to a
// few keys of a store at once, and the tests record each call's result and times.
// Then they search for a sequential order of the calls that the contract of
// [storage.Store] allows. If there is none, two results of the store contradict
// each other.
//
// The search is porcupine's. The contract is in model_test.go, and does not depend
// on time: a lease either lasts longer than the test, or may run out at any moment.
// A call that ended with its context may have taken effect at any later moment, or
// never.
//
// A new store is one more line in stores_test.go.
package linearizable
