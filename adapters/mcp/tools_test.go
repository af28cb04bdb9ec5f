package idemmcp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	idemmcp "github.com/oncekey/oncekey/adapters/mcp"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// Arguments that the schema of the tool refuses use no key, and find no stored result.
func TestValidation(t *testing.T) {
	t.Parallel()
	overAll(t, setup{raw: nothing, options: &mcp.ServerOptions{PageSize: 1}}, func(t *testing.T, shop *shop, session *mcp.ClientSession) {
		wrong := args{"amount": "five", "idempotency_key": "k1"}
		plain := send(t, session, &mcp.CallToolParams{Name: "plain", Arguments: wrong})
		guarded := call(t, session, wrong)
		if plain.err != nil || guarded.err != nil || !guarded.result.IsError || asJSON(plain.result) != asJSON(guarded.result) {
			t.Errorf("got %s, %v, want the response of a tool without a row, %s", asJSON(guarded.result), guarded.err, asJSON(plain.result))
		}
		call(t, session, keyed("k1", 5)).wantPaid(t, 5, false)
		if again := call(t, session, wrong); asJSON(again.result) != asJSON(plain.result) {
			t.Errorf("after the run: got %s, %v", asJSON(again.result), again.err)
		}
		for _, arguments := range []any{[]int{1}, "text", nil} {
			got := send(t, session, &mcp.CallToolParams{Name: "raw", Arguments: arguments, Meta: mcp.Meta{"idempotency-key": "k2"}})
			if got.err != nil || got.result.IsError != (arguments != nil) {
				t.Errorf("arguments %v: got %s, %v", arguments, asJSON(got.result), got.err)
			}
		}
		shop.wantRuns(t, 2) // one of each
	})
}

// A tool that is replaced has its new schema at once. A tool that the server does not have
// is an error that uses no key.
func TestReplacedTool(t *testing.T) {
	t.Parallel()
	made, session := newSession(t, setup{policy: []policy.Option{policy.OnAbandoned(policy.Refuse)}})
	call(t, session, keyed("k1", 5)).wantPaid(t, 5, false)
	named := args{"amount": "five", "idempotency_key": "k2"}
	if got := call(t, session, named); got.err != nil || !got.result.IsError {
		t.Errorf("before: got %s, %v", asJSON(got.result), got.err)
	}
	made.server.RemoveTools("charge")
	for range 2 {
		if got := call(t, session, named); got.err == nil || !strings.Contains(got.err.Error(), `unknown tool "charge"`) {
			t.Errorf("without the tool: got %s, %v", asJSON(got.result), got.err)
		}
	}
	type words struct {
		Amount string `json:"amount"`
		Key    string `json:"idempotency_key"`
	}
	mcp.AddTool(made.server, &mcp.Tool{Name: "charge"}, func(context.Context, *mcp.CallToolRequest, words) (*mcp.CallToolResult, payment, error) {
		return nil, payment{"pay_1", 5}, nil
	})
	call(t, session, named).wantPaid(t, 5, false)
	call(t, session, named).wantPaid(t, 5, true)

	// The defaults of the schema count, as in the SDK.
	currency := map[string]any{"type": "object", "minProperties": 3, "properties": args{"currency": args{"type": "string", "default": "EUR"}}}
	made.server.AddTool(&mcp.Tool{Name: "raw", InputSchema: currency}, nothing)
	if got := send(t, session, &mcp.CallToolParams{Name: "raw", Arguments: keyed("k3", 5)}); got.err != nil || got.result.IsError {
		t.Errorf("a member with a default: got %s, %v", asJSON(got.result), got.err)
	}
}

// The tools are listed for the first call, and for calls that their schema refuses.
func TestSchemasAreKept(t *testing.T) {
	t.Parallel()
	made := newShop(t, setup{})
	lists := 0
	server := mcp.NewServer(&mcp.Implementation{Name: "shop"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "charge"}, paid)
	server.AddReceivingMiddleware(made.guard.Receive, func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
			if method == "tools/list" {
				lists++
			}
			return next(ctx, method, request)
		}
	})
	session := inMemory("2026-07-28")(t, server, newClient(nil))
	for i, amount := range []any{5, 5, "five", 5} {
		call(t, session, args{"amount": amount, "idempotency_key": "k1"})
		testkit.Equal(t, lists, []int{1, 1, 2, 2}[i], "lists of the tools after call %d", i+1)
	}
}

