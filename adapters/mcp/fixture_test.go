package idemmcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	idemmcp "github.com/oncekey/oncekey/adapters/mcp"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

func TestMain(m *testing.M) {
	if os.Getenv(serves) != "" {
		serveByStdio()
	}
	goleak.VerifyTestMain(m)
}

// patience bounds every wait of the tests.
const patience = 30 * time.Second

// order is the input of the tool charge. Its key has every place that protocols use.
type order struct {
	Amount  int            `json:"amount,omitempty"`
	Key     string         `json:"idempotency_key,omitempty"`
	Number  any            `json:"number,omitempty"`
	Note    string         `json:"note,omitempty"`
	Context map[string]any `json:"context,omitempty"`
	Meta    map[string]any `json:"meta,omitempty"`
}

// payment is the output of the tool charge.
type payment struct {
	ID     string `json:"payment_id"`
	Amount int    `json:"amount"`
}

// handler is a tool's handler.
type handler = mcp.ToolHandlerFor[order, payment]

// paid is the handler of a tool that works.
func paid(_ context.Context, _ *mcp.CallToolRequest, in order) (*mcp.CallToolResult, payment, error) {
	return nil, payment{"pay_1", in.Amount}, nil
}

// shop is a server with guarded tools, as one process in production. Several shops over
// one store are several pods.
type shop struct {
	engine *core.Engine
	guard  *idemmcp.Guard
	server *mcp.Server
	events *events
	runs   atomic.Int64
}

// setup has the parts of a shop that a test changes. The zero value is a shop in memory.
type setup struct {
	store   storage.Store
	scope   core.Scope
	engine  []core.Option
	guard   []idemmcp.Option
	policy  []policy.Option
	handle  handler
	raw     mcp.ToolHandler // of the guarded tool raw
	options *mcp.ServerOptions
	outside []mcp.Middleware // of the guard
}

func newShop(t *testing.T, s setup) *shop {
	t.Helper()
	if s.store == nil {
		s.store = memstore.New()
	}
	if s.scope == nil {
		s.scope = core.SharedScope
	}
	if s.handle == nil {
		s.handle = paid
	}
	made := &shop{events: new(events)}
	options := append([]core.Option{core.WithObserver(made.events)}, s.engine...)
	rows := []policy.TableRow{policy.Row("POST /payments"), policy.Row("TOOL charge", s.policy...), policy.Row("TOOL raw", s.policy...)}
	var err error
	made.engine, made.guard, err = guarding(s.store, s.scope, options, rows, s.guard...)
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.End(t, made.engine) })
	made.server = mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, s.options)
	mcp.AddTool(made.server, &mcp.Tool{Name: "charge"}, func(ctx context.Context, call *mcp.CallToolRequest, in order) (*mcp.CallToolResult, payment, error) {
		made.runs.Add(1)
		return s.handle(ctx, call, in)
	})
	if s.raw != nil {
		made.server.AddTool(&mcp.Tool{Name: "raw", InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, call *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			made.runs.Add(1)
			return s.raw(ctx, call)
		})
	}
	mcp.AddTool(made.server, &mcp.Tool{Name: "plain", Annotations: &mcp.ToolAnnotations{Title: "Plain"}}, func(context.Context, *mcp.CallToolRequest, order) (*mcp.CallToolResult, any, error) {
		made.runs.Add(1)
		return &mcp.CallToolResult{}, nil, nil
	})
	made.server.AddReceivingMiddleware(append(s.outside, made.guard.Receive)...)
	return made
}

// guarding returns an engine, and a guard by a table of these rows.
func guarding(store storage.Store, scope core.Scope, options []core.Option, rows []policy.TableRow, more ...idemmcp.Option) (*core.Engine, *idemmcp.Guard, error) {
	engine, err := core.New(store, scope, options...)
	if err != nil {
		return nil, nil, err
	}
	table, err := policy.NewTable(rows...)
	if err != nil {
		return nil, nil, err
	}
	guard, err := idemmcp.New(engine, table, more...)
	return engine, guard, err
}

// newSession returns a shop, and a session of the newest protocol in memory.
func newSession(t *testing.T, s setup) (*shop, *mcp.ClientSession) {
	t.Helper()
	made := newShop(t, s)
	return made, inMemory("2026-07-28")(t, made.server, newClient(nil))
}

func (s *shop) wantRuns(t *testing.T, n int64) {
	t.Helper()
	testkit.Equal(t, s.runs.Load(), n, "runs of the tool")
}

// events are the events of an engine.
type events struct {
	mu  sync.Mutex
	all []event.Event
}

func (e *events) Observe(_ context.Context, happened event.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, happened)
}

func (e *events) count(result event.Result) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, happened := range e.all {
		if happened.Result == result {
			n++
		}
	}
	return n
}

// transports connect clients to a server in each way that the SDK has.
var transports = map[string]connect{
	"in memory":        inMemory("2026-07-28"),
	"in memory, 2025":  inMemory("2025-11-25"),
	"pipes":            connectByPipes,
	"HTTP, SSE":        overHTTP(mcp.StreamableHTTPOptions{}, "2026-07-28"),
	"HTTP, SSE, 2025":  overHTTP(mcp.StreamableHTTPOptions{}, "2025-11-25"), // with sessions
	"HTTP, JSON, 2025": overHTTP(mcp.StreamableHTTPOptions{JSONResponse: true}, "2025-06-18"),
	"stateless, SSE":   overHTTP(mcp.StreamableHTTPOptions{Stateless: true}, "2026-07-28"),
	"stateless, JSON":  overHTTP(mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}, "2026-07-28"),
}

