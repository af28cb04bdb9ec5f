package handlertest_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"maps"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/handlertest"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

func onChi(engine *core.Engine, handler http.HandlerFunc, options ...policy.Option) http.Handler {
	idem := idemchi.New(engine)
	r := chi.NewRouter()
	r.Use(quiet, middleware.Recoverer)
	r.With(idem.Policy(options...)).Post("/payments", handler)
	return r
}

// quiet lets chi's Recoverer print no stacks.
func quiet(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, middleware.WithLogEntry(r, noLog{}))
	})
}

type noLog struct{}

func (noLog) Write(int, int, http.Header, time.Duration, any) {}
func (noLog) Panic(any, []byte)                               {}

func onGin(engine *core.Engine, handler http.HandlerFunc, options ...policy.Option) http.Handler {
	idem := idemgin.New(engine)
	r := gin.New()
	r.Use(gin.RecoveryWithWriter(io.Discard))
	r.POST("/payments", idem.Handle(gin.WrapF(handler), options...))
	return r
}

// A handler that passes DeriveKey, and marks what it knows, is safe on every router.
func TestCarefulHandlerPasses(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]routesOf{"net/http": nethttp, "chi": onChi, "gin": onGin}, func(t *testing.T, routes routesOf) {
		handlertest.Run(t, paying(routes, bank.careful, policy.TTLHours(48), policy.LockTTL(time.Minute)))
	})
}

// The kit's key has the time of its first request.
func TestRouteWithAKeyAge(t *testing.T) {
	t.Parallel()
	handlertest.Run(t, paying(nethttp, bank.careful, policy.KeyAge(time.Hour)))
}

// A route whose key is in the body can be tested too: the kit's key goes where no engine reads.
func TestRouteWithAKeyField(t *testing.T) {
	t.Parallel()
	careful := paying(nethttp, bank.careful, policy.KeyField("request_id"))
	handlertest.Run(t, func(w *handlertest.World) handlertest.Service {
		service := careful(w)
		service.Request.Body, service.Request.KeyHeader = `{"amount":42,"request_id":"order-42"}`, "X-Unused"
		return service
	})
}

// An engine that limits the new keys of a scope can be tested too.
func TestScopeLimit(t *testing.T) {
	t.Parallel()
	careful := paying(nethttp, bank.careful, policy.TTLHours(48), policy.LockTTL(time.Minute))
	handlertest.Run(t, func(w *handlertest.World) handlertest.Service {
		service := careful(w)
		service.Options = append(service.Options, core.WithScopeLimit(core.ScopeLimit{InFlight: 10, PerMinute: 100}))
		return service
	})
}

// The handler of every tutorial charges twice, whichever way the first run is cut off
// after the charge.
func TestNaiveHandlerFails(t *testing.T) {
	t.Parallel()
	report := handlertest.Examine(t, paying(nethttp, bank.naive))
	wantWrong(t, report, map[string][]string{"two effects": append([]string{"Complete before killed", "Complete before lease lost"}, afterTheCharge...)})
	wantAdvice(t, report, "core.DeriveKey", "policy.OnAbandoned(policy.Recover(find))", "failure.MarkUncertain", "the handler fails after the call at fixture_test.go:", "failure.MarkExecuted right after the call")
}

// afterTheCharge are the faults by which a charge without a key is repeated.
var afterTheCharge = []string{
	"pay.example/charges during reply lost", "pay.example/charges during panic", "pay.example/charges during time-out",
	"pay.example/charges during killed", "pay.example/charges during lease lost", "pay.example/charges after reply cut", "pay.example/charges after panic",
}

// wantWrong compares the rows of each wrong. A row is the end of its point's name, its phase and its fault.
func wantWrong(t *testing.T, report *handlertest.Report, want map[string][]string) {
	t.Helper()
	got := map[string][]string{}
	for _, row := range report.Rows() {
		point, _, _ := strings.Cut(row.Point, " (")
		for _, wrong := range row.Wrong {
			got[wrong] = append(got[wrong], strings.TrimSpace(point[strings.LastIndex(point, " ")+1:]+" "+row.When+" "+row.Fault))
		}
	}
	sameRows := func(a, b []string) bool {
		return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
	}
	if !maps.EqualFunc(got, want, sameRows) {
		t.Errorf("wrong are\n%v, want\n%v, in\n%s", got, want, report)
	}
	testkit.Equal(t, report.Err() != nil, len(want) > 0, "the report's error is %v", report.Err())
}

