package core_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

var ortiz = core.ByHand{Operator: "m.ortiz", Reason: "INC-2291"}

func inspectorOf(t *testing.T, s *service) *core.Inspector {
	t.Helper()
	i, err := s.Inspector()
	testkit.Must(t, err)
	return i
}

// uncertain leaves the key abandoned at once.
func uncertain(w http.ResponseWriter, r *http.Request) {
	failure.MarkUncertain(r.Context(), "the provider timed out")
	http.Error(w, "", http.StatusBadGateway)
}

var retryOfPayment = core.Retry{
	Scope: "alice", Method: http.MethodPost, Target: "/payments", Key: `"k1"`,
	Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(payment),
}

// keyOfPayment is the storage key of a post with the key k1.
func keyOfPayment(s *service) string {
	return s.StorageKey("alice", http.MethodPost, "/payments", "k1")
}

func TestSettledByHand(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		confirmation storage.Confirmation
		code         string // of the next response; "" for a run
	}{{storage.Happened, problem.NotReplayable}, {storage.DidNotHappen, ""}} {
		s := newService(t, memstore.New(), uncertain, policy.OnAbandoned(policy.Refuse))
		s.post(t.Context(), "k1", payment)
		i := inspectorOf(t, s)
		testkit.Fails(t, "Settle of another attempt", i.Settle(t.Context(), keyOfPayment(s), 2, test.confirmation, ortiz), storage.ErrNotAbandoned)
		s.wantEvent(t, event.SettledByHand, 0)
		testkit.Must(t, i.Settle(t.Context(), keyOfPayment(s), 1, test.confirmation, ortiz))
		last := s.events.last()
		if last.Result != event.SettledByHand || last.Operator != "m.ortiz" || last.Reason != "INC-2291" || last.Record != keyOfPayment(s) || last.Attempt != 1 {
			t.Errorf("the event is %+v, want one with the operator, the reason, the record and the attempt", last)
		}
		if w := s.post(t.Context(), "k1", payment); test.code != "" {
			wantCode(t, w, http.StatusConflict, test.code)
		} else {
			s.wantRuns(t, 2)
		}
	}
}

func TestChangesByHandNameTheirAuthor(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(), uncertain)
	s.post(t.Context(), "k1", payment)
	i, key := inspectorOf(t, s), keyOfPayment(s)
	for _, by := range []core.ByHand{{}, {Operator: "m.ortiz", Reason: " "}, {Reason: "INC-2291"}, {Operator: "m.ortiz", Reason: strings.Repeat("x", core.MaxReason+1)}} {
		if err := i.Settle(t.Context(), key, 1, storage.Happened, by); err == nil {
			t.Errorf("Settle by %+v is accepted", by)
		}
		if _, err := i.Forget(t.Context(), key, 1, storage.RerunIsSafe, by); err == nil {
			t.Errorf("Forget by %+v is accepted", by)
		}
	}
	if _, err := i.Reveal(t.Context(), key, core.ByHand{Reason: "INC-2291"}); err == nil {
		t.Error("Reveal without a name is accepted")
	}
}

func TestForgottenByHand(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(), created)
	s.post(t.Context(), "k1", payment)
	i, key := inspectorOf(t, s), keyOfPayment(s)
	if _, err := i.Forget(t.Context(), key, 2, storage.RerunIsSafe, ortiz); !errors.Is(err, storage.ErrNotAbandoned) {
		t.Errorf("another attempt than the record's: %v, want %v", err, storage.ErrNotAbandoned)
	}
	if removed, err := i.Forget(t.Context(), key, 1, storage.RerunIsSafe, ortiz); !removed || err != nil {
		t.Fatalf("Forget returned %t, %v", removed, err)
	}
	s.wantEvent(t, event.Forgotten, 1)
	if removed, err := i.Forget(t.Context(), key, 1, storage.RerunIsSafe, ortiz); removed || err != nil {
		t.Errorf("Forget of no record returned %t, %v", removed, err)
	}
	s.wantEvent(t, event.Forgotten, 1)
	wantFirst(t, s.post(t.Context(), "k1", payment))
}

func TestRunningKeysAreNotChangedByHand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, finish := memstore.New(), make(chan struct{})
		s := newService(t, store, createdOnce(finish), policy.Wait(time.Minute))
		go s.post(t.Context(), "k1", payment)
		synctest.Wait()
		for _, process := range []*service{s, newService(t, store, created)} { // the holder, and another process
			i := inspectorOf(t, process)
			if _, err := i.Forget(t.Context(), keyOfPayment(s), 1, storage.RerunIsSafe, ortiz); !errors.Is(err, core.ErrStillRunning) {
				t.Errorf("Forget returned %v, want %v", err, core.ErrStillRunning)
			}
			testkit.Fails(t, "Settle", i.Settle(t.Context(), keyOfPayment(s), 1, storage.Happened, ortiz), storage.ErrNotAbandoned)
		}
		go s.post(t.Context(), "k1", payment)
		advance(time.Second)
		if all := s.Running(); len(all) != 1 || all[0].Waiting != 1 || all[0].Record != keyOfPayment(s) || all[0].Attempt != 1 ||
			all[0].For != time.Second || all[0].LeaseLeft <= 0 || all[0].Unsettled != 0 {
			t.Errorf("the runs are %+v, want one on which a request waits", all)
		}
		close(finish)
		synctest.Wait()
		testkit.Equal(t, len(s.Running()), 0, "runs after the end")
	})
}

func TestWaitingResponsesAreShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		s := newService(t, struct {
			*faultyStore
			storage.Inspector
		}{store, store.Store.(storage.Inspector)}, created)
		store.set(&store.complete)(failUnapplied)
		s.post(t.Context(), "k1", payment)
		advance(10 * time.Second)
		all := s.Running()
		if len(all) != 1 || all[0].Unsettled < 9*time.Second {
			t.Fatalf("the runs are %+v, want one that waits for the store", all)
		}
		store.set(&store.extend)(failUnapplied)
		advance(time.Minute) // the lease has ended, and this process still has the response
		i, key := inspectorOf(t, s), keyOfPayment(s)
		testkit.Fails(t, "Settle", i.Settle(t.Context(), key, 1, storage.DidNotHappen, ortiz), storage.ErrNotAbandoned)
		_, err := i.Forget(t.Context(), key, 1, storage.RerunIsSafe, ortiz)
		testkit.Fails(t, "Forget", err, core.ErrStillRunning)
		for n := range 1024 { // the default of WithMaxUnsettled
			s.post(t.Context(), fmt.Sprint("another", n), payment)
		}
		testkit.Fails(t, "Ready with 1,024 waiting responses", s.Ready(t.Context()), core.ErrUnavailable)
	})
}

func TestReady(t *testing.T) {
	t.Parallel()
	s := newService(t, checkedStore{memstore.New(), nil}, created)
	testkit.Must(t, s.Ready(t.Context()))
	broken := newService(t, checkedStore{memstore.New(), errStoreDown}, created)
	testkit.Fails(t, "Ready with a broken store", broken.Ready(t.Context()), errStoreDown)
	shutdown(t, s)
	testkit.Fails(t, "Ready after Shutdown", s.Ready(t.Context()), core.ErrUnavailable)
	if explained, err := inspectorOf(t, s).Explain(t.Context(), retryOfPayment); err != nil || explained.Code != problem.ShuttingDown {
		t.Errorf("after Shutdown a retry gets %+v, %v, want %s", explained.Outlook, err, problem.ShuttingDown)
	}
}

type checkedStore struct {
	*memstore.Store
	err error
}

func (s checkedStore) Check(context.Context) error { return s.err }

func TestRoutesAreKnown(t *testing.T) {
	t.Parallel()
	engine := engineOf(t, memstore.New())
	mux := http.NewServeMux()
	mux.Handle("POST /payments/{id}", engine.Handler(http.HandlerFunc(created), policy.TTLHours(48)))
	declared := engine.MustRoute()
	declared.Declare(core.Endpoint{Method: http.MethodPatch, Pattern: "/members/{id}"})

	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/payments/7", http.NoBody)
	r.Header.Set(core.KeyHeader, "k1")
	testkit.Serve(mux, r)

	routes := engine.Routes()
	if len(routes) != 2 {
		t.Fatalf("the engine has %d routes, want 2", len(routes))
	}
	for n, want := range []string{"POST /payments/{id}", "PATCH /members/{id}"} {
		if got := routes[n].Endpoints(); len(got) != 1 || got[0].String() != want {
			t.Errorf("route %d serves %v, want %s", n, got, want)
		}
	}
	if p := routes[0].Policy(); p.TTL != 48*time.Hour || routes[0].Observes() {
		t.Errorf("the first route's policy is %q", p.String())
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	finished := newService(t, memstore.New(), created)
	finished.post(t.Context(), "k1", payment)
	for _, test := range []struct {
		name  string
		s     *service
		route []policy.Option
		edit  func(*core.Retry)
		want  core.Outlook
	}{
		{"the same", finished, nil, func(*core.Retry) {}, core.Outlook{Result: event.Replay, Status: 201}},
		{"another key", finished, nil, func(r *core.Retry) { r.Key = "k2" }, core.Outlook{Result: event.Execute}},
		{"another amount", finished, nil, func(r *core.Retry) { r.Body = []byte(`{"amount":1}`) }, core.Outlook{Result: event.KeyReused, Code: problem.KeyReused, Status: 422}},
		{"a key of another format", finished, []policy.Option{policy.KeyFormat(policy.UUIDKey)}, func(*core.Retry) {}, core.Outlook{Result: event.Refused, Code: problem.KeyInvalid, Status: 400}},
		{"a large body", finished, []policy.Option{policy.MaxRequestBytes(2)}, func(*core.Retry) {}, core.Outlook{Result: event.Refused, Code: problem.BodyTooLarge, Status: 413}},
	} {
		retry := retryOfPayment
		retry.Route = test.s.MustRoute(test.route...)
		test.edit(&retry)
		explained, err := inspectorOf(t, test.s).Explain(t.Context(), retry)
		if err != nil || explained.Outlook != test.want {
			t.Errorf("%s: %+v, %v, want %+v", test.name, explained.Outlook, err, test.want)
		}
	}
	finished.wantRuns(t, 1)
}

// A retry of a tool's call has the tool's name as its target.
func TestExplainATool(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(), created)
	route := s.MustRoute(policy.Methods(storage.MethodTool))
	call := newPost(t.Context(), "k1", payment)
	call.Method, call.URL, call.RequestURI = storage.MethodTool, &url.URL{Path: "charge"}, ""
	s.Serve(httptest.NewRecorder(), call, route, http.HandlerFunc(created))
	for body, want := range map[string]event.Result{`{"amount":100.0}`: event.Replay, `{"amount":1}`: event.KeyReused} {
		retry := retryOfPayment
		retry.Route, retry.Method, retry.Target, retry.Body = route, storage.MethodTool, "charge", []byte(body)
		if explained, err := inspectorOf(t, s).Explain(t.Context(), retry); err != nil || explained.Result != want {
			t.Errorf("%s: %+v, %v, want %s", body, explained.Outlook, err, want)
		}
	}
}

