package storetest

import (
	"context"
	"runtime"
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

// A busy machine delays each reply by several units.
func TestSuiteIsPatient(t *testing.T) {
	t.Parallel()
	Run(t, Config{New: func(testing.TB) storage.Store { return late{newModel(none).(*model)} }, Wrap: synctest.Test})
}

// A store that locks in the process passes alone, and not at two processes.
func TestLockOfOneProcess(t *testing.T) {
	t.Parallel()
	for _, processes := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			m, stores := newModel(acquireNotAtomic).(*model), []storage.Store{}
			for range processes {
				stores = append(stores, locked{m, make(chan struct{}, 1)})
			}
			broken := fails(t, concurrentCases[0], Config{New: func(testing.TB) storage.Store { return Processes(stores...) }}.open)
			if broken != (processes == 2) {
				t.Errorf("at %d processes the suite has found a fault: %t", processes, broken)
			}
		})
	}
	Run(t, Config{New: func(testing.TB) storage.Store { m := newModel(none); return Processes(m, m) }, Wrap: synctest.Test})
}

type locked struct {
	*model
	lock chan struct{}
}

func (l locked) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	l.lock <- struct{}{}
	defer func() { <-l.lock }()
	return l.model.Acquire(ctx, request)
}

type late struct{ *model }

func reply(ctx context.Context) { pause(ctx, 4*defaultUnit) }

func (l late) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	defer reply(ctx)
	return l.model.Acquire(ctx, request)
}

func (l late) Complete(ctx context.Context, lease storage.Lease, result storage.Result) error {
	defer reply(ctx)
	return l.model.Complete(ctx, lease, result)
}

func (l late) Release(ctx context.Context, lease storage.Lease) error {
	defer reply(ctx)
	return l.model.Release(ctx, lease)
}

func (l late) Extend(ctx context.Context, lease storage.Lease, ttl time.Duration) error {
	defer reply(ctx)
	return l.model.Extend(ctx, lease, ttl)
}

// suites are the cases, the bugs that they must find, and a store with a bug.
var suites = []struct {
	cases []testCase
	bugs  map[string][]bug
	open  func(b bug) func(t testing.TB) *fixture
}{
	{allCases(), storeBugs, func(b bug) func(testing.TB) *fixture {
		return Config{New: func(testing.TB) storage.Store { return newModel(b) }}.open
	}},
	{limiterCases, limiterBugs, func(b bug) func(testing.TB) *fixture {
		return Config{New: func(testing.TB) storage.Store { return newLimitModel(b) }}.open
	}},
	{transactorCases, transactorBugs, func(b bug) func(testing.TB) *fixture {
		return TransactorConfig{New: func(testing.TB) (storage.Transactor, Table) { return newTxModel(b) }}.open
	}},
}

// Every way to break the contract is found by the case that is about it. Every case has a name of its own, a rule, and a
// bug.
func TestSuiteFindsEveryBug(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range suites {
		for _, c := range s.cases {
			if c.rule == "" || seen[c.name] || len(s.bugs[c.name]) == 0 {
				t.Errorf("case %q: it needs a name of its own, a rule, and a bug that makes it fail", c.name)
			}
			seen[c.name] = true
			for _, b := range s.bugs[c.name] {
				t.Run(c.name+"/"+string(b), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						for range 5 { // which of concurrent callers comes first is chance
							if fails(t, c, s.open(b)) {
								return
							}
						}
						t.Errorf("the case %q does not find it", c.name)
					})
				})
			}
		}
		for name := range s.bugs {
			if !seen[name] {
				t.Errorf("there is no case %q", name)
			}
		}
	}
}

// fails runs a case against a broken store and reports whether it failed, and
// checks that it then said why.
func fails(t *testing.T, c testCase, open func(testing.TB) *fixture) bool {
	t.Helper()
	observed := &observer{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done) // FailNow ends the goroutine
		c.run(observed, open)
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
