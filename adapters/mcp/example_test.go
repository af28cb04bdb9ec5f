package idemmcp_test

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	idemmcp "github.com/oncekey/oncekey/adapters/mcp"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/policy"
)

type orderInput struct {
	Amount         int    `json:"amount"          jsonschema:"the amount in cents"`
	IdempotencyKey string `json:"idempotency_key" jsonschema:"new for every order, the same for every retry of it"`
}

type orderOutput struct {
	PaymentID string `json:"payment_id"`
}

// A server as the SDK's README has it, with a guard. The agent calls the tool a second time
// because it did not get the first reply.
func Example() {
	engine, err := core.New(memstore.New(), core.SharedScope, quiet) // over HTTP: idemmcp.TokenScope
	if err != nil {
		panic(err)
	}
	table, err := policy.NewTable(policy.Row("TOOL charge", policy.TTLHours(48)))
	if err != nil {
		panic(err)
	}
	guard, err := idemmcp.New(engine, table)
	if err != nil {
		panic(err)
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "v1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "charge", Description: "charges a card"},
		func(ctx context.Context, _ *mcp.CallToolRequest, in orderInput) (*mcp.CallToolResult, orderOutput, error) {
			fmt.Println("charged", in.Amount)
			return nil, orderOutput{"pay_" + core.DeriveKey(ctx, "charge")[:4]}, nil // one key for all attempts
		})
	server.AddReceivingMiddleware(guard.Receive)
	report, err := guard.Audit(context.Background(), server)
	fmt.Println(report.Err(), err)

	session := agentOf(server)
	for range 2 {
		result, err := session.CallTool(context.Background(), &mcp.CallToolParams{
			Name: "charge", Arguments: map[string]any{"amount": 100, "idempotency_key": "8e03978e"},
		})
		if err != nil {
			panic(err)
		}
		fmt.Println(result.Meta["replayed"], result.StructuredContent)
	}
	_ = session.Close()
	// Output:
	// <nil> <nil>
	// charged 100
	// <nil> map[payment_id:pay_302a]
	// true map[payment_id:pay_302a]
}

// quiet leaves the log out of the example's output.
var quiet = core.WithObserver(new(events))

// agentOf connects a client in memory.
func agentOf(server *mcp.Server) *mcp.ClientSession {
	clientSide, serverSide := mcp.NewInMemoryTransports()
	if _, err := server.Connect(context.Background(), serverSide, nil); err != nil {
		panic(err)
	}
	session, err := newClient(nil).Connect(context.Background(), clientSide, nil)
	if err != nil {
		panic(err)
	}
	return session
}
