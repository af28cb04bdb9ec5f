package handlertest_test

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/handlertest"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// The provider charges at every call, so the policy must refuse what is unknown. A test
// calls Run with its own t. The example prints the runs with a fault in the call.
func Example() {
	t := new(testing.T)
	report := handlertest.Examine(t, func(w *handlertest.World) handlertest.Service {
		var charges atomic.Int64
		provider := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { charges.Add(1) })
		client := &http.Client{Transport: w.Transport(provider)}
		pay := func(w http.ResponseWriter, r *http.Request) {
			charge, _ := http.NewRequestWithContext(r.Context(), http.MethodPost, "https://pay.example/charges", nil)
			reply, err := client.Do(charge)
			if err != nil {
				failure.MarkUncertain(r.Context(), "the provider did not respond")
				http.Error(w, "ask for the payment later", http.StatusBadGateway)
				return
			}
			failure.MarkExecuted(r.Context())
			reply.Body.Close()
			io.WriteString(w, "paid\n")
		}
		return handlertest.Service{
			Routes: func(engine *core.Engine) http.Handler {
				return engine.Handler(http.HandlerFunc(pay), policy.OnAbandoned(policy.Refuse))
			},
			Request: handlertest.Request{Path: "/payments", Body: `{"amount":42}`},
			Effects: func() int { return int(charges.Load()) },
		}
	})
	for _, row := range report.Rows() {
		if row.When == "during" {
			fmt.Printf("%-11s %d effect, told %s\n", row.Fault, row.Effects, row.Told)
		}
	}
	fmt.Println("wrong:", report.Err())
	// Output:
	// reply lost  1 effect, told 409 outcome_unknown
	// panic       1 effect, told 409 outcome_unknown
	// time-out    1 effect, told 409 outcome_unknown
	// killed      1 effect, told 409 outcome_unknown
	// lease lost  1 effect, told 409 outcome_unknown
	// client gone 1 effect, told 200 replay
	// wrong: <nil>
}
