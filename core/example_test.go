package core_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/fingerprint"
	"github.com/oncekey/oncekey/policy"
)

// userID stands for your authentication.
func userID(*http.Request) (string, error) { return "alice", nil }

// quiet keeps the examples' logs out of their output.
var quiet = core.WithObserver(observe(func(event.Event) {}))

// observe makes an Observer of a function.
type observe func(event.Event)

func (o observe) Observe(_ context.Context, event event.Event) { o(event) }

func newEngine(opts ...core.Option) *core.Engine {
	engine, err := core.New(memstore.New(), core.ScopeBy(userID), append([]core.Option{quiet}, opts...)...)
	if err != nil {
		panic(err)
	}
	return engine
}

// send sends a JSON request under a key, and prints the response.
func send(handler http.Handler, key, body string) {
	r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(core.KeyHeader, key)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	fmt.Println(w.Code, w.Body, "replay:", w.Header().Get("X-Idempotent-Replay") == "true")
}

func Example() {
	engine, err := core.New(memstore.New(), core.ScopeBy(userID))
	if err != nil {
		panic(err)
	}
	payments := 0
	mux := http.NewServeMux()
	mux.Handle("POST /payments", engine.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		payments++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, "payment ", payments)
	}), policy.TTLHours(48)))

	send(mux, "8e03978e", `{"amount":100}`)
	send(mux, "8e03978e", `{"amount":100}`) // the retry
	// Output:
	// 201 payment 1 replay: false
	// 201 payment 1 replay: true
}

// A job that must not run twice, even if its message is delivered twice.
func ExampleDo() {
	engine := newEngine()
	type order struct{ ID string }
	type receipt struct{ Number int }
	charges := 0
	charge := func(order order) (receipt, core.Info, error) {
		call := core.Call{Scope: "orders", Name: "charge", Key: order.ID, Input: order}
		return core.Do(context.Background(), engine, call, func(context.Context) (receipt, error) {
			charges++
			return receipt{charges}, nil
		})
	}
	for range 2 {
		receipt, info, err := charge(order{"o-1"})
		fmt.Println(receipt.Number, info.Replayed, err)
	}
	// Output:
	// 1 false <nil>
	// 1 true <nil>
}

// The error decides whether a failed call runs again.
func ExampleDo_errors() {
	engine := newEngine()
	try := func(key string, err error) {
		for range 2 {
			_, info, err := core.Do(context.Background(), engine, core.Call{Scope: "orders", Name: "charge", Key: key},
				func(context.Context) (int, error) { return 0, err })
			fmt.Println(err, "replayed:", info.Replayed)
		}
	}
	try("k1", errors.New("connection reset"))                      // runs again
	try("k2", failure.Permanent(errors.New("insufficient funds"))) // is kept
	// Output:
	// connection reset replayed: false
	// connection reset replayed: false
	// insufficient funds replayed: false
	// insufficient funds replayed: true
}

// The key for a provider downstream is the same in every attempt of one request.
func ExampleDeriveKey() {
	handler := newEngine().Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		charge, mail := core.DeriveKey(r.Context(), "charge"), core.DeriveKey(r.Context(), "mail")
		fmt.Println(len(charge), charge == core.DeriveKey(r.Context(), "charge"), charge == mail, core.KeyFrom(r.Context()))
	}))
	send(handler, "k1", `{}`)
	// Output:
	// 64 true false k1
	// 200  replay: false
}

// A resource that remembers the highest attempt of each key rejects the holder of a
// lost lease.
func ExampleLeaseFrom() {
	seen := map[string]uint64{}
	write := func(ctx context.Context) {
		lease, guarded := core.LeaseFrom(ctx)
		stale := guarded && lease.Attempt < seen[lease.Key]
		if !stale {
			seen[lease.Key] = lease.Attempt
		}
		fmt.Println("attempt", lease.Attempt, "stale:", stale)
	}
	handler := newEngine().Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { write(r.Context()) }))
	send(handler, "k1", `{}`)
	// Output:
	// attempt 1 stale: false
	// 200  replay: false
}

// A concurrent duplicate can wait for the response instead of getting a 409.
func ExampleEngine_Handler_wait() {
	running, goOn := make(chan struct{}), make(chan struct{})
	handler := newEngine().Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(running)
		<-goOn
		fmt.Fprint(w, "paid")
	}), policy.Wait(10*time.Second))
	first := make(chan struct{})
	go func() {
		defer close(first)
		handler.ServeHTTP(httptest.NewRecorder(), newPost(context.Background(), "k1", `{}`))
	}()
	<-running
	time.AfterFunc(10*time.Millisecond, func() { close(goOn) })
	send(handler, "k1", `{}`)
	<-first
	// Output: 200 paid replay: true
}

