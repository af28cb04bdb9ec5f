//go:build unix

package mcp

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	idemmcp "github.com/oncekey/oncekey/adapters/mcp"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/internal/system/service"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/internal/testkit"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
	"github.com/oncekey/oncekey/policy"
)

// newLedger opens a database with the table of payments and that of records.
func newLedger(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := service.Pool(t, postgrestest.Shared(t))
	_, err := pool.Exec(t.Context(), `CREATE TABLE payments (item text, confirmed boolean)`)
	testkit.Must(t, errors.Join(err, pgstore.Migrate(t.Context(), pool)))
	return pool
}

// buy pays in the transaction of its run, after the client has confirmed.
func buy(ctx context.Context, call *mcp.CallToolRequest, in order) (*mcp.CallToolResult, shipment, error) {
	tx, err := pgstore.Tx(ctx)
	if err != nil {
		return nil, shipment{}, err
	}
	answer, given := call.Params.InputResponses["confirm"].(*mcp.ElicitResult)
	confirmed := given && answer.Action == "accept"
	if _, err := tx.Exec(ctx, `INSERT INTO payments VALUES ($1, $2)`, in.Item, confirmed); err != nil {
		return nil, shipment{}, err
	}
	switch {
	case !given:
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"confirm": &mcp.ElicitParams{Message: "Pay?"}}}, shipment{}, nil
	case !confirmed:
		return nil, shipment{}, errors.New("not confirmed")
	default:
		return nil, shipment{Receipts: []string{in.Item}}, nil
	}
}

// newAgent connects a client in memory to a server with the tool, guarded over the database.
// The client confirms as the answers say.
func newAgent(t *testing.T, db *pgxpool.Pool, answers <-chan string) *child {
	t.Helper()
	engine := service.Engine(t, pgstore.New(db), core.SharedScope)
	table, err := policy.NewTable(policy.Row("TOOL order", pgstore.Transactional(), policy.StoreTimeout(longest)))
	testkit.Must(t, err)
	guard, err := idemmcp.New(engine, table)
	testkit.Must(t, err)
	server := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "order"}, buy)
	server.AddReceivingMiddleware(guard.Receive)
	client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			select {
			case action := <-answers:
				return &mcp.ElicitResult{Action: action}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
	})
	clientSide, serverSide := mcp.NewInMemoryTransports()
	serving, err := server.Connect(t.Context(), serverSide, nil)
	testkit.Must(t, err)
	session, err := client.Connect(t.Context(), clientSide, nil)
	testkit.Must(t, err)
	t.Cleanup(func() {
		_ = session.Close()
		_ = serving.Wait()
	})
	return &child{ClientSession: session}
}

// The rows of a tool and its result are committed together: of a request for input and of a
// refusal no row stays, and of a payment one.
func TestTransaction(t *testing.T) {
	t.Parallel()
	db, answers := newLedger(t), make(chan string, 2)
	agent := newAgent(t, db, answers)

	answers <- "decline"
	if result, err := agent.order(t, "k1"); err != nil || !result.IsError {
		t.Errorf("the refusal: %+v, %v", result, err)
	}
	answers <- "accept"
	for _, replayed := range []any{nil, true} {
		if result, err := agent.order(t, "k1"); err != nil || result.IsError || result.Meta["replayed"] != replayed {
			t.Errorf("the payment: %+v, %v", result, err)
		}
	}
	var rows, confirmed int
	count := db.QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE confirmed) FROM payments`)
	if err := count.Scan(&rows, &confirmed); err != nil || rows != 1 || confirmed != 1 {
		t.Errorf("there are %d payments, %d confirmed, %v: want 1", rows, confirmed, err)
	}
}
