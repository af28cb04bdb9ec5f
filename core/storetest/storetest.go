// Package storetest is the conformance suite of [storage.Store]. A new store starts
// by passing it:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.Config{
//			New: func(t testing.TB) storage.Store { return mystore.New(emptyDatabase(t)) },
//		})
//	}
//
// Each case is a subtest with a fresh store, and all of them run in parallel. A
// case that fails prints the rule of the contract that the store has broken. The
// cases about [storage.Inspector] are skipped for a store that does not implement it.
//
// What the suite does not test: what a store does when its server is full, slow,
// cut off or restarted, and what it makes of values that it did not write. Every
// store fails in a way of its own there.
package storetest

import (
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// defaultUnit suits a server on the same machine.
const defaultUnit = 200 * time.Millisecond

// Config says how to test a store.
type Config struct {
	// New returns a store without records. Each case calls it once. It may clean
	// up with t.Cleanup. Required.
	New func(t testing.TB) storage.Store

	// Unit is the length of the short leases: cases let leases of one unit run
	// out, and expect leases of a hundred to last while they work. It has to be a
	// good deal longer than a call takes on the slowest machine that runs the
	// tests. Zero means 200 ms.
	Unit time.Duration

	// Wrap runs the body of a case. A store that needs nothing but this process
	// runs it in a bubble, where waiting takes no time:
	//
	//	Wrap: synctest.Test
	//
	// Nil means that the body is called as it is.
	Wrap func(t *testing.T, test func(t *testing.T))
}

// testCase is one rule of the contract.
type testCase struct {
	name string
	// rule is printed when the case fails: what a store must do, and why.
	rule string
	test func(f *fixture)
}

// Run runs every case against a store of its own.
func Run(t *testing.T, config Config) {
	t.Helper()
	for _, c := range allCases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if config.Wrap == nil {
				c.run(t, config)
				return
			}
			config.Wrap(t, func(t *testing.T) {
				c.run(t, config)
			})
		})
	}
}

func (c testCase) run(t testing.TB, config Config) {
	unit := config.Unit
	if unit <= 0 {
		unit = defaultUnit
	}
	// Deferred rather than a Cleanup, so that the rule stands next to the failure.
	defer func() {
		if t.Failed() {
			t.Logf("the rule: %s", c.rule)
		}
	}()
	c.test(&fixture{TB: t, store: config.New(t), unit: unit})
}

func allCases() []testCase {
	var all []testCase
	for _, group := range [][]testCase{
		claimCases, takeOverCases, digestCases, completeCases, releaseCases, extendCases, expiryCases, callerCases, fencingCases,
		contentCases, concurrentCases, inspectorCases, waitCases,
	} {
		all = append(all, group...)
	}
	return all
}
