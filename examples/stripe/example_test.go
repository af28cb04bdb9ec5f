package stripe_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/examples/stripe"
)

func ExampleWriteProblem() {
	store, account := memstore.New(), func(*http.Request) (string, error) { return "acct_1", nil }
	engine, err := core.New(store, core.ScopeBy(account), core.WithProblemWriter(stripe.WriteProblem))
	if err != nil {
		panic(err)
	}
	w := httptest.NewRecorder()
	engine.Handler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/charges", nil))
	fmt.Println(w.Code, w.Header().Get("Stripe-Should-Retry"), w.Body)
	// Output:
	// 400 false {"error":{"code":"key_missing","message":"Send an Idempotency-Key header that is new for every operation and the same for every retry of it.","type":"idempotency_error"}}
}
