package inspector_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/adapters/inspector"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// question is the form that explains a payment.
func question(key, body string) url.Values {
	return url.Values{"key": {key}, "scope": {"alice"}, "target": {"POST /payments"}, "type": {"application/json"}, "body": {body}}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	s.fill()
	s.pay("released", "release")
	text := question("done", "amount=1")
	text.Set("type", "text/plain")
	for name, test := range map[string]struct {
		form                 url.Values
		result, says, remark string
	}{
		"a replay":             {question("done", payment), "replay", "The stored response is sent again: 201 Created The request repeats the record's first request, which ended with 201", ""},
		"an excluded member":   {question("done", `{"amount":4200,"order":"o-1","nonce":2}`), "replay", "", ""},
		"no record":            {question("new", payment), "execute", "The handler would run There is no record", ""},
		"in flight":            {question("slow", payment), "in_progress", "409 Conflict, in_progress Attempt 1 is in flight", ""},
		"abandoned":            {question("abandoned", payment), "outcome_unknown", "409 Conflict, outcome_unknown Attempt 1 was abandoned", "it has no result"},
		"released":             {question("released", payment), "execute", "Attempt 1 recorded a step, and then released the key", "it has no result"},
		"another amount":       {question("done", `{"amount":1,"order":"o-1"}`), "key_reused", "key_reused The record's first request had another payload: 1 member differs", ""},
		"not JSON":             {question("done", `amount=1`), "key_reused", "had another payload", "not JSON"},
		"text":                 {text, "key_reused", "had another payload", ""},
		"too large":            {question("done", strings.Repeat("x", 1<<20+1)), "refused", "The engine refuses the request before it asks the store", "not JSON"},
		"an unknown path":      {url.Values{"key": {"k"}, "scope": {"alice"}, "target": {"POST /nowhere"}}, "execute", "", "choose the route"},
		"another route's path": {url.Values{"key": {"k"}, "scope": {"alice"}, "target": {"POST /refunds/7"}, "route": {"POST /refunds/{id}"}}, "execute", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			x := read[inspector.Explanation](s, s.post("/explain", test.form, acceptsJSON...), http.StatusOK)
			if x.Outlook.Result != test.result || test.remark == "" != (len(x.Remarks) == 0) || !strings.Contains(strings.Join(x.Remarks, " "), test.remark) {
				t.Errorf("the retry gets %+v, with the remarks %q", x.Outlook, x.Remarks)
			}
			if says := x.Headline + " " + x.Story; !strings.Contains(says, test.says) {
				t.Errorf("the page says %q, want %q", says, test.says)
			}
		})
	}
	s.wantPage(s.get("/explain"), http.StatusOK, "Paste a retry", "<option>POST /payments")
	s.wantPage(s.post("/explain", question("a,b", payment)), http.StatusBadRequest, "not valid")
	testkit.Abort(s.engine)
	s.wantPage(s.post("/explain", question("new", payment)), http.StatusOK, "shutting_down", "This process takes no new keys at the moment.")
}

// Of several routes that can serve a path, routers take the one that names most of it.
func TestExplainTakesTheClosestRoute(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	for _, pattern := range []string{"/orders/*", "/orders/{rest...}", "/orders/{id}", "/orders/new"} {
		s.engine.MustRoute().Declare(core.Endpoint{Method: "POST", Pattern: pattern})
	}
	for path, want := range map[string]string{"/orders/new": "/orders/new", "/orders/7": "/orders/{id}", "/orders/7/items": "/orders/*"} {
		x := read[inspector.Explanation](s, s.post("/explain", url.Values{"key": {"k"}, "target": {"POST " + path}}, acceptsJSON...), http.StatusOK)
		testkit.Equal(t, x.Endpoint, "POST "+want, "the route that explains %s", path)
	}
}

func TestExplainNamesWhatItDoesNotAsk(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	s.engine.MustRoute(policy.Methods("PUT"), policy.KeyField("id"), policy.SkipIf(func(*http.Request) bool { return true })).
		Declare(core.Endpoint{Method: "POST", Pattern: "/orders"})
	x := read[inspector.Explanation](s, s.post("/explain", url.Values{"key": {"k"}, "target": {"POST /orders"}}, acceptsJSON...), http.StatusOK)
	for i, says := range []string{"does not guard POST", "SkipIf", "whose id is not the key"} {
		if len(x.Remarks) != 3 || !strings.Contains(x.Remarks[i], says) {
			t.Errorf("the remarks are %q, want one with %q", x.Remarks, says)
		}
	}
}

