package idemmcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oncekey/oncekey/adapters/commerce"
	idemmcp "github.com/oncekey/oncekey/adapters/mcp"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// The rules of the protocols' bindings to MCP, one test a rule. adapters/commerce has those of
// HTTP.

// merchant is a server of one protocol with a tool that changes state.
type merchant struct {
	server *mcp.Server
	runs   atomic.Int32
	answer func(ctx context.Context, call *mcp.CallToolRequest) (*mcp.CallToolResult, error)
}

func newMerchant(t *testing.T, store storage.Store, profile commerce.Profile, tool string, options ...idemmcp.Option) *merchant {
	t.Helper()
	client := func(r *http.Request) (string, error) {
		if call := idemmcp.CallFrom(r.Context()); call != nil {
			who, _ := call.Params.Meta["client"].(string)
			return "client " + who, nil
		}
		return "", nil
	}
	rows := []policy.TableRow{policy.Row("TOOL "+tool, policy.From(profile.Policy))}
	engine, guard, err := guarding(store, client, append(profile.Options(), quiet), rows, options...)
	testkit.Must(t, err)
	shutDown(t, engine)
	m := &merchant{server: mcp.NewServer(&mcp.Implementation{Name: "merchant", Version: "1"}, nil)}
	m.answer = func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{StructuredContent: map[string]any{"id": m.runs.Load()}, Content: []mcp.Content{}}, nil
	}
	m.server.AddTool(&mcp.Tool{Name: tool, InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, call *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		m.runs.Add(1)
		return m.answer(ctx, call)
	})
	m.server.AddReceivingMiddleware(guard.Receive)
	return m
}

// agent calls the merchant's tool with arguments as they are written.
type agent func(arguments string) response

func agentFor(t *testing.T, server *mcp.Server, tool, client string) agent {
	t.Helper()
	session := inMemory("2025-11-25")(t, server, newClient(nil))
	return func(arguments string) response {
		t.Helper()
		return send(t, session, &mcp.CallToolParams{Name: tool, Meta: mcp.Meta{"client": client}, Arguments: json.RawMessage(arguments)})
	}
}

// is expects a result of the run with this number.
func (r response) is(t *testing.T, run int, replayed bool) {
	t.Helper()
	if r.err != nil || r.result.IsError || asJSON(r.result.StructuredContent) != asJSON(map[string]any{"id": run}) || (r.result.Meta["replayed"] == true) != replayed {
		t.Errorf("got %s and %v, want the result of run %d, replayed %v", asJSON(r.result), r.err, run, replayed)
	}
}

// refused expects an error of JSON-RPC with this data.
func (r response) refused(t *testing.T, data string) {
	t.Helper()
	wire, is := errors.AsType[*jsonrpc.Error](r.err)
	if !is || wire.Code != -32000 {
		t.Errorf("got %s and %v, want an error -32000", asJSON(r.result), r.err)
		return
	}
	if !sameJSON(string(wire.Data), data) {
		t.Errorf("got the data %s\nwant %s", wire.Data, data)
	}
}

func sameJSON(a, b string) bool {
	var one, other any
	return json.Unmarshal([]byte(a), &one) == nil && json.Unmarshal([]byte(b), &other) == nil && asJSON(one) == asJSON(other)
}

const completeACP = "complete_checkout_session"

// acp returns arguments of ACP: the envelope meta, the resource and the body.
func acp(key, meta, payload string) string {
	if key != "" {
		meta = `"idempotency_key":"` + key + `",` + meta
	}
	return `{"meta":{` + meta + `"api_version":"2026-04-17"},"id":"cs_1","payload":` + payload + `}`
}

// ACP 6.1 to 6.4 over MCP: the key is meta.idempotency_key and required, bodies are equal by
// value, the rest of meta does not count, and errors are ACP's own in data.
func TestACPOverMCP(t *testing.T) {
	t.Parallel()
	m := newMerchant(t, memstore.New(), commerce.ACP(), completeACP, idemmcp.ACP())
	call := agentFor(t, m.server, completeACP, "a")
	call(acp("", "", `{}`)).refused(t, `{"type":"invalid_request","code":"idempotency_key_required","message":"An idempotency key is required"}`)
	call(acp("k", `"timestamp":"1","signature":"s1",`, `{"amount":1,"note":null}`)).is(t, 1, false)
	call(acp("k", `"timestamp":"2","signature":"s2","request_id":"r",`, `{"note":null,"amount":1.0}`)).is(t, 1, true)
	conflict := `{"type":"invalid_request","code":"idempotency_conflict","message":"` + problem.New(problem.KeyReused, "").Detail + `"}`
	for _, other := range []string{acp("k", "", `{"amount":2,"note":null}`), acp("k", "", `{"amount":1}`), strings.Replace(acp("k", "", `{"amount":1,"note":null}`), "cs_1", "cs_2", 1)} {
		call(other).refused(t, conflict)
	}
	agentFor(t, m.server, completeACP, "b")(acp("k", "", `{"amount":2}`)).is(t, 2, false) // another identity
}