// wantAdvice looks for texts in the report's error.
func wantAdvice(t *testing.T, report *handlertest.Report, advice ...string) {
	t.Helper()
	if report.Err() == nil {
		t.Fatal("the report has no error")
	}
	for _, text := range advice {
		if !strings.Contains(report.Err().Error(), text) {
			t.Errorf("the advice is %v, want in it %q", report.Err(), text)
		}
	}
}

// A handler that marks the charge before it is made loses it: each retry gets the first
// attempt's error.
func TestMarkBeforeTheEffectFails(t *testing.T) {
	t.Parallel()
	report := handlertest.Examine(t, paying(nethttp, func(b bank, w http.ResponseWriter, r *http.Request) {
		failure.MarkExecuted(r.Context())
		b.careful(w, r)
	}))
	wantWrong(t, report, map[string][]string{
		"lost effect: 502 is kept":        {"pay.example/charges before refused", "pay.example/charges before time-out"},
		"lost effect: 500 replay is kept": {"pay.example/charges before panic"},
	})
	wantAdvice(t, report, "call failure.MarkExecuted after the call at fixture_test.go:")
}

// Success without the effect is wrong too.
func TestErrorsThatAreIgnored(t *testing.T) {
	t.Parallel()
	report := handlertest.Examine(t, paying(nethttp, func(b bank, w http.ResponseWriter, r *http.Request) {
		_, _ = b.charge(r.Context(), core.DeriveKey(r.Context(), "charge"))
		w.WriteHeader(http.StatusCreated)
	}))
	wantWrong(t, report, map[string][]string{"lost effect: 201": {"pay.example/charges before refused", "pay.example/charges before time-out"}})
	wantAdvice(t, report, "only if the call at fixture_test.go:")
}

// A handler that refuses with a 4xx, although the charge may have been made, misleads
// the client.
func TestRefusalAfterTheEffect(t *testing.T) {
	t.Parallel()
	for _, release := range [][]string{nil, {"402"}} { // the client stops where the key is released, too
		report := handlertest.Examine(t, paying(nethttp, func(b bank, w http.ResponseWriter, r *http.Request) {
			if _, err := b.charge(r.Context(), core.DeriveKey(r.Context(), "charge")); err != nil {
				w.Header().Set("Content-Type", "application/problem+json") // of the handler, and not of the engine
				w.WriteHeader(http.StatusPaymentRequired)
				io.WriteString(w, `{"code":"declined"}`)
				return
			}
			failure.MarkExecuted(r.Context())
		}, policy.Release(release...)))
		wantWrong(t, report, map[string][]string{"refused, but done: 402": {
			"pay.example/charges during reply lost", "pay.example/charges during time-out", "pay.example/charges after reply cut",
		}})
		wantAdvice(t, report, "failure.MarkUncertain")
	}
}

// A client retries after a status that says "not now".
func TestStatusesForLater(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests} {
		handlertest.Run(t, paying(nethttp, func(b bank, w http.ResponseWriter, r *http.Request) {
			if _, err := b.charge(r.Context(), core.DeriveKey(r.Context(), "charge")); err != nil {
				w.WriteHeader(status)
			}
		}))
	}
}

