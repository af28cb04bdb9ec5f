package examples_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	"github.com/oncekey/oncekey/adapters/commerce"
	idemmcp "github.com/oncekey/oncekey/adapters/mcp"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

func serveACP(r chi.Router, store storage.Store, client func(*http.Request) (string, error), create http.HandlerFunc) error {
	profile := commerce.ACP() // or commerce.UCP(), commerce.AdCP()
	engine, err := core.New(store, core.ScopeBy(client), profile.Options()...)
	if err != nil {
		return err
	}
	idem := idemchi.New(engine)
	r.With(idem.Policy(policy.From(profile.Policy))).Post("/checkout_sessions", create)
	_, err = engine.Route(policy.From(profile.Policy), policy.TTLHours(1))
	return err
}

func serveAdCP(server *mcp.Server, store storage.Store) error {
	profile := commerce.AdCP()
	engine, err := core.New(store, idemmcp.TokenScope, profile.Options()...)
	if err != nil {
		return err
	}
	table, err := policy.NewTable(policy.Row("TOOL create_media_buy", policy.From(profile.Policy)))
	if err != nil {
		return err
	}
	guard, err := idemmcp.New(engine, table, idemmcp.AdCP()) // ACP has an option too, and UCP needs none
	if err != nil {
		return err
	}
	server.AddReceivingMiddleware(guard.Receive)
	return nil
}

// The snippet of docs/agents.md guards a tool of MCP: a call without a token is refused as AdCP
// wants, and runs nothing.
func TestServeAProtocolOverMCP(t *testing.T) {
	t.Parallel()
	server, ran := mcp.NewServer(&mcp.Implementation{Name: "seller"}, nil), false
	server.AddTool(&mcp.Tool{Name: "create_media_buy", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		ran = true
		return &mcp.CallToolResult{}, nil
	})
	testkit.Must(t, serveAdCP(server, memstore.New()))
	clientSide, serverSide := mcp.NewInMemoryTransports()
	serving, err := server.Connect(t.Context(), serverSide, nil)
	testkit.Must(t, err)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "agent"}, nil).Connect(t.Context(), clientSide, nil)
	testkit.Must(t, err)
	defer func() {
		_ = session.Close()
		_ = serving.Wait()
	}()
	got, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "create_media_buy", Arguments: map[string]any{"idempotency_key": "5b0f6f0e-0a52-4d9b-9f42"}})
	if err != nil || !got.IsError || ran {
		t.Fatalf("got %+v and %v, ran %v", got, err, ran)
	}
	body, err := json.Marshal(got.StructuredContent)
	if err != nil || !strings.Contains(string(body), "AUTH_REQUIRED") {
		t.Errorf("got %s and %v", body, err)
	}
}

// The snippet of docs/agents.md serves ACP's rules, and the page has the error of a policy
// that breaks one.
func TestServeAProtocol(t *testing.T) {
	t.Parallel()
	made := 0
	r := chi.NewRouter()
	refused := serveACP(r, memstore.New(), func(r *http.Request) (string, error) { return r.Header.Get("Authorization"), nil }, func(w http.ResponseWriter, _ *http.Request) {
		made++
		w.WriteHeader(http.StatusCreated)
	})
	field, is := errors.AsType[*policy.FieldError](refused)
	if page := readPage(t, "../docs/agents.md"); !is || !strings.Contains(page.text, "\n"+field.Error()+"\n") {
		t.Errorf("docs/agents.md does not have the error\n%v", refused)
	}
	for attempt, replayed := range []string{"", "true", "true"} {
		post := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/checkout_sessions", strings.NewReader(`{"items":[]}`))
		post.Header.Set("Authorization", "Bearer agent")
		post.Header.Set(core.KeyHeader, "k")
		w := httptest.NewRecorder()
		r.ServeHTTP(w, post)
		if w.Code != http.StatusCreated || w.Header().Get("Idempotent-Replayed") != replayed || made != 1 {
			t.Errorf("attempt %d got %d %v, and %d sessions are made", attempt+1, w.Code, w.Header(), made)
		}
	}
}

var codeInBody = regexp.MustCompile(`"code":"(\w+)"`)

// The table of docs/agents.md has the status and the code of each protocol's response.
func TestAgentsTable(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(readPage(t, "../docs/agents.md").text, "\n| the guard says | ACP | UCP | AdCP | do |\n|---|---|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := 0
	for row := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(row, "|")
		code := strings.Trim(strings.Fields(cells[3])[1], "`")
		for i, profile := range []commerce.Profile{commerce.ACP(), commerce.UCP(), commerce.AdCP()} {
			w := httptest.NewRecorder()
			profile.WriteProblem(w, nil, *problem.New(code, ""))
			want := strconv.Itoa(w.Code) + " `" + codeInBody.FindStringSubmatch(w.Body.String())[1] + "`"
			if code == problem.KeyExpired && i == 0 {
				want = "the key is new" // a policy with RememberHours is refused
			}
			testkit.Equal(t, strings.TrimSpace(cells[2+i]), want, "the cell of %s in column %d", code, 2+i)
		}
		rows++
	}
	testkit.Equal(t, rows, 11, "rows of the table")
}
