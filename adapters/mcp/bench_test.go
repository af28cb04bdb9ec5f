package idemmcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// BenchmarkReceive is the time that the guard adds to a call, without a transport: of a tool
// without a row, of a first call, and of a replay.
func BenchmarkReceive(b *testing.B) {
	_, guard, err := guarding(memstore.New(), core.SharedScope, []core.Option{quiet}, []policy.TableRow{policy.Row("TOOL charge")})
	testkit.Must(b, err)
	schema, err := jsonschema.For[order](nil)
	testkit.Must(b, err)
	result := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: `{"payment_id":"pay_1","amount":5}`}}, StructuredContent: payment{"pay_1", 5}}
	receive := guard.Receive(func(_ context.Context, method string, _ mcp.Request) (mcp.Result, error) {
		if method == "tools/list" {
			return &mcp.ListToolsResult{Tools: []*mcp.Tool{{Name: "charge", InputSchema: schema}}}, nil
		}
		return result, nil
	})
	for name, test := range map[string]struct{ tool, key string }{
		"no row": {"plain", "k"}, "first": {"charge", ""}, "replay": {"charge", "k"},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				key := test.key
				if key == "" {
					n++
					key = fmt.Sprint(b.N, "-", n)
				}
				arguments := json.RawMessage(`{"amount":5,"note":"a short note","idempotency_key":"` + key + `"}`)
				call := &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Name: test.tool, Arguments: arguments}}
				if _, err := receive(b.Context(), "tools/call", call); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