// A handler whose policy refuses what is unknown, or asks, needs no DeriveKey.
func TestPoliciesForUnknownOutcomes(t *testing.T) {
	t.Parallel()
	handlertest.Run(t, paying(nethttp, bank.naive, policy.OnAbandoned(policy.Refuse)))

	handlertest.Run(t, func(w *handlertest.World) handlertest.Service {
		p := newProvider()
		b := bank{&http.Client{Transport: w.Transport(p)}}
		find := policy.Recover(func(context.Context, policy.Abandoned) (*policy.Response, error) {
			if p.Charges() == 0 {
				return nil, nil //nolint:nilnil // a RecoverFunc that found no effect
			}
			return &policy.Response{Status: http.StatusCreated, Body: []byte("payment 1\n")}, nil
		})
		pay := func(rw http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
			defer cancel()
			if w.Call(ctx, "read the order", func(context.Context) error { return nil }) != nil {
				rw.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			b.naive(rw, r) // after a lease that was lost during the read, its context has ended
		}
		return handlertest.Service{
			Routes:  func(engine *core.Engine) http.Handler { return nethttp(engine, pay, policy.OnAbandoned(find)) },
			Request: handlertest.Request{Path: "/payments"},
			Effects: p.Charges,
		}
	})
}

// Without protection the handler runs again, which harms only where the provider gets no derived key.
func TestFailOpen(t *testing.T) {
	t.Parallel()
	open := policy.OnStoreError(policy.FailOpen)
	handlertest.Run(t, paying(nethttp, bank.careful, open))
	report := handlertest.Examine(t, paying(nethttp, func(b bank, w http.ResponseWriter, r *http.Request) {
		if _, leased := core.LeaseFrom(r.Context()); leased {
			b.careful(w, r)
			return
		}
		_, _ = b.charge(r.Context(), rand.Text())
	}, open))
	wantAdvice(t, report, "policy.OnStoreError(policy.FailClosed)")
}

// A response that differs from attempt to attempt is found where two were told.
func TestTwoResponses(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	release := policy.Classifier(func(failure.Outcome) failure.Class { return failure.ClassDeleteKey })
	report := handlertest.Examine(t, paying(nethttp, func(b bank, w http.ResponseWriter, r *http.Request) {
		_, _ = b.charge(r.Context(), "k")
		_, _ = io.WriteString(w, strings.Repeat("x", int(runs.Add(1))))
	}, release))
	for _, row := range report.Rows()[:1] {
		testkit.EqualSlices(t, row.Wrong, []string{"two responses"}, "the wrong effects without a fault")
	}
	wantAdvice(t, report, "core.Step")

	report = handlertest.Examine(t, paying(nethttp, func(b bank, _ http.ResponseWriter, r *http.Request) { _, _ = b.charge(r.Context(), "k") }, release))
	wantAdvice(t, report, "do not release the key of a success")

	stamped := func(engine *core.Engine, handler http.HandlerFunc, options ...policy.Option) http.Handler {
		guarded := nethttp(engine, handler, options...)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			guarded.ServeHTTP(w, r)
			_, _ = io.WriteString(w, "stamp")
		})
	}
	wantAdvice(t, handlertest.Examine(t, paying(stamped, bank.careful)), "put middleware that changes the response inside the guard")
}

