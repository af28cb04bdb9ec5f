// Package stripe has a problem writer for servers whose clients are Stripe's libraries: the engine's problems in the shape of
// Stripe's errors. The examples are a module of their own, so that its test's client is in no go.sum of the library.
//
//	engine, err := core.New(store, core.ScopeBy(account), core.WithProblemWriter(stripe.WriteProblem))
package stripe

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/oncekey/oncekey/core/problem"
)

// WriteProblem is a problem.Writer. Of the responses in Stripe's shape, stripe-go repeats only 429 lock_timeout, and other
// libraries follow Stripe-Should-Retry. A problem with Retry-After is temporary and gets both; every other problem is final.
func WriteProblem(w http.ResponseWriter, _ *http.Request, p problem.Problem) {
	header, status, code := w.Header(), p.Status, p.Code
	if p.RetryAfter > 0 {
		status, code = http.StatusTooManyRequests, "lock_timeout"
		header.Set("Retry-After", strconv.Itoa(int((p.RetryAfter+time.Second-1)/time.Second)))
	}
	header.Set("Stripe-Should-Retry", strconv.FormatBool(p.RetryAfter > 0))
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"type": "idempotency_error", "code": code, "message": p.Detail}})
}
