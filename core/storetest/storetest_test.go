package storetest

import (
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/core/storage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestModelPasses(t *testing.T) {
	t.Parallel()
	Run(t, Config{
		New:  func(testing.TB) storage.Store { return newModel(none) },
		Wrap: synctest.Test,
	})
}

func TestModelPassesInRealTime(t *testing.T) {
	t.Parallel()
	Run(t, Config{New: func(testing.TB) storage.Store { return newModel(none) }, Unit: 300 * time.Millisecond})
}

// Every way to break the contract is found by the case that is about it.
func TestSuiteFindsEveryBug(t *testing.T) {
	t.Parallel()
	for _, test := range brokenStores() {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(allCases(), func(c testCase) bool { return c.name == test.find })
			synctest.Test(t, func(t *testing.T) {
				if !fails(t, allCases()[i], test.bug) {
					t.Errorf("the case %q does not find it", test.find)
				}
			})
		})
	}
}

func TestEveryCaseHasItsBug(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range allCases() {
		if c.name == "" || c.rule == "" || seen[c.name] {
			t.Errorf("case %q: it needs a name of its own, and a rule", c.name)
		}
		seen[c.name] = true
		if !slices.ContainsFunc(brokenStores(), func(broken brokenStore) bool { return broken.find == c.name }) {
			t.Errorf("case %q: no bug makes it fail", c.name)
		}
	}
}

// fails runs a case against a broken store and reports whether it failed, and
// checks that it then said why.
func fails(t *testing.T, c testCase, b bug) bool {
	t.Helper()
	return failsOver(t, c, func() storage.Store { return newModel(b) })
}

func failsOver(t *testing.T, c testCase, open func() storage.Store) bool {
	t.Helper()
	observed := &observer{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done) // FailNow ends the goroutine
		c.run(observed, Config{New: func(testing.TB) storage.Store { return open() }})
	}()
	<-done
	if observed.failed.Load() && !observed.explained.Load() {
		t.Errorf("the case %q failed without its rule", c.name)
	}
	return observed.failed.Load()
}

// observer is a test that may fail without failing the one around it. A store may report
// from a goroutine of its own, when it asks for a claim too late.
type observer struct {
	testing.TB
	failed, explained atomic.Bool
}

func (o *observer) Error(...any)          { o.failed.Store(true) }
func (o *observer) Errorf(string, ...any) { o.failed.Store(true) }
func (o *observer) Fatal(...any)          { o.FailNow() }
func (o *observer) Fatalf(string, ...any) { o.FailNow() }
func (o *observer) Failed() bool          { return o.failed.Load() }
func (o *observer) Logf(string, ...any)   { o.explained.Store(true) }

func (o *observer) FailNow() {
	o.failed.Store(true)
	runtime.Goexit()
}