func TestExplainComparesMembers(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(), created)
	s.post(t.Context(), "k1", `{"amount":100,"card":"tok","gone":1}`)
	retry := retryOfPayment
	retry.Body = []byte(`{"amount":1,"card":"tok"}`)
	explained, err := inspectorOf(t, s).Explain(t.Context(), retry)
	if err != nil || !explained.Sketched || !slices.Equal(explained.Differs, []string{"amount"}) ||
		!slices.Equal(explained.Same, []string{"card"}) || explained.Missing != 1 || explained.Found == nil || explained.Record != keyOfPayment(s) {
		t.Errorf("got %+v, %v", explained, err)
	}
	retry.Target = "payments"
	if _, err := inspectorOf(t, s).Explain(t.Context(), retry); err == nil {
		t.Error("a target without a slash is accepted")
	}
}

// The outlook of an abandoned key is the decision that the engine then makes.
func TestOutlookOfAbandonedKeys(t *testing.T) {
	t.Parallel()
	recovers := policy.Recover(func(context.Context, policy.Abandoned) (*policy.Response, error) { return nil, nil })
	for _, test := range []struct {
		mode policy.AbandonedMode
		want core.Outlook
	}{
		{policy.Refuse, core.Outlook{Result: event.OutcomeUnknown, Code: problem.OutcomeUnknown, Status: 409}},
		{policy.Reexecute, core.Outlook{Result: event.Execute}},
		{recovers, core.Outlook{Result: event.Execute, Recovers: true}},
	} {
		s := newService(t, memstore.New(), uncertain, policy.OnAbandoned(test.mode))
		s.post(t.Context(), "k1", payment)
		i := inspectorOf(t, s)
		record, err := i.Lookup(t.Context(), keyOfPayment(s))
		if err != nil || record == nil {
			t.Fatalf("the record is %v, %v", record, err)
		}
		testkit.Equal(t, i.Outlook(record, s.Routes()[0]), test.want, "%s: the outlook", test.mode)
		testkit.Equal(t, i.Outlook(record, nil), core.Outlook{}, "%s: without a policy, the outlook", test.mode)
		s.post(t.Context(), "k1", payment)
		if test.want.Result == event.Execute {
			s.wantRuns(t, 2)
		} else {
			s.wantRuns(t, 1)
		}
	}
}

func TestStepsOfARecord(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
		for _, step := range []struct {
			name string
			err  error
		}{{"reserve", nil}, {"charge", nil}, {"ship", failure.Uncertain(errBroken)}} {
			_, err := core.Step(r.Context(), step.name, func(context.Context) (string, error) { return "secret", step.err })
			if err != nil {
				w.WriteHeader(http.StatusBadGateway)
			}
		}
	}, policy.OnAbandoned(policy.Refuse))
	s.post(t.Context(), "k1", payment)
	i := inspectorOf(t, s)
	record, err := i.Lookup(t.Context(), keyOfPayment(s))
	if err != nil || record == nil {
		t.Fatalf("the record is %v, %v", record, err)
	}
	steps, err := i.Steps(record)
	if want := []core.StepState{{"charge", true}, {"reserve", true}, {"ship", false}}; err != nil || !slices.Equal(steps, want) {
		t.Errorf("the steps are %v, %v, want %v", steps, err, want)
	}
	if none, err := i.Steps(nil); len(none) != 0 || err != nil { // the record of a key without one
		t.Errorf("without a record the steps are %v and %v", none, err)
	}
	if _, err := i.Steps(&storage.Record{Steps: "no steps"}); !errors.Is(err, storage.ErrCorruptRecord) {
		t.Errorf("steps of another form: %v, want %v", err, storage.ErrCorruptRecord)
	}
}
