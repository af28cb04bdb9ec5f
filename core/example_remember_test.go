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
	"github.com/oncekey/oncekey/policy"
)

// A message that is delivered again after the TTL finds its key remembered, and is not
// charged again.
func ExampleErrKeyExpired() {
	engine := newEngine()
	route := engine.MustRoute(policy.TTLHours(24), policy.RememberHours(720))
	charges := 0
	charge := func() error {
		call := core.Call{Scope: "orders", Name: "charge", Key: "order-17", Route: route}
		_, _, err := core.Do(context.Background(), engine, call, func(ctx context.Context) (string, error) {
			core.KeepFor(ctx, time.Millisecond) // so that the example need not wait for a day
			charges++
			return "receipt", nil
		})
		return err
	}

	err := charge()
	for err == nil { // a replay, until the response has expired
		err = charge()
	}
	fmt.Println(errors.Is(err, core.ErrKeyExpired), charges)
	// Output:
	// true 1
}

// The client learns how long a retry gets the stored response.
func ExampleWithExpiryHeader() {
	engine := newEngine(core.WithExpiryHeader("Idempotency-Expires"))
	handler := engine.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
	}), policy.TTLHours(48))

	for range 2 { // the second response is a replay
		r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader(`{"amount":100}`))
		r.Header.Set(core.KeyHeader, "8e03978e")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		end, err := http.ParseTime(w.Header().Get("Idempotency-Expires"))
		fmt.Println(w.Code, time.Until(end).Round(time.Hour), err)
	}
	// Output:
	// 201 48h0m0s <nil>
	// 201 48h0m0s <nil>
}
