package core_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// The shop is unreachable when the first request comes. The retry continues with the shipment,
// and does not charge again.
func ExampleStep() {
	charges, unreachable := 0, true
	order := func(w http.ResponseWriter, r *http.Request) {
		receipt, err := core.Step(r.Context(), "charge", func(ctx context.Context) (string, error) {
			charges++ // call the provider here, with core.DeriveKey(ctx, "charge")
			return fmt.Sprint("receipt ", charges), nil
		})
		if err != nil {
			http.Error(w, "try again", http.StatusServiceUnavailable)
			return
		}
		shipment, err := core.Step(r.Context(), "ship", func(context.Context) (int, error) {
			if unreachable {
				return 0, errors.New("connection refused")
			}
			return 7, nil
		})
		if err != nil {
			http.Error(w, "try again", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "%s, shipment %d", receipt, shipment)
	}
	guarded := newEngine().Handler(http.HandlerFunc(order))

	send(guarded, "8e03978e", `{"item":1}`)
	unreachable = false
	send(guarded, "8e03978e", `{"item":1}`)
	send(guarded, "8e03978e", `{"item":1}`)
	// Output:
	// 503 try again
	//  replay: false
	// 200 receipt 1, shipment 7 replay: false
	// 200 receipt 1, shipment 7 replay: true
}

// A step whose outcome is unknown is named to the policy's RecoverFunc, which looks for
// its effect.
func ExampleStep_recover() {
	order := func(w http.ResponseWriter, r *http.Request) {
		_, err := core.Step(r.Context(), "charge", func(context.Context) (string, error) {
			return "", failure.Uncertain(errors.New("the provider's reply was lost"))
		})
		if err != nil {
			http.Error(w, "try again", http.StatusGatewayTimeout)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}
	guarded := newEngine().Handler(http.HandlerFunc(order), policy.OnAbandoned(policy.Recover(
		func(_ context.Context, abandoned policy.Abandoned) (*policy.Response, error) {
			if abandoned.Step == "charge" { // look the charge up at the provider, by its derived key
				return &policy.Response{Status: http.StatusCreated, Body: []byte("receipt 1")}, nil
			}
			return nil, nil //nolint:nilnil // no effect outside of the steps: run again
		})))

	send(guarded, "8e03978e", `{"item":1}`)
	send(guarded, "8e03978e", `{"item":1}`)
	// Output:
	// 504 try again
	//  replay: false
	// 201 receipt 1 replay: true
}