// A browser sends the line ends of a pasted body as CRLF, whatever they were.
func TestExplainLines(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	for key, body := range map[string]string{"lf": "two\nlines", "crlf": "two\r\nlines"} {
		s.request("/payments", key, "", body)
		x := read[inspector.Explanation](s, s.post("/explain", question(key, "two\r\nlines"), acceptsJSON...), http.StatusOK)
		testkit.Equal(t, x.Outlook.Result, "replay", "the result for a first request with %q", body)
		x = read[inspector.Explanation](s, s.post("/explain", question(key, "two\r\nmore lines"), acceptsJSON...), http.StatusOK)
		testkit.Equal(t, x.Outlook.Result, "key_reused", "the result for another body than %q", body)
	}
}

func TestExplainNamesMembers(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	s.request("/payments", "k1", "", `{"amount":4200,"order":"o-1","sentAt":"10:00","gone":1}`)
	form := question("k1", `{"amount":1,"order":"o-1","sentAt":"10:01"}`)
	x := read[inspector.Explanation](s, s.post("/explain", form, acceptsJSON...), http.StatusOK)
	var members []string
	for _, one := range x.Members {
		advice, _, _ := strings.Cut(one.Advice, ":")
		members = append(members, one.Name+" "+advice)
	}
	want := "amount Another operation, sentAt Looks like a clock or a number of the attempt. If it may change in a retry, order "
	if got := strings.Join(members, ", "); got != want || x.Missing != 1 || x.Endpoint != "POST /payments" {
		t.Errorf("the members are %q and %d missing ones on %s, want %q and 1", got, x.Missing, x.Endpoint, want)
	}
	s.wantPage(s.post("/explain", form), http.StatusOK, "422 Unprocessable Entity, key_reused", "3 members differ.", "ExcludeFields=sentAt", "Against the record")
}

func TestRunningHere(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	s.wantPage(s.get("/running"), http.StatusOK, "Nothing runs")
	s.fill()
	process := read[inspector.Process](s, s.get("/running", acceptsJSON...), http.StatusOK)
	if len(process.Runs) != 1 || process.Runs[0].Record != s.id("slow") || process.Runs[0].Endpoint != "POST /payments" || process.NotReady != "" || process.Instance != "pod-1" {
		t.Errorf("the process is %+v", process)
	}
	s.wantPage(s.get("/running"), http.StatusOK, s.id("slow"), "in flight")
}

func TestRoutesAreCounted(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New())
	s.wantPage(s.get("/routes"), http.StatusOK, "no request yet", "the defaults")
	s.engine.MustRoute().Declare(core.Endpoint{Method: http.MethodPatch, Pattern: "/members/{id}"}) // as the adapters do for a table and for tags
	s.wantPage(s.get("/routes"), http.StatusOK, "<div>PATCH /members/{id}</div>")
	s.fill()
	s.pay("done", "")
	s.request("/payments", "done", "", `{"amount":1}`)
	s.pay("slow", "")
	routes := read[inspector.Routes](s, s.get("/routes", acceptsJSON...), http.StatusOK)
	one := routes.Routes[0]
	if one.First != 3 || one.Replays != 1 || one.Conflicts != 1 || one.Reused != 1 || one.Failures != 1 || one.OnStoreError != "FailClosed" || len(one.Endpoints) != 1 {
		t.Errorf("the route is %+v", one)
	}
}

// hangingCheck is a store whose Check does not return, for example because of its key service.
type hangingCheck struct{ *memstore.Store }

func (hangingCheck) Check(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (hangingCheck) Examine(ctx context.Context) []storage.Finding {
	return []storage.Finding{{Check: "time left", Grade: storage.Good, Seen: fmt.Sprint(ctx.Err())}}
}

// frozen is a store whose server does not respond.
type frozen struct{ *memstore.Store }

func (frozen) Lookup(ctx context.Context, _ string) (*storage.Record, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (frozen) List(ctx context.Context, _ storage.Filter, _ storage.Page) (storage.Listing, error) {
	<-ctx.Done()
	return storage.Listing{}, ctx.Err()
}

// A browser, and the command with its 30 seconds, are told that the store does not respond.
func TestFrozenStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, frozen{memstore.New()})
		for _, path := range []string{"/", "/records/" + s.id("k1")} {
			begin := time.Now()
			s.wantPage(s.get(path), http.StatusServiceUnavailable, "The store has failed")
			if took := time.Since(begin); took > 20*time.Second {
				t.Errorf("%s took %s", path, took)
			}
		}
	})
}

func TestDoctorOfACheckThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, hangingCheck{memstore.New()})
		doctor := read[inspector.Doctor](s, s.get("/doctor", acceptsJSON...), http.StatusOK)
		if doctor.Findings[0].Grade != "mend" || doctor.Findings[1].Seen != "<nil>" {
			t.Errorf("the findings are %+v, want time for all of them", doctor)
		}
	})
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	plain := newService(t, struct {
		storage.Inspector
		storage.Store
	}{memstore.New(), memstore.New()})
	plain.wantPage(plain.get("/doctor"), http.StatusOK, "skipped", "ready to serve")
	s := newService(t, newBrokenStore(nil))
	s.wantPage(s.get("/doctor"), http.StatusOK, "3 checks: 1 to mend, 0 to look at", "eviction policy", "Set noeviction.", `<span class="state bad">mend</span>`)
	broken := newService(t, newBrokenStore(errUnreachable))
	doctor := read[inspector.Doctor](s, broken.get("/doctor", acceptsJSON...), http.StatusOK)
	if doctor.Mend != 2 || doctor.Findings[0].Grade != "mend" || !strings.Contains(doctor.Findings[0].Seen, "connection refused") {
		t.Errorf("the findings are %+v", doctor)
	}
}

func TestStoreUnreachable(t *testing.T) {
	t.Parallel()
	s := newService(t, newBrokenStore(errUnreachable))
	for _, w := range []string{"/", "/records/" + s.id("k1")} {
		s.wantPage(s.get(w), http.StatusServiceUnavailable, "The store has failed", "connection refused", "2 respond with 503 meanwhile", "Try again")
	}
	s.wantPage(s.post("/records/"+s.id("k1")+"/settle", s.changedForm("k1", "happened")), http.StatusServiceUnavailable)
	s.wantPage(s.get("/running"), http.StatusOK, "This process is not ready")
	fault := read[inspector.Fault](s, s.get("/", acceptsJSON...), http.StatusServiceUnavailable)
	testkit.Equal(t, fault.Cause, errUnreachable.Error(), "the fault is %+v", fault)
	forbidden := newService(t, newBrokenStore(storage.ErrStoreForbidden))
	forbidden.wantPage(forbidden.get("/"), http.StatusServiceUnavailable, "The store refuses this process", "If requests need it too, guarded routes respond with 503", "Give this process the right")
}

func TestUnreadableRecords(t *testing.T) {
	t.Parallel()
	for err, title := range map[error]string{
		storage.ErrCorruptRecord: "This program cannot read the record", storage.ErrUnreadable: "The record cannot be read at the moment",
	} {
		s := newService(t, newBrokenStore(err))
		s.wantPage(s.get("/records/"+s.id("k1")), http.StatusBadGateway, title)
	}
}

// A response that the store does not take is not settled by hand: this process has it.
func TestWaitingResponse(t *testing.T) {
	t.Parallel()
	store := newIncompleteStore()
	s := newService(t, store)
	s.pay("k1", "")
	record := s.recordOf("k1")
	if !strings.Contains(record.Verdict.Headline, "the store has not taken its response") || record.MaySettle {
		t.Errorf("the verdict is %+v, and the key may be settled: %t", record.Verdict, record.MaySettle)
	}
	s.wantPage(s.get("/running"), http.StatusOK, "Do not stop this process", "waits for the store, ")
	testkit.Equal(t, read[inspector.Records](s, s.get("/", acceptsJSON...), http.StatusOK).Unsettled, 1, "responses that wait")
	store.err = errUnreachable
	s.wantPage(s.get("/"), http.StatusServiceUnavailable, "1 response of this process waits")
}

// The lease of a response that waits may end. The key is still not settled by hand.
func TestWaitingResponseWithoutALease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, newIncompleteStore())
		s.pay("k1", "")
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's clock, not the machine's
		record := s.recordOf("k1")
		if record.State != "abandoned" || record.MaySettle {
			t.Errorf("the record is %s, and may be settled: %t", record.State, record.MaySettle)
		}
		s.wantPage(s.post("/records/"+s.id("k1")+"/settle", s.changedForm("k1", "happened")), http.StatusConflict, "The record was not changed")
	})
}
