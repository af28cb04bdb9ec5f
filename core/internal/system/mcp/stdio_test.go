//go:build unix

package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

// patience bounds every wait.
const patience = time.Minute

func TestMain(m *testing.M) {
	if os.Getenv(redisURL) != "" {
		if err := serve(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(postgrestest.Main(m))
}

// world is the Redis and the folder that the children of a test share.
type world struct {
	t      *testing.T
	redis  *redistest.Server
	folder string
}

// child is a server over stdio, and a client's session with it.
type child struct {
	*mcp.ClientSession
	process *os.Process
}

// start starts a child with more of its environment.
func (w *world) start(environment ...string) *child {
	w.t.Helper()
	command := exec.Command(os.Args[0], "-test.run=^$") //nolint:noctx // the session ends it
	command.Env = append(os.Environ(), redisURL+"="+w.redis.URL(), folder+"="+w.folder)
	command.Env = append(command.Env, environment...)
	client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
	session, err := client.Connect(w.t.Context(), &mcp.CommandTransport{Command: command}, nil)
	testkit.Must(w.t, err)
	w.t.Cleanup(func() { _ = session.Close() })
	return &child{session, command.Process}
}

// order calls the tool.
func (c *child) order(t *testing.T, key string) (*mcp.CallToolResult, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return c.CallTool(ctx, &mcp.CallToolParams{Name: "order", Arguments: map[string]any{"item": "tea", "idempotency_key": key}})
}

// orderWhileInProgress calls the tool until its key is not in progress.
func (c *child) orderWhileInProgress(t *testing.T, key string) (*mcp.CallToolResult, error) {
	t.Helper()
	for end := time.Now().Add(patience); ; <-time.After(50 * time.Millisecond) {
		result, err := c.order(t, key)
		if codeOf(err) != problem.InProgress || time.Now().After(end) {
			return result, err
		}
	}
}

// codeOf returns the code of a problem, or "".
func codeOf(err error) string {
	wire, is := errors.AsType[*jsonrpc.Error](err)
	var data struct{ Code string }
	if !is || json.Unmarshal(wire.Data, &data) != nil {
		return ""
	}
	return data.Code
}

// effects returns the effects of all children, in order.
func (w *world) effects() []string {
	text, err := os.ReadFile(filepath.Join(w.folder, "effects"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Error(err)
	}
	return strings.Fields(string(text))
}

// A server that dies at any point of a tool of three steps repeats no step that was
// recorded. The step that was cut off runs again, or the outcome is unknown, as the policy
// says.
func TestKillMatrix(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	for _, mode := range []string{"Reexecute", "Refuse"} {
		for i, point := range points() {
			t.Run(mode+", killed "+point, func(t *testing.T) {
				t.Parallel()
				w := &world{t, redis, serverproc.Folder(t)}
				key := fmt.Sprint(mode, i)
				shared := ""
				if mode == "Refuse" {
					shared = refuses + "=1"
				}
				first := w.start(dieAt+"="+point, shared)
				if result, err := first.order(t, key); err == nil {
					t.Fatalf("a killed server responded: %+v", result)
				}
				second := w.start(shared)
				result, err := second.orderWhileInProgress(t, key)
				if mode == "Refuse" {
					wantUnknown(t, w, i, err)
					return
				}
				wantShipped(t, w, i, result, err)
				again, err := second.order(t, key)
				if err != nil || again.Meta["replayed"] != true || !slices.Equal(receiptsOf(again), receiptsOf(result)) {
					t.Errorf("the next call: %+v, %v", again, err)
				}
			})
		}
	}
}

// wantUnknown expects that no more steps ran after the death at a point.
func wantUnknown(t *testing.T, w *world, point int, err error) {
	t.Helper()
	testkit.Equal(t, codeOf(err), problem.OutcomeUnknown, "the retry got %v", err)
	testkit.EqualSlices(t, w.effects(), steps[:(point+1)/2], "the effects")
}

// wantShipped expects that the steps ran that were not recorded before the death.
func wantShipped(t *testing.T, w *world, point int, result *mcp.CallToolResult, err error) {
	t.Helper()
	if err != nil || result.IsError || result.Meta["replayed"] != nil {
		t.Fatalf("the retry got %+v, %v", result, err)
	}
	recorded := point / 2
	want := slices.Concat(steps[:(point+1)/2], steps[recorded:])
	testkit.EqualSlices(t, w.effects(), want, "the effects")
	for i, receipt := range receiptsOf(result) {
		attempt := 2
		if i < recorded {
			attempt = 1
		}
		testkit.Equal(t, receipt, fmt.Sprintf("%s of tea by attempt %d", steps[i], attempt), "receipt %d", i)
	}
}

func receiptsOf(result *mcp.CallToolResult) []string {
	var done shipment
	text, _ := json.Marshal(result.StructuredContent)
	_ = json.Unmarshal(text, &done)
	return done.Receipts
}

// A server that is frozen past its lease shows no result of its own. It gets that of the
// server that took the key over.
func TestFrozenPastItsLease(t *testing.T) {
	t.Parallel()
	w := &world{t, redistest.Start(t), serverproc.Folder(t)}
	first, second := w.start(stopAt+"=at the end"), w.start()
	responses := make(chan error, 1)
	go func() {
		_, err := first.order(t, "k1")
		responses <- err
	}()
	testkit.Await(t, "for the first server to wait", func() bool { return slices.Contains(w.effects(), "waits") })
	signal(t, first, syscall.SIGSTOP)
	result, err := second.orderWhileInProgress(t, "k1")
	if err != nil || result.IsError || len(receiptsOf(result)) != len(steps) {
		t.Fatalf("the retry got %+v, %v", result, err)
	}
	testkit.Must(t, os.WriteFile(filepath.Join(w.folder, "go on"), nil, 0o600))
	signal(t, first, syscall.SIGCONT)
	testkit.Equal(t, codeOf(<-responses), problem.InProgress, "the frozen server responded")
	again, err := first.orderWhileInProgress(t, "k1")
	if err != nil || again.Meta["replayed"] != true || !slices.Equal(receiptsOf(again), receiptsOf(result)) {
		t.Errorf("the next call: %+v, %v", again, err)
	}
	testkit.EqualSlices(t, w.effects(), append(slices.Clone(steps), "waits"), "the effects")
}

func signal(t *testing.T, c *child, number syscall.Signal) {
	t.Helper()
	testkit.Must(t, c.process.Signal(number))
}