// Middleware inside of the guard may refuse the list of tools, or hide tools: they are
// guarded all the same.
func TestHiddenTools(t *testing.T) {
	t.Parallel()
	for _, hidden := range []error{nil, errors.New("no list")} {
		made := newShop(t, setup{})
		server := mcp.NewServer(&mcp.Implementation{Name: "shop"}, nil)
		mcp.AddTool(server, &mcp.Tool{Name: "charge"}, func(ctx context.Context, call *mcp.CallToolRequest, in order) (*mcp.CallToolResult, payment, error) {
			made.runs.Add(1)
			return paid(ctx, call, in)
		})
		server.AddReceivingMiddleware(made.guard.Receive, func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
				if method != "tools/list" {
					return next(ctx, method, request)
				}
				if hidden != nil {
					return nil, hidden
				}
				return &mcp.ListToolsResult{Tools: []*mcp.Tool{}}, nil
			}
		})
		session := inMemory("2026-07-28")(t, server, newClient(nil))
		call(t, session, keyed("k1", 5)).wantPaid(t, 5, false)
		call(t, session, keyed("k1", 5)).wantPaid(t, 5, true)
		made.wantRuns(t, 1)
	}
}

// A retry of the same user on a new session gets the result. The same key of another user
// is another key, and a call without a user is refused. The engine serves HTTP too.
func TestTokenScope(t *testing.T) {
	t.Parallel()
	made := newShop(t, setup{scope: idemmcp.TokenScope})
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		if token == "nobody" {
			token = ""
		}
		return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
	}
	signIn := auth.RequireBearerToken(verify, nil)
	mux := http.NewServeMux()
	mux.Handle("/mcp", signIn(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return made.server }, nil)))
	mux.Handle("POST /payments", signIn(made.engine.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))))
	url := listen(t, mux)
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		as := func(user string) *mcp.ClientSession {
			return connectTo(t, url+"/mcp", newClient(nil), version, http.Header{"Authorization": {"Bearer " + user}})
		}
		call(t, as("alice"), keyed(version, 5)).wantPaid(t, 5, false)
		call(t, as("alice"), keyed(version, 5)).wantPaid(t, 5, true)
		call(t, as("bob"), keyed(version, 5)).wantPaid(t, 5, false)
		call(t, as("nobody"), keyed(version, 5)).wantProblem(t, problem.PrincipalMissing)
	}
	made.wantRuns(t, 4)
	local := inMemory("2026-07-28")(t, made.server, newClient(nil))
	call(t, local, keyed("k1", 5)).wantProblem(t, problem.PrincipalMissing)
	// The token of a connection is not that of a call, which may be another user's.
	contexts := make(chan context.Context, 1)
	first := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
	first.Header.Set("Authorization", "Bearer alice")
	signIn(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { contexts <- r.Context() })).ServeHTTP(httptest.NewRecorder(), first)
	clientSide, serverSide := mcp.NewInMemoryTransports()
	serving, err := made.server.Connect(await(t, contexts), serverSide, nil)
	testkit.Must(t, err)
	session, err := newClient(nil).Connect(t.Context(), clientSide, nil)
	testkit.Must(t, err)
	call(t, session, keyed("k1", 5)).wantProblem(t, problem.PrincipalMissing)
	_ = session.Close()
	_ = serving.Wait()
	for user, want := range map[string]int{"alice": http.StatusCreated, "nobody": http.StatusUnauthorized} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/payments", nil)
		r.Header = http.Header{"Authorization": {"Bearer " + user}, "Idempotency-Key": {"k"}}
		w := testkit.Serve(mux, r)
		if w.Code != want {
			t.Errorf("%s got %d over HTTP, want %d: %s", user, w.Code, want, w.Body)
		}
	}
}

// A Scope may read the arguments, and the header of the HTTP request.
func TestScopes(t *testing.T) {
	t.Parallel()
	scope := core.ScopeBy(func(r *http.Request) (string, error) {
		if r.Header.Get("X-Tenant") != "t1" {
			return "", fmt.Errorf("the header is %v", r.Header)
		}
		call := idemmcp.CallFrom(r.Context())
		if call == nil || call.Params.Name != "charge" {
			return "", errors.New("no call")
		}
		return "t1 " + string(call.Params.Arguments[len(call.Params.Arguments)-3]), nil
	})
	made := newShop(t, setup{scope: scope})
	url := listen(t, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return made.server }, nil))
	session := connectTo(t, url, newClient(nil), "2026-07-28", http.Header{"X-Tenant": {"t1"}})
	for _, account := range []string{"a", "b"} {
		call(t, session, args{"amount": 5, "idempotency_key": "k1", "note": account}).wantPaid(t, 5, false)
	}
	if idemmcp.CallFrom(t.Context()) != nil {
		t.Error("a context without a call has one")
	}
}