// ACP 6.4 and 6.5 over MCP: a call in progress may be retried after retry_after, another payload
// may not, and an error frees the key.
func TestACPInFlightOverMCP(t *testing.T) {
	t.Parallel()
	m := newMerchant(t, memstore.New(), commerce.ACP(), completeACP, idemmcp.ACP())
	began, end := make(chan struct{}), make(chan struct{})
	m.answer = func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		began <- struct{}{}
		<-end
		return nil, errors.New("no connection")
	}
	first, second := agentFor(t, m.server, completeACP, "a"), agentFor(t, m.server, completeACP, "a")
	for range 2 {
		ended := make(chan response)
		go func() { ended <- first(acp("k", "", `{"amount":1}`)) }()
		<-began
		second(acp("k", "", `{"amount":1}`)).refused(t, `{"type":"invalid_request","code":"idempotency_in_flight","message":"`+problem.New(problem.InProgress, "").Detail+`","retry_after":1}`)
		second(acp("k", "", `{"amount":2}`)).refused(t, `{"type":"invalid_request","code":"idempotency_conflict","message":"`+problem.New(problem.KeyReused, "").Detail+`"}`)
		end <- struct{}{}
		if got := <-ended; got.err == nil && !got.result.IsError {
			t.Errorf("got %s", asJSON(got.result))
		}
	}
}

const (
	completeUCP = "complete_checkout"
	strongKey   = "550e8400-e29b-41d4-a716-446655440000"
)

func ucp(key, checkout string) string {
	return `{"meta":{"ucp-agent":{"profile":"https://platform.example/agent.json"},"idempotency-key":"` + key + `"},"id":"c_1","checkout":` + checkout + `}`
}

// UCP's Replay Protection over MCP: the key is meta["idempotency-key"] with 128 bits, equal
// bytes are a duplicate, a mismatch is -32000, and a failed store is too.
func TestUCPOverMCP(t *testing.T) {
	t.Parallel()
	m := newMerchant(t, memstore.New(), commerce.UCP(), completeUCP)
	call := agentFor(t, m.server, completeUCP, "a")
	call(`{"id":"c_1"}`).refused(t, `{"code":"key_missing","content":"An idempotency key is required"}`)
	call(ucp("short", `{}`)).refused(t, `{"code":"key_invalid","content":"Idempotency-Key must be a key that matches [!-~]{22,255}"}`)
	call(ucp(strongKey, `{"a":1,"b":2}`)).is(t, 1, false)
	call(ucp(strongKey, `{"a":1,"b":2}`)).is(t, 1, true)
	for _, other := range []string{`{"b":2,"a":1}`, `{"a":1,"b":2.0}`, `{"a":1}`} {
		call(ucp(strongKey, other)).refused(t, `{"code":"key_reused","content":"`+problem.New(problem.KeyReused, "").Detail+`"}`)
	}
	agentFor(t, m.server, completeUCP, "b")(ucp(strongKey, `{"a":1}`)).is(t, 2, false)
	down := newMerchant(t, downStore(), commerce.UCP(), completeUCP)
	agentFor(t, down.server, completeUCP, "a")(ucp(strongKey, `{}`)).refused(t, `{"code":"store_unavailable","retry_after":1,"content":"This request was not processed, but an earlier one with the same Idempotency-Key may have been: retry later with the same key."}`)
	testkit.Equal(t, down.runs.Load(), 0, "the tool ran without a store")
}

const buyKey = "5b0f6f0e-0a52-4d9b-9f42-000000000001"

func buy(members string) string {
	return `{"idempotency_key":"` + buyKey + `","account":{"id":"a"},"packages":[{"budget":5000}]` + members + `}`
}

// failed expects a result with one error of AdCP, in the envelope and in the payload, and the
// context of the call.
func (r response) failed(t *testing.T, code, context string) map[string]any {
	t.Helper()
	var body struct {
		Envelope map[string]any `json:"adcp_error"`
		Errors   []map[string]any
		Context  any
		Replayed any
	}
	if r.err != nil || !r.result.IsError || json.Unmarshal([]byte(asJSON(r.result.StructuredContent)), &body) != nil || len(body.Errors) != 1 {
		t.Fatalf("got %s and %v", asJSON(r.result), r.err)
	}
	said, _ := r.result.Content[0].(*mcp.TextContent)
	recovery := any("correctable")
	switch code {
	case "RATE_LIMITED":
		recovery = "transient"
	case "IDEMPOTENCY_CONFLICT":
		recovery = nil
	}
	if got := body.Errors[0]; asJSON(got) != asJSON(body.Envelope) || got["code"] != code || got["recovery"] != recovery || asJSON(body.Context) != context || body.Replayed != nil || said == nil || !sameJSON(said.Text, asJSON(r.result.StructuredContent)) {
		t.Errorf("got %s, want %s with the context %s", asJSON(r.result), code, context)
	}
	return body.Errors[0]
}

