package storetest

import (
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/core"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestModelPasses(t *testing.T) {
	t.Parallel()
	Run(t, Config{
		New:  func(testing.TB) core.Store { return newModel(none) },
		Wrap: synctest.Test,
	})
}

func TestModelPassesInRealTime(t *testing.T) {
	t.Parallel()
	Run(t, Config{New: func(testing.TB) core.Store { return newModel(none) }, Unit: 50 * time.Millisecond})
}

// brokenStore is a bug and the case that must find it; others may.
type brokenStore struct {
	name string
	bug  bug
	find string
}

func brokenStores() []brokenStore {
	return []brokenStore{
		{"attempts count from zero", countsFromZero, "first claim"},
		{"attempts count to two", countsToTwo, "take over again and again"},
		{"a finished key is claimed by its own token", ownFinishedReclaimed, "same token after completion"},
		{"a repeated Acquire never finds its own claim", ownClaimNotFound, "tight deadlines"},
		{"release does nothing", releaseDoesNothing, "release"},
		{"release insists on the lease", releaseOnlyInTime, "release after the lease ran out"},
		{"release of a released key", releaseOfReleased, "release of a later attempt again"},
		{"a released attempt expires with its claim", releasedKeepsExpiry, "a released attempt number is remembered"},
		{"extend does nothing", extendDoesNothing, "extend"},
		{"extend insists on the record", extendOnlyWhatIsKnown, "extend what the store forgot"},
		{"extend loses the holder", extendLosesHolder, "complete and release after extend"},
		{"acquire is not atomic", acquireNotAtomic, "concurrent claims"},
		{"taking over is not atomic", takeOverNotAtomic, "concurrent take-overs"},
		{"acquire is not atomic, at random", acquireNotAtomic, "exclusive holders"},
		{"taking over is not atomic, at random", takeOverNotAtomic, "random histories"},
		{"taking over a released key is not atomic", reclaimNotAtomic, "concurrent claims of a released key"},
		{"taken over before the lease ends", takeOverTooEarly, "no take-over before the lease ends"},
		{"taken over by another request", takeOverOfOtherRequest, "abandoned by another request"},
		{"taken over without TakeOver", takeOverUnasked, "abandoned without TakeOver"},
		{"a take-over keeps the attempt number", takeOverUncounted, "take over an abandoned key"},
		{"a take-over does not say so", takeOverUntold, "take over an abandoned key"},
		{"a repeated Acquire does not find its own claim", ownClaimNotFound, "same token again"},
		{"a repeated Acquire returns a lapsed lease", ownClaimNotRenewed, "same token again after its lease ran out"},
		{"a repeated take-over does not say so", ownTakeOverUntold, "same token again after taking over"},
		{"the asker's TTL decides", leaseOfTheAsker, "a lease lasts as its holder asked"},
		{"LeaseLeft is the record's time left", leaseLeftOfTheRecord, "second claim"},
		{"contention is an error", contentionIsAnError, "second claim"},
		{"complete ignores the token", completeWithoutToken, "complete too late"},
		{"complete is not atomic", completeNotAtomic, "concurrent completions"},
		{"complete ignores the token, at random", completeWithoutToken, "random histories"},
		{"complete insists on the lease", completeOnlyInTime, "complete after the lease ran out"},
		{"complete insists on the record", completeOnlyWhatIsKnown, "complete what the store forgot"},
		{"complete cannot be repeated", completeNotRepeatable, "complete again"},
		{"complete overwrites", completeOverwrites, "complete again"},
		{"the body is retained", bodyRetained, "nothing handed in is kept"},
		{"the header is retained", headerRetained, "nothing handed in is kept"},
		{"the header is sorted", headerSorted, "replay"},
		{"empty header values are dropped", emptyValueDropped, "replay"},
		{"the body ends at a NUL", bodyCutAtNUL, "replay"},
		{"an unreplayable body is kept", unreplayableKept, "unreplayable"},
		{"release ignores the token", releaseWithoutToken, "release too late"},
		{"release ignores the attempt number", releaseWithoutAttempt, "release of a claim that took over unknown to its holder"},
		{"release forgets the attempt number", releaseForgetsAttempt, "release of a later attempt"},
		{"a released key counts as taken over", releaseCountsAsTakenOver, "release of a later attempt"},
		{"a finished record can be released", releaseOfFinished, "release after completion"},
		{"release cannot be repeated", releaseNotRepeatable, "release again"},
		{"extend ignores the token", extendWithoutToken, "extend too late"},
		{"extend insists on the lease", extendOnlyInTime, "extend after the lease ran out"},
		{"extend adds to what is left", extendAddsUp, "extend by less"},
		{"a finished record can be extended", extendOfFinished, "extend after completion"},
		{"extend leaves the record to expire", extendKeepsExpiry, "a renewed claim is remembered"},
		{"records expire early", expiresEarly, "a finished record expires"},
		{"records never expire", expiresNever, "a finished record expires"},
		{"an answer is kept for the claim's Retain", retainOfTheClaim, "a result is kept for its own Retain"},
		{"abandoned records are forgotten", forgetsAbandoned, "an abandoned record is remembered"},
		{"the context is ignored", contextIgnored, "ended context"},
		{"the context's error is hidden", contextErrorHidden, "passed deadline"},
		{"all keys are one", oneKeyForAll, "independent keys"},
	}
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
			t.Errorf("case %q: nobody has seen it fail", c.name)
		}
	}
}

// fails runs a case against a broken store and reports whether it failed, and
// checks that it then said why.
func fails(t *testing.T, c testCase, b bug) bool {
	t.Helper()
	observed := &observer{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done) // FailNow ends the goroutine
		c.run(observed, Config{New: func(testing.TB) core.Store { return newModel(b) }})
	}()
	<-done
	if observed.failed && !observed.explained {
		t.Errorf("the case %q failed without its rule", c.name)
	}
	return observed.failed
}

// observer is a test that may fail without failing the one around it. It need
// not be safe for concurrent use: cases report from their own goroutine.
type observer struct {
	testing.TB
	failed, explained bool
}

func (o *observer) Error(...any)          { o.failed = true }
func (o *observer) Errorf(string, ...any) { o.failed = true }
func (o *observer) Fatal(...any)          { o.FailNow() }
func (o *observer) Fatalf(string, ...any) { o.FailNow() }
func (o *observer) Failed() bool          { return o.failed }
func (o *observer) Logf(string, ...any)   { o.explained = true }

func (o *observer) FailNow() {
	o.failed = true
	runtime.Goexit()
}