// The list of tools shows guarded tools as idempotent, but those that run without a key too.
// The server's tools stay as they are.
func TestHints(t *testing.T) {
	t.Parallel()
	tool := &mcp.Tool{Name: "raw", InputSchema: map[string]any{"type": "object"}, Annotations: &mcp.ToolAnnotations{Title: "Raw"}}
	skip := policy.SkipIf(func(*http.Request) bool { return true })
	for i, option := range []policy.Option{policy.TTLHours(48), policy.ObserveOnly(true), policy.Required(false), skip} {
		overAll(t, setup{policy: []policy.Option{option}}, func(t *testing.T, shop *shop, session *mcp.ClientSession) {
			shop.server.AddTool(tool, nothing)
			var hinted []string
			for listed, err := range session.Tools(t.Context(), nil) {
				testkit.Must(t, err)
				if listed.Annotations != nil && listed.Annotations.IdempotentHint {
					hinted = append(hinted, listed.Name)
				}
				if listed.Name == "raw" && listed.Annotations.Title != "Raw" {
					t.Errorf("the annotations are %+v", listed.Annotations)
				}
			}
			want := []string{"charge", "raw"}
			if i > 0 {
				want = nil
			}
			testkit.EqualSlices(t, hinted, want, "option %d: idempotent", i)
		})
	}
	if tool.Annotations.IdempotentHint {
		t.Error("the server's tool was changed")
	}
}

// Audit reports the rows without a tool, and the tools without a row.
func TestAudit(t *testing.T) {
	t.Parallel()
	made := newShop(t, setup{})
	add := func(name string, annotations *mcp.ToolAnnotations) {
		made.server.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}, Annotations: annotations}, nothing)
	}
	add("read", &mcp.ToolAnnotations{ReadOnlyHint: true})
	add("put", &mcp.ToolAnnotations{IdempotentHint: true})
	add("bare", nil)
	report, err := made.guard.Audit(t.Context(), made.server)
	testkit.Must(t, err)
	unguarded := []string{
		"the tool bare is not guarded: no idempotency policy covers it, so a retry runs it again",
		"the tool plain is not guarded: no idempotency policy covers it, so a retry runs it again",
	}
	if fmt.Sprint(report.Errors) != "[policy: row 3: TOOL raw matches no tool of the server: add the tool]" || !slices.Equal(report.Warnings, unguarded) {
		t.Errorf("got %+v", report)
	}
	add("raw", &mcp.ToolAnnotations{ReadOnlyHint: true})
	if report, err = made.guard.Audit(t.Context(), made.server); err != nil || len(report.Errors) != 1 || !strings.Contains(report.Errors[0].Error(), "TOOL raw has the annotation readOnlyHint") {
		t.Errorf("got %+v, %v", report, err)
	}
	add("raw", nil)
	if report, err = made.guard.Audit(t.Context(), made.server); err != nil || report.Err() != nil {
		t.Errorf("got %+v, %v", report, err)
	}

	optional := newShop(t, setup{policy: []policy.Option{policy.Required(false)}})
	if report, err = optional.guard.Audit(t.Context(), optional.server); err != nil || len(report.Errors) != 1 { // raw is no tool
		t.Errorf("got %+v, %v", report, err)
	}

	open := mcp.NewServer(&mcp.Implementation{Name: "shop"}, nil)
	mcp.AddTool(open, &mcp.Tool{Name: "charge"}, paid)
	open.AddTool(&mcp.Tool{Name: "raw", InputSchema: map[string]any{"type": "object"}, Annotations: &mcp.ToolAnnotations{Title: "Raw"}}, nothing)
	report, err = made.guard.Audit(t.Context(), open)
	if err != nil || len(report.Errors) != 2 || !strings.Contains(report.Errors[0].Error(), "TOOL charge is not guarded: give guard.Receive") {
		t.Errorf("a server without the guard: %+v, %v", report, err)
	}
	open.AddReceivingMiddleware(func(mcp.MethodHandler) mcp.MethodHandler {
		return func(context.Context, string, mcp.Request) (mcp.Result, error) {
			return nil, errors.New("sign in first")
		}
	})
	if _, err := made.guard.Audit(t.Context(), open); err == nil || !strings.Contains(err.Error(), "sign in first") {
		t.Errorf("a server that refuses the client: %v", err)
	}
}

// nothing is the handler of a tool that returns an empty result.
func nothing(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{}, nil
}