// After a crash between the side effect and the response, look up the payment at the
// provider.
func ExampleEngine_Route_recover() {
	lookUp := func(_ context.Context, abandoned policy.Abandoned) (*policy.Response, error) {
		fmt.Println("attempt", abandoned.Attempt, "looks up", abandoned.Key)
		return &policy.Response{Status: http.StatusCreated, Body: []byte("paid before the crash")}, nil
	}
	store := memstore.New()
	engine, err := core.New(store, core.ScopeBy(userID), quiet)
	if err != nil {
		panic(err)
	}
	route := engine.MustRoute(policy.OnAbandoned(policy.Recover(lookUp)))
	dieUnder(store, "k1")
	serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		engine.Serve(w, r, route, http.NotFoundHandler())
	})
	send(serve, "k1", "")
	// Output:
	// attempt 2 looks up k1
	// 201 paid before the crash replay: true
}

// The 422 names the differing member: the client's retry has a new timestamp.
func ExampleWithDiffers() {
	handler := newEngine(core.WithDiffers(), core.WithObserver(observe(func(happened event.Event) {
		if happened.Result == event.KeyReused {
			fmt.Println("exclude", happened.Differs)
		}
	}))).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	send(handler, "k1", `{"amount":100,"sentAt":"10:00"}`)
	send(handler, "k1", `{"amount":100,"sentAt":"10:01"}`)
	// Output:
	// 200  replay: false
	// exclude [sentAt]
	// 422 {"type":"https://github.com/oncekey/oncekey/blob/main/docs/problems.md#key_reused","title":"Idempotency-Key reused","status":422,"detail":"This Idempotency-Key was used with another payload: use a new key for a new operation.","code":"key_reused","error":"Idempotency-Key reused","differs":["sentAt"]}
	//  replay: false
}

// To roll out a policy, first observe for a week: responses do not change.
func ExampleWithObserveOnly() {
	runs := 0
	handler := newEngine(core.WithObserveOnly(), core.WithObserver(observe(func(event event.Event) {
		fmt.Println("would:", event.Result)
	}))).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		runs++
		fmt.Fprint(w, "run ", runs)
	}))
	send(handler, "k1", `{"amount":100}`)
	send(handler, "k1", `{"amount":100}`)
	// Output:
	// would: execute
	// would: completed
	// 200 run 1 replay: false
	// would: replay
	// 200 run 2 replay: false
}

// Problems in the error format of your API.
func ExampleWithProblemWriter() {
	handler := newEngine(core.WithProblemWriter(func(w http.ResponseWriter, _ *http.Request, p problem.Problem) {
		w.WriteHeader(p.Status)
		fmt.Fprintf(w, `{"errors":[%q]}`, p.Code)
	})).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	send(handler, "", "")
	// Output: 400 {"errors":["key_invalid"]} replay: false
}

// An operator looks up the record of a customer's payment.
func ExampleInspector() {
	store := memstore.New()
	engine, err := core.New(store, core.ScopeBy(userID), quiet)
	if err != nil {
		panic(err)
	}
	send(engine.Handler(http.HandlerFunc(created)), "k1", payment)

	ctx := context.Background()
	key := storage.Key("alice", http.MethodPost, "/payments", "k1")
	record, err := store.Lookup(ctx, key)
	if err != nil {
		panic(err)
	}
	fmt.Println(record.State, record.Status, string(record.Body))
	fmt.Println(store.Forget(ctx, key, storage.RerunIsSafe))
	// Output:
	// 201 {"payment_id":"p1"} replay: false
	// completed 201 {"payment_id":"p1"}
	// true <nil>
}

// Begin and Finish guard work that is neither an HTTP request nor a call of Do.
func ExampleEngine_Begin() {
	engine := newEngine()
	route := engine.MustRoute()
	request := core.Request{Scope: "alice", Method: "IMPORT", Path: "/ledger", Key: "2026-11", Fingerprint: "sha256:…"}
	for range 2 {
		switch decision := engine.Begin(context.Background(), route, request); {
		case decision.Run != nil:
			fmt.Println("runs as attempt", decision.Run.Lease().Attempt)
			if err := engine.Finish(decision.Run, failure.Outcome{Status: 200}, core.Response{Body: []byte("42 rows")}); err != nil {
				panic(err)
			}
		case decision.Record != nil:
			fmt.Println("ran before:", string(decision.Record.Body))
		}
	}
	// Output:
	// runs as attempt 1
	// ran before: 42 rows
}

// dieUnder leaves a key abandoned, as a process that dies in its handler does.
func dieUnder(store storage.Store, key string) {
	ctx := context.Background()
	_, _, err := store.Acquire(ctx, storage.Claim{
		Key: storage.Key("alice", http.MethodPost, "/payments", key), Token: storage.NewToken(),
		Fingerprint: fingerprint.Of(fingerprint.Request{Method: http.MethodPost, Path: "/payments", ContentType: "application/json"}, nil),
		LockTTL:     time.Millisecond, Retain: time.Hour,
	})
	if err != nil {
		panic(err)
	}
	<-time.After(2 * time.Millisecond) // the lease ends
}
