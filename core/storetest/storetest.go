// Package storetest is the conformance suite of [storage.Store]. Run it in the tests
// of every store:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.Config{
//			New: func(t testing.TB) storage.Store { return mystore.New(emptyDatabase(t)) },
//		})
//	}
//
// A store with transactions runs [RunTransactor] too, and one that counts the keys of
// scopes [RunLimiter].
//
// Each case is a subtest with a fresh store, and all cases run in parallel. A case
// that fails prints the rule of the contract that the store has broken. The cases
// about [storage.Inspector] are skipped for a store that does not implement it.
//
// The suite does not test a store whose server is full, slow, unreachable or
// restarted, nor values that the store did not write. Every store needs its own tests
// for these.
package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// defaultUnit suits a server on the same machine.
const defaultUnit = 200 * time.Millisecond

// Config describes the store and the tests.
type Config struct {
	// New returns a store without records. Each case calls New once. New may register
	// a t.Cleanup. A store that processes share returns several by Processes. Required.
	New func(t testing.TB) storage.Store

	// Unit is the length of the short leases. Cases let leases of one unit end, and
	// expect leases of a hundred units to last while they work. Make Unit a good deal
	// longer than a call takes on the slowest test machine. Zero means 200 ms.
	Unit time.Duration

	// TooLarge is the size of a response, and of steps, that the store refuses for good
	// (storage.ErrNotStorable), above 1 MiB. Zero: the store keeps 2 MiB, or refuses them.
	TooLarge int

	// Wrap runs the body of a case. For a store within this process use a bubble,
	// where waiting takes no time:
	//
	//	Wrap: synctest.Test
	//
	// Nil runs the body directly.
	Wrap func(t *testing.T, test func(t *testing.T))
}

// testCase is one rule of the contract.
type testCase struct {
	name string
	// rule is printed when the case fails: the store's duty, and the reason.
	rule string
	test func(f *fixture)
}

// Run runs every case against a store of its own.
func Run(t *testing.T, config Config) {
	t.Helper()
	needNew(t, config.New != nil)
	runAll(t, allCases(), config.Wrap, config.open)
}

func (c Config) open(t testing.TB) *fixture {
	f := newFixture(t, c.New(t), c.Unit)
	f.tooLarge = c.TooLarge
	return f
}

func needNew(t testing.TB, given bool) {
	t.Helper()
	if !given {
		t.Fatal("storetest: New is nil: give a function that returns a store without records")
	}
}

// runAll runs cases, each with a fixture of its own.
func runAll(t *testing.T, cases []testCase, wrap func(*testing.T, func(*testing.T)), open func(testing.TB) *fixture) {
	t.Helper()
	if wrap == nil {
		wrap = func(t *testing.T, test func(t *testing.T)) { test(t) }
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			wrap(t, func(t *testing.T) { c.run(t, open) })
		})
	}
}

func (c testCase) run(t testing.TB, open func(testing.TB) *fixture) {
	// Deferred instead of a Cleanup, so that the rule is printed next to the failure.
	defer func() {
		if t.Failed() {
			t.Logf("the rule: %s", c.rule)
		}
	}()
	c.test(open(t))
}

func allCases() []testCase {
	return slices.Concat(
		claimCases, takeOverCases, digestCases, requestCases, completeCases, releaseCases, extendCases, expiryCases, callerCases, fencingCases,
		contentCases, concurrentCases, inspectorCases, listCases, decideCases, stepCases, releasedCases,
		rememberCases, originCases, refusedCases,
	)
}
