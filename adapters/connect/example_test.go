package idemconnect_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"connectrpc.com/connect"

	idemconnect "github.com/oncekey/oncekey/adapters/connect"
	"github.com/oncekey/oncekey/adapters/internal/rpc/shop"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

const procedure = "/oncekey.shop.v1.Payments/Pay"

// A client sends a payment twice with one key. The second call gets the stored response.
func Example() {
	userOf := func(context.Context) (string, error) { return "alice", nil } // of an authenticating middleware
	engine, err := core.New(memstore.New(), idemconnect.ScopeBy(userOf))
	if err != nil {
		panic(err)
	}
	table, err := policy.NewTable(policy.Row("POST "+procedure, policy.TTLHours(48), policy.ExcludeFields("client_time")))
	if err != nil {
		panic(err)
	}
	guard, err := idemconnect.New(engine, table)
	if err != nil {
		panic(err)
	}
	charges := 0
	pay := func(ctx context.Context, request *connect.Request[shop.PayRequest]) (*connect.Response[shop.Payment], error) {
		charges++
		failure.MarkExecuted(ctx) // the money has moved
		return connect.NewResponse(&shop.Payment{Id: fmt.Sprint("payment-", charges), Amount: request.Msg.GetAmount()}), nil
	}
	mux := http.NewServeMux() // the generated function returns the path and the handler
	mux.Handle(procedure, connect.NewUnaryHandler(procedure, pay, connect.WithInterceptors(guard)))
	server := httptest.NewServer(mux)
	defer server.Close()

	client := connect.NewClient[shop.PayRequest, shop.Payment](server.Client(), server.URL+procedure)
	for range 2 {
		call := connect.NewRequest(&shop.PayRequest{Amount: 100})
		call.Header().Set(core.KeyHeader, "order-17")
		paid, err := client.CallUnary(context.Background(), call)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s %q\n", paid.Msg.GetId(), paid.Header().Get("Idempotent-Replay"))
	}
	// Output:
	// payment-1 ""
	// payment-1 "true"
}

// A client whose calls have keys and are repeated.
func ExampleClientInterceptor() {
	keys, err := idemconnect.ClientInterceptor(idemconnect.ClientOptions{MaxAttempts: 5})
	if err != nil {
		panic(err)
	}
	client := connect.NewClient[shop.PayRequest, shop.Payment](http.DefaultClient, "https://payments.example"+procedure, connect.WithInterceptors(keys))
	fmt.Println(client != nil)
	// Output: true
}

// A RecoverFunc finds out how an abandoned attempt ended.
func ExampleRecovered() {
	find := func(_ context.Context, abandoned policy.Abandoned) (*policy.Response, error) {
		// Look the payment up by abandoned.Key at the provider.
		return idemconnect.Recovered(&shop.Payment{Id: "payment-of-" + abandoned.Key}, nil)
	}
	_, err := policy.NewTable(policy.Row("POST "+procedure, policy.OnAbandoned(policy.Recover(find))))
	fmt.Println(err)
	// Output: <nil>
}