// AdCP, rules 1, 3, 4, 5 over MCP: arguments are validated before the key counts, only a success
// is kept, a replay is marked and has the new call's context, and a conflict leaks nothing.
func TestAdCPOverMCP(t *testing.T) {
	t.Parallel()
	s, server := newSeller(t)
	call := agentFor(t, server, "create_media_buy", "")
	s.fail = true
	if got := call(buy("")); got.err != nil || !got.result.IsError || len(s.buys) != 0 {
		t.Fatalf("got %s", asJSON(got.result))
	}
	bought := func(got response, id, context, replayed string) {
		t.Helper()
		var body map[string]any
		if got.err != nil || got.result.IsError || json.Unmarshal([]byte(asJSON(got.result.StructuredContent)), &body) != nil ||
			body["media_buy_id"] != id || asJSON(body["context"]) != context || asJSON(body["replayed"]) != replayed || asJSON(got.result.Meta["replayed"]) != replayed {
			t.Errorf("got %s and %v, want %s, the context %s and replayed %s", asJSON(got.result), got.err, id, context, replayed)
		}
		if said, is := got.result.Content[0].(*mcp.TextContent); !is || !sameJSON(said.Text, asJSON(body)) {
			t.Errorf("the text is not the structured content: %s", asJSON(got.result))
		}
	}
	bought(call(buy(`,"context":{"try":1},"ext":{"context":"x"}`)), "mb_1", `{"try":1}`, "null")
	bought(call(buy(`,"ext":{"context":"x"},"context":{"try":2},"governance_context":"g"`)), "mb_1", `{"try":2}`, "true")
	bought(call(buy(`,"ext":{"context":"x"}`)), "mb_1", "null", "true")
	conflict := call(buy(`,"ext":{"context":"y"},"context":{"try":3}`)).failed(t, "IDEMPOTENCY_CONFLICT", `{"try":3}`)
	testkit.Equal(t, len(conflict), 2, "the conflict says more than its code and message: %v", conflict)
	call(`{"idempotency_key":"`+buyKey+`","context":{"try":4}}`).failed(t, "INVALID_REQUEST", `{"try":4}`)
	call(`{"account":{},"packages":[]}`).failed(t, "INVALID_REQUEST", "null")
	call(`{"account":{},"packages":[],"idempotency_key":"short"}`).failed(t, "INVALID_REQUEST", "null")
	testkit.Equal(t, len(s.buys), 1, "buys")
}

// A text of the tool's own stays beside the envelope's members. One that repeats the structured
// content changes with it (TestAdCPOverMCP).
func TestOwnTextBesideTheEnvelope(t *testing.T) {
	t.Parallel()
	m := newMerchant(t, memstore.New(), commerce.AdCP(), "create_media_buy", idemmcp.AdCP())
	m.answer = func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{StructuredContent: map[string]any{"id": 1}, Content: []mcp.Content{&mcp.TextContent{Text: `{"bought":1}`}}}, nil
	}
	call := agentFor(t, m.server, "create_media_buy", "")
	for _, want := range []string{`{"id":1}`, `{"id":1,"replayed":true}`} {
		got := call(buy(""))
		if said, is := got.result.Content[0].(*mcp.TextContent); !is || said.Text != `{"bought":1}` || !sameJSON(asJSON(got.result.StructuredContent), want) {
			t.Errorf("got %s, want %s", asJSON(got.result), want)
		}
	}
}

// AdCP, rule 6 over MCP: a minute of tolerance at the end of the window, and
// IDEMPOTENCY_EXPIRED after it.
func TestAdCPExpiryOverMCP(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, server := newSeller(t)
		call := agentFor(t, server, "create_media_buy", "")
		call(buy(""))
		time.Sleep(24*time.Hour + 59*time.Second) //nolint:forbidigo // in a bubble
		if got := call(buy("")); got.err != nil || got.result.IsError {
			t.Errorf("got %s and %v", asJSON(got.result), got.err)
		}
		time.Sleep(2 * time.Second) //nolint:forbidigo // in a bubble
		call(buy("")).failed(t, "IDEMPOTENCY_EXPIRED", "null")
		testkit.Equal(t, len(s.buys), 1, "buys")
	})
}

// AdCP, rule 8 over MCP: over the limit of its agent a new key is RATE_LIMITED with retry_after,
// and keeps the new call's context. A replay passes.
func TestAdCPFloodOverMCP(t *testing.T) {
	t.Parallel()
	s, server := newSeller(t, core.WithScopeLimit(core.ScopeLimit{PerMinute: 1}))
	call := agentFor(t, server, "create_media_buy", "")
	first := call(buy(""))
	for n := range 20 {
		flood := strings.Replace(buy(`,"context":{"try":1}`), buyKey, fmt.Sprintf("%s-%d", buyKey, n), 1)
		refused := call(flood).failed(t, "RATE_LIMITED", `{"try":1}`)
		if wait, is := refused["retry_after"].(float64); !is || wait < 1 || wait > 60 {
			t.Fatalf("got %v, want a retry_after in this minute", refused)
		}
	}
	again := call(buy(""))
	if first.err != nil || again.err != nil || again.result.IsError || asJSON(again.result.Meta["replayed"]) != "true" || len(s.buys) != 1 {
		t.Errorf("a replay got %s and %v, after %d buys", asJSON(again.result), again.err, len(s.buys))
	}
}