// connect connects a client to a server.
type connect = func(t *testing.T, server *mcp.Server, client *mcp.Client) *mcp.ClientSession

// inMemory connects within the process, by a version of the protocol.
func inMemory(version string) connect {
	return func(t *testing.T, server *mcp.Server, client *mcp.Client) *mcp.ClientSession {
		t.Helper()
		clientSide, serverSide := mcp.NewInMemoryTransports()
		return join(t, server, client, serverSide, clientSide, version)
	}
}

// connectByPipes connects as over stdio: by lines of JSON.
func connectByPipes(t *testing.T, server *mcp.Server, client *mcp.Client) *mcp.ClientSession {
	t.Helper()
	session, _ := severable(t, server, client)
	return session
}

func join(t *testing.T, server *mcp.Server, client *mcp.Client, serverSide, clientSide mcp.Transport, version string) *mcp.ClientSession {
	t.Helper()
	serving, err := server.Connect(t.Context(), serverSide, nil)
	testkit.Must(t, err)
	session, err := client.Connect(t.Context(), clientSide, &mcp.ClientSessionOptions{ProtocolVersion: version})
	testkit.Must(t, err)
	t.Cleanup(func() {
		_ = session.Close()
		_ = serving.Wait()
	})
	return session
}

// overHTTP connects over a server of HTTP.
func overHTTP(opts mcp.StreamableHTTPOptions, version string) connect {
	return func(t *testing.T, server *mcp.Server, client *mcp.Client) *mcp.ClientSession {
		t.Helper()
		handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &opts)
		return connectTo(t, listen(t, handler), client, version, nil)
	}
}

// listen starts a server of HTTP, and returns its URL.
func listen(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// connectTo connects to a URL, with these fields in the header of each request.
func connectTo(t *testing.T, url string, client *mcp.Client, version string, header http.Header) *mcp.ClientSession {
	t.Helper()
	by := &http.Client{Transport: adding{header, http.DefaultTransport.(*http.Transport).Clone()}}
	t.Cleanup(by.CloseIdleConnections)
	transport := &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: by, DisableStandaloneSSE: true, MaxRetries: -1}
	session, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// adding adds fields to each request.
type adding struct {
	header http.Header
	*http.Transport
}

func (a adding) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	maps.Copy(r.Header, a.header)
	return a.Transport.RoundTrip(r)
}

func newClient(opts *mcp.ClientOptions) *mcp.Client {
	return mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, opts)
}

// overAll runs a rule over every transport.
func overAll(t *testing.T, s setup, rule func(t *testing.T, shop *shop, session *mcp.ClientSession)) {
	t.Helper()
	testkit.Each(t, transports, func(t *testing.T, connect connect) {
		made := newShop(t, s)
		rule(t, made, connect(t, made.server, newClient(nil)))
	})
}

// args are the arguments of a call.
type args = map[string]any

// response is the response of a call, as the tests compare it.
type response struct {
	result *mcp.CallToolResult
	err    error
}

// call calls the tool charge.
func call(t *testing.T, session *mcp.ClientSession, arguments any) response {
	t.Helper()
	return send(t, session, &mcp.CallToolParams{Name: "charge", Arguments: arguments})
}

func send(t *testing.T, session *mcp.ClientSession, params *mcp.CallToolParams) response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	result, err := session.CallTool(ctx, params)
	return response{result, err}
}

// keyed are arguments with a key in the place of AdCP.
func keyed(key string, amount int) args { return args{"amount": amount, "idempotency_key": key} }

// problem returns the data of a problem, or nil.
func (r response) problem() map[string]any {
	var data []byte
	switch wire, isError := errors.AsType[*jsonrpc.Error](r.err); {
	case isError && wire.Code == -32000:
		data = wire.Data
	case r.err == nil && r.result.IsError && len(r.result.Content) == 1:
		said, _ := r.result.Content[0].(*mcp.TextContent)
		data = []byte(said.Text)
	}
	members := make(map[string]any)
	if json.Unmarshal(data, &members) != nil {
		return nil
	}
	return members
}

// wantProblem expects a problem that says these words.
func (r response) wantProblem(t *testing.T, code string, words ...string) {
	t.Helper()
	members := r.problem()
	if members["code"] != code {
		t.Errorf("got the result %s and the error %v, want the problem %s", asJSON(r.result), r.err, code)
	}
	for _, word := range words {
		if text := asJSON(members); !strings.Contains(text, word) {
			t.Errorf("the problem is %s, want one with %q", text, word)
		}
	}
}

// wantPaid expects the payment of the amount.
func (r response) wantPaid(t *testing.T, amount int, replayed bool) {
	t.Helper()
	if r.err != nil || r.result.IsError {
		t.Errorf("got the result %s and the error %v, want a payment", asJSON(r.result), r.err)
		return
	}
	var got payment
	if err := json.Unmarshal([]byte(asJSON(r.result.StructuredContent)), &got); err != nil || got != (payment{"pay_1", amount}) {
		t.Errorf("got the payment %s, want %d", asJSON(r.result), amount)
	}
	if marked := r.result.Meta["replayed"] == true; marked != replayed {
		t.Errorf("replayed is %v, want %v: %s", r.result.Meta["replayed"], replayed, asJSON(r.result))
	}
}

func asJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// await receives a value. Its wait has a deadline, and ends with the test: a server waits for
// the handlers of its sessions.
func await[T any](t *testing.T, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-t.Context().Done():
	case <-time.After(patience):
		t.Errorf("nothing happened within %v", patience)
	}
	return value
}

// downStore is a store that cannot be reached.
func downStore() storage.Store {
	return testkit.Failing(memstore.New(), errors.New("connection refused"), testkit.Acquire)
}
