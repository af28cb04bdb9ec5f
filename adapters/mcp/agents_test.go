package idemmcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/internal/testkit"
	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
	"github.com/oncekey/oncekey/policy"
)

// agents returns Node and the folder of the foreign clients and judges. Without them the test
// is skipped, or fails if the check must run every test.
func agents(t *testing.T) (node, modules string) {
	t.Helper()
	modules, err := filepath.Abs("../../build/agents/node_modules")
	testkit.Must(t, err)
	found, _ := filepath.Glob(filepath.Join(modules, "node-*", "bin", "node"))
	if node = "node"; len(found) > 0 {
		node = found[0]
	}
	if _, err := os.Stat(filepath.Join(modules, "@adcp", "sdk")); err == nil {
		if _, err := exec.LookPath(node); err == nil {
			return node, modules
		}
	}
	serverproc.Missing(t, "no foreign clients of MCP: run sh tools/install-agents.sh in the repository")
	return "", ""
}

// run runs a program of Node, and returns its output.
func run(t *testing.T, node string, arguments ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, node, arguments...)
	command.Env = append(os.Environ(), "NO_COLOR=1", "CI=1")
	command.Dir = t.TempDir()
	out, err := command.Output()
	if err != nil {
		failed := err.Error()
		if exited, is := err.(*exec.ExitError); is { //nolint:errorlint // of Output
			failed += "\n" + string(exited.Stderr)
		}
		t.Errorf("%s\n%s", failed, out)
	}
	return out
}

// plainShop is a server as the README of the SDK and the package comment show one.
func plainShop() (server *mcp.Server, engine *core.Engine, runs *atomic.Int32, err error) {
	engine, guard, err := guarding(memstore.New(), core.SharedScope, []core.Option{quiet}, []policy.TableRow{policy.Row("TOOL charge")})
	if err != nil {
		return nil, nil, nil, err
	}
	type order struct {
		Amount int    `json:"amount"`
		Key    string `json:"idempotency_key,omitempty"`
	}
	server, runs = mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil), new(atomic.Int32)
	mcp.AddTool(server, &mcp.Tool{Name: "charge", Description: "pays"}, func(_ context.Context, _ *mcp.CallToolRequest, in order) (*mcp.CallToolResult, payment, error) {
		runs.Add(1)
		return nil, payment{"pay_1", in.Amount}, nil
	})
	mcp.AddTool(server, &mcp.Tool{Name: "look"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{}, nil, nil
	})
	server.AddReceivingMiddleware(guard.Receive)
	return server, engine, runs, nil
}

// shutDown ends an engine with its test.
func shutDown(t *testing.T, engine *core.Engine) {
	t.Helper()
	t.Cleanup(func() { testkit.Abort(engine) })
}

// endSessions ends the sessions that foreign clients leave open.
func endSessions(t *testing.T, server *mcp.Server) {
	t.Helper()
	t.Cleanup(func() {
		for session := range server.Sessions() {
			_ = session.Close()
		}
	})
}

// serves names the environment variable by which a test's program serves plainShop by stdio.
const serves = "IDEMMCP_SERVES"

// serveByStdio serves until its client leaves.
func serveByStdio() {
	server, _, _, err := plainShop()
	if err == nil {
		err = server.Run(context.Background(), new(mcp.StdioTransport))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A client in JavaScript gets the same result for each retry, wherever its key is, and a
// problem for another payload.
func TestForeignClient(t *testing.T) {
	t.Parallel()
	node, modules := agents(t)
	script, err := filepath.Abs("testdata/client.mjs")
	testkit.Must(t, err)
	program, err := os.Executable()
	testkit.Must(t, err)
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		judgeForeign(t, run(t, node, script, modules, program))
	})
	testkit.Each(t, map[string]mcp.StreamableHTTPOptions{
		"SSE": {}, "JSON": {JSONResponse: true}, "stateless": {Stateless: true, JSONResponse: true},
	}, func(t *testing.T, options mcp.StreamableHTTPOptions) {
		server, engine, runs, err := plainShop()
		testkit.Must(t, err)
		shutDown(t, engine)
		endSessions(t, server)
		url := listen(t, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &options))
		judgeForeign(t, run(t, node, script, modules, url))
		testkit.Equal(t, runs.Load(), 1, "runs of the tool")
	})
}

// judgeForeign judges the responses that the client in JavaScript got.
func judgeForeign(t *testing.T, out []byte) {
	t.Helper()
	var got struct {
		Tools   []*mcp.Tool
		Answers []struct {
			Result *mcp.CallToolResult
			Code   int
			Data   map[string]any
		}
	}
	if err := json.Unmarshal(out, &got); err != nil || len(got.Answers) != 4 {
		t.Fatalf("%v: %+v", err, got)
	}
	for i, answer := range got.Answers[:3] {
		if answer.Result == nil {
			t.Fatalf("answer %d is %+v", i, answer)
		}
		response{answer.Result, nil}.wantPaid(t, 5, i > 0)
	}
	if last := got.Answers[3]; last.Code != -32000 || last.Data["code"] != "key_reused" {
		t.Errorf("another payload got %+v", last)
	}
	for _, tool := range got.Tools {
		if guarded := tool.Annotations != nil && tool.Annotations.IdempotentHint; guarded != (tool.Name == "charge") {
			t.Errorf("the tool %s has the hints %+v", tool.Name, tool.Annotations)
		}
	}
}
