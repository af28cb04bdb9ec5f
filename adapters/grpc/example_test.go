package idemgrpc_test

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	idemgrpc "github.com/oncekey/oncekey/adapters/grpc"
	"github.com/oncekey/oncekey/adapters/internal/rpc/shop"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// payments is the service of the examples.
type payments struct{ charges int }

func (p *payments) Pay(ctx context.Context, request *shop.PayRequest) (*shop.Payment, error) {
	p.charges++
	failure.MarkExecuted(ctx) // the money has moved
	return &shop.Payment{Id: fmt.Sprint("payment-", p.charges), Amount: request.GetAmount()}, nil
}

// userOf returns the user that an authenticating interceptor has found.
func userOf(context.Context) (string, error) { return "alice", nil }

// A client sends a payment twice with one key. The second call gets the stored response.
func Example() {
	engine, err := core.New(memstore.New(), idemgrpc.ScopeBy(userOf))
	if err != nil {
		panic(err)
	}
	table, err := policy.NewTable(policy.Row("POST /oncekey.shop.v1.Payments/Pay", policy.TTLHours(48), policy.ExcludeFields("client_time")))
	if err != nil {
		panic(err)
	}
	guard, err := idemgrpc.New(engine, table)
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(guard.Intercept))
	registerPayments(server, new(payments)) // the generated function
	report := guard.Audit(server)
	fmt.Println(report.Err(), report.Warnings)

	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // an example without a context
	if err != nil {
		panic(err)
	}
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	connection, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	defer func() { _ = connection.Close() }()

	ctx := metadata.AppendToOutgoingContext(context.Background(), "idempotency-key", "order-17")
	for range 2 {
		var header metadata.MD
		payment := new(shop.Payment)
		err := connection.Invoke(ctx, "/oncekey.shop.v1.Payments/Pay", &shop.PayRequest{Amount: 100}, payment, grpc.Header(&header))
		fmt.Println(payment.GetId(), err, header["idempotent-replay"])
	}
	// Output:
	// <nil> [/oncekey.shop.v1.Payments/Refund is not guarded: no idempotency policy covers it, so a retry runs its handler again]
	// payment-1 <nil> []
	// payment-1 <nil> [true]
}

// A client whose calls have keys and are repeated.
func ExampleUnaryClientInterceptor() {
	interceptor, err := idemgrpc.UnaryClientInterceptor(idemgrpc.ClientOptions{MaxAttempts: 5})
	if err != nil {
		panic(err)
	}
	connection, err := grpc.NewClient("dns:///payments.example:443",
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUnaryInterceptor(interceptor))
	if err != nil {
		panic(err)
	}
	defer func() { _ = connection.Close() }()
	fmt.Println(connection.Target())
	// Output: dns:///payments.example:443
}

// A RecoverFunc finds out how an abandoned attempt ended.
func ExampleRecovered() {
	find := func(_ context.Context, abandoned policy.Abandoned) (*policy.Response, error) {
		// Look the payment up by abandoned.Key at the provider.
		return idemgrpc.Recovered(&shop.Payment{Id: "payment-of-" + abandoned.Key}, nil)
	}
	row := policy.Row("POST /oncekey.shop.v1.Payments/Pay", policy.OnAbandoned(policy.Recover(find)))
	_, err := policy.NewTable(row)
	fmt.Println(err)
	// Output: <nil>
}
