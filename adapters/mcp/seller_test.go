package idemmcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oncekey/oncekey/adapters/commerce"
	idemmcp "github.com/oncekey/oncekey/adapters/mcp"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// seller is a small seller of AdCP, written as its specification asks.
type seller struct {
	mu   sync.Mutex
	buys []map[string]any
	fail bool // the next buy fails
}

// newSeller returns a server of AdCP whose table guards create_media_buy.
func newSeller(t *testing.T, more ...core.Option) (*seller, *mcp.Server) {
	t.Helper()
	profile := commerce.AdCP()
	rows := []policy.TableRow{policy.Row("TOOL create_media_buy", policy.From(profile.Policy))}
	engine, guard, err := guarding(memstore.New(), core.SharedScope, slices.Concat(profile.Options(), more, []core.Option{quiet}), rows, idemmcp.AdCP())
	testkit.Must(t, err)
	shutDown(t, engine)
	s, server := new(seller), mcp.NewServer(&mcp.Implementation{Name: "seller", Version: "1"}, nil)
	window := int((profile.Policy.TTL - time.Minute) / time.Second)
	required := func(names ...string) map[string]any {
		names = append([]string{}, names...) // never null
		return map[string]any{"type": "object", "required": names}
	}
	server.AddTool(&mcp.Tool{Name: "get_adcp_capabilities", InputSchema: required()}, answering(func(map[string]any) map[string]any {
		return map[string]any{
			"adcp":                map[string]any{"major_versions": []int{3}, "idempotency": map[string]any{"supported": true, "replay_ttl_seconds": window}},
			"supported_protocols": []string{"media_buy"},
		}
	}))
	server.AddTool(&mcp.Tool{Name: "create_media_buy", InputSchema: required("idempotency_key", "account", "packages")}, answering(s.create))
	server.AddTool(&mcp.Tool{Name: "get_media_buys", InputSchema: required()}, answering(s.list))
	server.AddReceivingMiddleware(guard.Receive)
	return s, server
}

// answering is a tool that sends the context of a call back.
func answering(answer func(in map[string]any) map[string]any) mcp.ToolHandler {
	return func(_ context.Context, call *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var in map[string]any
		if err := json.Unmarshal(call.Params.Arguments, &in); err != nil {
			return nil, err
		}
		out := answer(in)
		if in["context"] != nil {
			out["context"] = in["context"]
		}
		_, failed := out["errors"]
		return &mcp.CallToolResult{StructuredContent: out, Content: []mcp.Content{&mcp.TextContent{Text: asJSON(out)}}, IsError: failed}, nil
	}
}

func (s *seller) create(in map[string]any) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail {
		s.fail = false
		return map[string]any{"errors": []any{map[string]any{"code": "ACCOUNT_SUSPENDED", "message": "The account is suspended.", "recovery": "terminal"}}}
	}
	buy := map[string]any{"media_buy_id": fmt.Sprintf("mb_%d", len(s.buys)+1), "status": "active", "currency": "USD", "total_budget": 5000, "packages": []any{}}
	s.buys = append(s.buys, buy)
	return map[string]any{"media_buy_id": buy["media_buy_id"], "packages": []any{}, "idempotency_key": in["idempotency_key"]}
}

func (s *seller) list(in map[string]any) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := make([]any, 0)
	wanted, _ := in["media_buy_ids"].([]any)
	for _, buy := range s.buys {
		for _, id := range wanted {
			if buy["media_buy_id"] == id {
				found = append(found, buy)
			}
		}
	}
	return map[string]any{"media_buys": found}
}

// The seller passes AdCP's own storyboard of idempotency, which adcp of npm runs: all of its
// graded steps.
func TestAdCPStoryboard(t *testing.T) {
	t.Parallel()
	node, modules := agents(t)
	_, server := newSeller(t)
	streamable := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	url := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") == "application/json" { // one of the runner's probes reads no event streams
			r.Header.Set("Accept", "application/json, text/event-stream")
		}
		streamable.ServeHTTP(w, r)
	}))
	out := run(t, node, filepath.Join(modules, "@adcp", "sdk", "bin", "adcp.js"), "storyboard", "run", url, "idempotency", "--protocol", "mcp", "--no-auth", "--allow-http", "--json")
	var report struct {
		Summary struct {
			Passed  int `json:"steps_passed"`
			Failed  int `json:"steps_failed"`
			Skipped int `json:"steps_skipped"`
		}
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if got := report.Summary; got.Passed != 7 || got.Failed != 0 || got.Skipped != 1 { // the skipped step needs a receiver of webhooks
		t.Errorf("%+v, want 7 graded steps passed:\n%s", got, out)
	}
}
