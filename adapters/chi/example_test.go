package idemchi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// userID stands for the result of authentication.
func userID(*http.Request) (string, error) { return "alice", nil }

// send is the client. It sends the same request again when the outcome of a payment is
// unknown.
func send(service http.Handler, path, key, body string) {
	request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", key)
	request.SetBasicAuth("alice", "pw")
	answer := httptest.NewRecorder()
	service.ServeHTTP(answer, request)
	fmt.Println(answer.Code, answer.Body, "replay:", answer.Header().Get("X-Idempotent-Replay") == "true")
}

// Recovery and authentication stand outside the guard: the engine settles a panic before it is recovered, and a
// stranger gets no stored response. The server's orderly end is in the example of [core.Engine.Shutdown].
func Example() {
	runs := 0
	pay := func(w http.ResponseWriter, r *http.Request) {
		runs++                            // the side effect
		failure.MarkExecuted(r.Context()) // from here on the response is kept
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"payment":%d}`, runs)
	}
	user := func(r *http.Request) (string, error) {
		name, _, _ := r.BasicAuth()
		return name, nil // an empty name gets a 401
	}

	engine, err := core.New(memstore.New(), core.ScopeBy(user))
	if err != nil {
		panic(err)
	}
	idem, login := idemchi.New(engine), middleware.BasicAuth("shop", map[string]string{"alice": "pw"})
	r := chi.NewRouter()
	r.Use(middleware.Recoverer, login)
	r.With(idem.Policy(policy.TTLHours(48), policy.LockTTL(time.Minute))).Post("/payments", pay)

	send(r, "/payments", "8e03978e", `{"amount":1999}`)
	send(r, "/payments", "8e03978e", `{"amount":1999}`) // the retry
	fmt.Println("runs:", runs)
	// Output:
	// 201 {"payment":1} replay: false
	// 201 {"payment":1} replay: true
	// runs: 1
}

func ExampleGuard_Handle() {
	refund := func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "refunded ", chi.URLParam(r, "id"))
	}
	engine, err := core.New(memstore.New(), core.ScopeBy(userID))
	if err != nil {
		panic(err)
	}
	r := chi.NewRouter()
	r.Post("/payments/{id}/refund", idemchi.New(engine).Handle(refund, policy.TTLHours(48)))

	send(r, "/payments/17/refund", "k1", "")
	send(r, "/payments/17/refund", "k1", "")
	send(r, "/payments/18/refund", "k1", "") // another payment is another operation
	// Output:
	// 200 refunded 17 replay: false
	// 200 refunded 17 replay: true
	// 200 refunded 18 replay: false
}

// One policy for many routes leaves out the fields that change in every attempt.
func ExampleGuard_Policy() {
	order := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }
	engine, err := core.New(memstore.New(), core.ScopeBy(userID))
	if err != nil {
		panic(err)
	}
	idem := idemchi.New(engine)
	r := chi.NewRouter()
	r.Group(func(r chi.Router) {
		r.Use(idem.Policy(policy.ExcludeFields("sentAt")))
		r.Post("/orders", order)
		r.Post("/returns", order)
	})

	send(r, "/orders", "k1", `{"sku":"a","sentAt":"12:00:00"}`)
	send(r, "/orders", "k1", `{"sku":"a","sentAt":"12:00:07"}`)
	// Output:
	// 202  replay: false
	// 202  replay: true
}
