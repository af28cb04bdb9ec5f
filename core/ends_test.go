package core_test

import (
	"context"
	"net/http"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// endings are the results that end a run: always, or where the event says so.
var endings = map[event.Result]string{
	event.Completed: "always", event.Failed: "always", event.Unreplayable: "always", event.DeleteKey: "always",
	event.Retryable: "always", event.Uncertain: "always", event.ResponseLost: "always", event.RecoverError: "always", event.Reconciled: "always",
	event.LeaseLost: "if final", event.StoreError: "if final", event.CallbackPanicked: "if final",
}

func TestWhichResultsEndTheirRun(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("event/event.go")
	testkit.Must(t, err)
	results := regexp.MustCompile(`(?m)^\t\w+\s+Result = "(\w+)"`).FindAllSubmatch(source, -1)
	if len(results) < 25 {
		t.Fatalf("found %d results in event.go", len(results))
	}
	for _, result := range results {
		for _, final := range []bool{false, true} {
			happened := event.Event{Result: event.Result(result[1]), Final: final}
			ending := endings[happened.Result]
			testkit.Equal(t, happened.Ends(), ending == "always" || ending == "if final" && final, "%s with Final %t: Ends", result[1], final)
		}
	}
}

// One event ends each run, and it is the last one of the run.
func TestOneEventEndsARun(t *testing.T) {
	t.Parallel()
	slow := func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		created(w, r)
	}
	lose := failing(storage.ErrLeaseLost)
	type row struct {
		handle  http.HandlerFunc
		options []policy.Option
		faults  func(*faultyStore)
		crashed bool // before the run
		ends    event.Result
	}
	testkit.EachInBubble(t, map[string]row{
		"completed":          {handle: created, ends: event.Completed},
		"failed":             {handle: responding(http.StatusConflict), ends: event.Failed},
		"streamed":           {handle: streaming, ends: event.Unreplayable},
		"released":           {handle: responding(http.StatusBadGateway), ends: event.DeleteKey},
		"retryable":          {handle: func(_ http.ResponseWriter, r *http.Request) { failure.MarkRetryable(r.Context()) }, ends: event.Retryable},
		"uncertain":          {handle: responding(http.StatusBadGateway), options: []policy.Option{policy.Uncertain("5xx")}, ends: event.Uncertain},
		"panic":              {handle: func(http.ResponseWriter, *http.Request) { panic("a bug") }, ends: event.DeleteKey},
		"misjudged":          {handle: created, options: []policy.Option{policy.Classifier(func(failure.Outcome) failure.Class { panic("a bug") })}, ends: event.Completed},
		"too long":           {handle: slow, options: []policy.Option{policy.MaxRun(time.Second)}, ends: event.Completed},
		"lost":               {handle: slow, faults: func(s *faultyStore) { s.extend, s.complete = lose, lose }, ends: event.LeaseLost},
		"lost late":          {handle: created, faults: func(s *faultyStore) { s.complete = lose }, ends: event.LeaseLost},
		"lost early":         {handle: slow, faults: func(s *faultyStore) { s.extend = lose }, ends: event.Completed},
		"deferred":           {handle: created, faults: func(s *faultyStore) { s.complete = failingOnce(errStoreDown) }, ends: event.Completed},
		"deferred and lost":  {handle: created, faults: func(s *faultyStore) { s.complete = failUnapplied }, ends: event.ResponseLost},
		"release lost":       {handle: responding(http.StatusBadGateway), faults: func(s *faultyStore) { s.release = failUnapplied }, ends: event.StoreError},
		"release overtaken":  {handle: responding(http.StatusBadGateway), faults: func(s *faultyStore) { s.release = thenLost() }, ends: event.LeaseLost},
		"recovered":          {handle: created, crashed: true, options: []policy.Option{recovering(&policy.Response{Status: 201}, nil)}, ends: event.Completed},
		"recovered to run":   {handle: created, crashed: true, options: []policy.Option{recovering(nil, nil)}, ends: event.Completed},
		"not recovered":      {handle: created, crashed: true, options: []policy.Option{recovering(nil, errStoreDown)}, ends: event.RecoverError},
		"not even abandoned": {handle: created, crashed: true, options: []policy.Option{recovering(nil, errStoreDown)}, faults: func(s *faultyStore) { s.extend = failUnapplied }, ends: event.RecoverError},
		"recovery panics": {handle: created, crashed: true, options: []policy.Option{policy.OnAbandoned(policy.Recover(
			func(context.Context, policy.Abandoned) (*policy.Response, error) { panic("a bug") }))}, ends: event.CallbackPanicked},
		"observed": {handle: created, options: []policy.Option{policy.ObserveOnly(true)}, ends: event.Completed},
	}, func(t *testing.T, c row) {
		store := newFaultyStore()
		if c.crashed {
			crash(t, store)
			advance(time.Second)
		}
		if c.faults != nil {
			c.faults(store)
		}
		s := newService(t, store, c.handle, c.options...)
		recovered(func() { s.post(t.Context(), "k", payment) })
		advance(2 * time.Hour) // the settle budget is one hour
		s.events.wantEnd(t, c.ends)
	})
}

// thenLost fails once and then reports a lost lease.
func thenLost() func(func() error) error {
	tries := 0
	return func(func() error) error {
		if tries++; tries == 1 {
			return errStoreDown
		}
		return storage.ErrLeaseLost
	}
}

// wantEnd expects one event that ends its run, for each of these results, in order.
func (e *events) wantEnd(t *testing.T, want ...event.Result) {
	t.Helper()
	var ends []event.Result
	for _, happened := range e.seen() {
		if happened.Ends() {
			ends = append(ends, happened.Result)
		}
	}
	testkit.EqualSlices(t, ends, want, "the events that end runs, of %v", e.results())
}

// A transaction that does not begin, or is not committed, ends in the release of its key.
func TestOneEventEndsATransaction(t *testing.T) {
	t.Parallel()
	rolledBack := failing(storage.ErrRolledBack)
	type row struct {
		begin, commit func(func() error) error
		ends          event.Result
	}
	testkit.EachInBubble(t, map[string]row{
		"committed":     {ends: event.Completed},
		"rolled back":   {commit: rolledBack, ends: event.DeleteKey},
		"not confirmed": {commit: failUnapplied, ends: event.DeleteKey},
		"not begun":     {begin: failUnapplied, ends: event.DeleteKey},
	}, func(t *testing.T, c row) {
		b := newBank()
		b.begin, b.commit = c.begin, c.commit
		s := newBankService(t, b, deposit)
		s.post(t.Context(), "k", payment)
		advance(time.Minute)
		s.events.wantEnd(t, c.ends)
	})
}