// A client that never gets a final response is told of.
func TestNoFinalResponse(t *testing.T) {
	t.Parallel()
	var broken sync.Map // by provider: the account is locked after a lost reply
	report := handlertest.Examine(t, paying(nethttp, func(b bank, w http.ResponseWriter, r *http.Request) {
		if _, locked := broken.Load(b.client); locked {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if _, err := b.charge(r.Context(), core.DeriveKey(r.Context(), "charge")); err != nil {
			broken.Store(b.client, true)
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	wantAdvice(t, report, "no final response")
	for _, row := range report.Rows() {
		if row.Fault == "refused" && (row.Told != "no final response" || len(row.Responses) != 31) {
			t.Errorf("the row is %+v, want 30 attempts and one more", row)
		}
	}
}

// A run cannot be tested if it does not succeed without a fault.
func TestServicesThatCannotBeTested(t *testing.T) {
	t.Parallel()
	refuse := func(_ bank, w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) }
	crash := func(bank, http.ResponseWriter, *http.Request) { panic("a bug") }
	idle := func(bank, http.ResponseWriter, *http.Request) {}
	skip := policy.SkipIf(func(*http.Request) bool { return true })
	many := func(b bank, _ http.ResponseWriter, _ *http.Request) {
		for range 250 {
			_, _ = b.charge(context.Background(), "")
		}
	}
	for want, start := range map[string]func(*handlertest.World) handlertest.Service{
		`the response was 403 "no\n"`: paying(nethttp, refuse),
		"but connection lost x31":     paying(nethttp, crash),
		"was not guarded":             paying(nethttp, bank.naive, skip),
		"the route only observes":     paying(nethttp, bank.careful, policy.ObserveOnly(true)),
		"Effects counted 0":           paying(nethttp, idle),
		"more than 200 points":        paying(nethttp, many),
	} {
		report := handlertest.Examine(t, start)
		if report.Err() == nil || !strings.Contains(report.Err().Error(), want) {
			t.Errorf("the error is %v, want in it %q", report.Err(), want)
		}
	}
}

// The own errors of calls reach the handler.
func TestErrorsOfCalls(t *testing.T) {
	t.Parallel()
	errOwn := errors.New("the queue is full")
	handlertest.Examine(t, func(w *handlertest.World) handlertest.Service {
		crashing := bank{&http.Client{Transport: w.Transport(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a bug") }))}}
		pay := func(_ http.ResponseWriter, r *http.Request) {
			_, err := crashing.charge(r.Context(), "")
			if own := w.Call(r.Context(), "publish", func(context.Context) error { return errOwn }); err == nil || !errors.Is(own, errOwn) {
				t.Errorf("a provider that panics is the error %v, and a full queue is %v", err, own)
			}
		}
		return handlertest.Service{
			Routes:  func(engine *core.Engine) http.Handler { return nethttp(engine, pay) },
			Request: handlertest.Request{Path: "/payments"},
			Effects: func() int { return 0 }, // one run alone
		}
	})
}

// A handler whose calls change from run to run is not called safe.
func TestCallsThatChange(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	report := handlertest.Examine(t, paying(nethttp, func(b bank, w http.ResponseWriter, r *http.Request) {
		if runs.Add(1) == 1 {
			b.careful(w, r)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}))
	wantAdvice(t, report, "point not reached", "make equal calls in equal runs")
}

// A call with a context of its own goes on after the lease is lost, and a call on a
// goroutine of its own is killed too.
func TestCallsWithoutTheRequestsContext(t *testing.T) {
	t.Parallel()
	start := paying(nethttp, func(b bank, w http.ResponseWriter, r *http.Request) {
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err = b.charge(context.Background(), "")
		}()
		<-done
		if err != nil {
			failure.MarkUncertain(r.Context())
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		failure.MarkExecuted(r.Context())
	}, policy.OnAbandoned(policy.Reexecute))
	report := handlertest.Examine(t, start)
	wantAdvice(t, report, "goes on after the lease is lost", "pass the request's context to the call")
	for _, row := range report.Rows() {
		if row.Fault == "lease lost" && row.When == "before" && strings.HasPrefix(row.Point, "POST") && row.Effects != 2 {
			t.Errorf("the row is %+v, want two effects", row)
		}
	}
}

// waitForever waits for an event that never comes.
func waitForever() { select {} }

// A handler that responds before its call is found, whichever of the two comes first.
func TestCallThatIsLeftBehind(t *testing.T) {
	t.Parallel()
	report := handlertest.Examine(t, paying(nethttp, func(b bank, w http.ResponseWriter, r *http.Request) {
		ctx := context.WithoutCancel(r.Context())
		key := core.DeriveKey(ctx, "charge")
		go func() {
			for range 1000 {
				runtime.Gosched()
			}
			_, _ = b.charge(ctx, key)
		}()
		w.WriteHeader(http.StatusCreated)
	}))
	wantAdvice(t, report, "lost effect: 201")
	if strings.Contains(report.Err().Error(), "point not reached") {
		t.Errorf("the report is %v", report.Err())
	}
}

// A handler that waits forever is an error, not a test that hangs.
func TestStuckHandler(t *testing.T) {
	t.Parallel()
	report := handlertest.Examine(t, paying(nethttp, func(b bank, w http.ResponseWriter, r *http.Request) {
		if _, err := b.charge(r.Context(), core.DeriveKey(r.Context(), "charge")); err != nil {
			waitForever()
		}
	}))
	wantAdvice(t, report, "stuck\n\tafter: refused before POST", "end every goroutine and every wait")

	report = handlertest.Examine(t, paying(nethttp, func(bank, http.ResponseWriter, *http.Request) { waitForever() }))
	wantAdvice(t, report, "the run without a fault did not end")
}

// Calls of other clients have the same faults.
func TestCall(t *testing.T) {
	t.Parallel()
	var published atomic.Int64 // of all runs
	errOwn := errors.New("the queue is full")
	report := handlertest.Examine(t, func(w *handlertest.World) handlertest.Service {
		if err := w.Call(w.Context(), "dial", func(context.Context) error { return errOwn }); !errors.Is(err, errOwn) {
			t.Errorf("a call before the first request returned %v, want its own error", err)
		}
		pay := func(rw http.ResponseWriter, r *http.Request) {
			err := w.Call(r.Context(), "publish", func(context.Context) error {
				published.Add(1)
				return nil
			})
			if err != nil {
				rw.WriteHeader(http.StatusBadGateway)
			}
		}
		return handlertest.Service{
			Routes:  func(engine *core.Engine) http.Handler { return nethttp(engine, pay, policy.Wait(time.Second)) },
			Request: handlertest.Request{Path: "/payments", KeyHeader: "X-Key", Header: http.Header{"Host": {"shop.example"}}},
			Effects: func() int { return int(published.Load()) },
			Scope:   core.ScopeBy(func(r *http.Request) (string, error) { return strings.TrimPrefix(r.Host, "example.com"), nil }),
			Options: []core.Option{core.WithKeyHeader("X-Key")},
		}
	})
	wantWrong(t, report, map[string][]string{"two effects": {
		"publish during reply lost", "publish during panic", "publish during time-out", "publish during killed", "publish during lease lost",
		"publish after reply late", // a handler that wrote no response in time
		"Complete before killed", "Complete before lease lost",
	}})
}

// A killed process makes no effects: its handler does not go on, and its calls fail.
func TestKilledProcesses(t *testing.T) {
	t.Parallel()
	var written atomic.Int64
	report := handlertest.Examine(t, func(w *handlertest.World) handlertest.Service {
		service := paying(nethttp, func(b bank, _ http.ResponseWriter, r *http.Request) {
			_, _ = b.charge(r.Context(), "k")
			_ = w.Call(r.Context(), "notify", func(context.Context) error { return nil })
			written.Add(1)
		})(w)
		service.Effects = func() int { return int(written.Load()) }
		return service
	})
	for _, row := range report.Rows() {
		if row.Fault == "killed" && !strings.HasPrefix(row.Point, "store") && row.Effects != 1 {
			t.Errorf("killed %s the call the process had an effect: %+v", row.When, row)
		}
	}

	report = handlertest.Examine(t, paying(nethttp, func(b bank, _ http.ResponseWriter, r *http.Request) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 2 { // the second one is a fallback
				if _, err := b.charge(r.Context(), ""); err == nil {
					return
				}
			}
		}()
		<-done
	}))
	for _, row := range report.Rows() {
		if row.Fault == "killed" && row.When == "before" && strings.HasPrefix(row.Point, "POST") && row.Effects != 1 {
			t.Errorf("a killed process called the provider: %+v", row)
		}
	}
}

// Of two calls the advice names the one that had the effect.
func TestTwoCalls(t *testing.T) {
	t.Parallel()
	report := handlertest.Examine(t, func(w *handlertest.World) handlertest.Service {
		return paying(nethttp, func(b bank, rw http.ResponseWriter, r *http.Request) {
			_, err := b.charge(r.Context(), "")
			if err == nil {
				err = w.Call(r.Context(), "notify", func(context.Context) error { return nil })
			}
			if err != nil {
				rw.WriteHeader(http.StatusBadGateway)
			}
		})(w)
	})
	wantAdvice(t, report, "\n\t       refused before notify", "\n\t       reply lost during notify", "\n\t       killed before store: Complete",
		"the handler fails after the call at fixture_test.go:")
	if strings.Contains(report.Err().Error(), "(notify)") { // as a place of the effect
		t.Errorf("the advice is %v, want no advice about the second call", report.Err())
	}
}

// stepping charges in a step.
func stepping(key func(context.Context) string) func(bank, http.ResponseWriter, *http.Request) {
	return func(b bank, w http.ResponseWriter, r *http.Request) {
		receipt, err := core.Step(r.Context(), "charge", func(ctx context.Context) (string, error) { return b.charge(ctx, key(ctx)) })
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, receipt)
	}
}

// A step with DeriveKey is safe. Without it, a step repeats no charge that is recorded.
func TestSteps(t *testing.T) {
	t.Parallel()
	handlertest.Run(t, paying(nethttp, stepping(withKey)))
	handlertest.Run(t, paying(nethttp, stepping(withoutKey), policy.OnAbandoned(policy.Refuse)))

	report := handlertest.Examine(t, paying(nethttp, stepping(withoutKey)))
	// The second call of the store is the Extend that records the step.
	wantWrong(t, report, map[string][]string{"two effects": append([]string{"#2 before killed", "#2 before lease lost"}, afterTheCharge...)})
}

// A function of core.Do inside the handler has a key of its own.
func TestNestedCalls(t *testing.T) {
	t.Parallel()
	handlertest.Run(t, func(w *handlertest.World) handlertest.Service {
		p := newProvider()
		b := bank{&http.Client{Transport: w.Transport(p)}}
		return handlertest.Service{
			Routes: func(engine *core.Engine) http.Handler {
				return nethttp(engine, func(rw http.ResponseWriter, r *http.Request) {
					key := core.DeriveKey(r.Context(), "charge")
					call := core.Call{Scope: "orders", Name: "charge", Key: key}
					receipt, _, err := core.Do(r.Context(), engine, call, func(ctx context.Context) (string, error) { return b.charge(ctx, key) })
					if err != nil {
						rw.WriteHeader(http.StatusBadGateway)
						return
					}
					rw.WriteHeader(http.StatusCreated)
					io.WriteString(rw, receipt)
				})
			},
			Request: handlertest.Request{Path: "/payments"},
			Effects: p.Charges,
		}
	})
}

// A streamed response is not stored, and its retry is told so.
func TestStreams(t *testing.T) {
	t.Parallel()
	handlertest.Run(t, paying(nethttp, func(b bank, w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		receipt, err := b.charge(ctx, core.DeriveKey(ctx, "charge"))
		if err != nil {
			failure.MarkUncertain(ctx)
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		failure.MarkExecuted(ctx)
		_, _ = io.WriteString(w, receipt)
		_ = http.NewResponseController(w).Flush()
	}))
}

// Equal tests have equal matrices.
func TestRunsRepeat(t *testing.T) {
	t.Parallel()
	examine := func() string {
		report := handlertest.Examine(t, paying(onChi, bank.naive))
		return report.String() + report.Err().Error()
	}
	first := examine()
	if again := examine(); again != first {
		t.Errorf("the second matrix is\n%s, the first\n%s", again, first)
	}
	for _, line := range []string{"  201, 409 in_progress, 201 replay x2  ", "  connection lost, 409 in_progress x4, 201, 201 replay  ", "  reply lost, 201 replay x2  ", "  connection lost, 201 replay x2  "} {
		if !strings.Contains(first, line) {
			t.Errorf("no run got %s in\n%s", line, first)
		}
	}
	if strings.Contains(first, "#2") {
		t.Errorf("the retry has points, in\n%s", first)
	}
	if !regexp.MustCompile(`(?m)^POST pay\.example/charges \(fixture_test\.go:\d+\)\n  before  refused +1 +502, 201, 201 replay +201 +ok$`).MatchString(first) {
		t.Errorf("the matrix is\n%s", first)
	}
}
