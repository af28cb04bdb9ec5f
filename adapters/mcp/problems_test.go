package idemmcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	idemmcp "github.com/oncekey/oncekey/adapters/mcp"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// A problem is a JSON-RPC error with the code -32000, one sentence, and the engine's body.
func TestProblems(t *testing.T) {
	t.Parallel()
	overAll(t, setup{}, func(t *testing.T, _ *shop, session *mcp.ClientSession) {
		call(t, session, keyed("k1", 51967)).wantPaid(t, 51967, false)
		got := call(t, session, keyed("k1", 6))
		wire, is := errors.AsType[*jsonrpc.Error](got.err)
		if !is || wire.Code != -32000 || wire.Message != problem.New(problem.KeyReused, "").Detail {
			t.Fatalf("got %s, %v", asJSON(got.result), got.err)
		}
		members := slices.Sorted(maps.Keys(got.problem()))
		testkit.EqualSlices(t, members, []string{"code", "detail", "error", "status", "title", "type"}, "the data has")
		if strings.Contains(asJSON(wire), "51967") || strings.Contains(asJSON(wire), "pay_1") {
			t.Errorf("the problem tells of the first call: %s", asJSON(wire))
		}
	})
}

// A call whose key is in use is told when to call again.
func TestInProgress(t *testing.T) {
	t.Parallel()
	begun, end := make(chan struct{}, 1), make(chan struct{})
	handle := func(ctx context.Context, call *mcp.CallToolRequest, in order) (*mcp.CallToolResult, payment, error) {
		if in.Amount == 5 {
			begun <- struct{}{}
			await(t, end)
		}
		return paid(ctx, call, in)
	}
	for name, test := range map[string]struct {
		write problem.Writer
		want  map[string]any // of the data
	}{
		"RFC 9457": {nil, map[string]any{"code": "in_progress", "retry_after": 1.0, "status": 409.0}},
		"a profile": {func(w http.ResponseWriter, _ *http.Request, p problem.Problem) {
			w.WriteHeader(p.Status)
			_, _ = w.Write([]byte(`{"code":"` + p.Code + `","extra":{"n":9007199254740993}}`))
		}, map[string]any{"code": "in_progress", "retry_after": 1.0}},
		"a profile with a time": {func(w http.ResponseWriter, _ *http.Request, p problem.Problem) {
			_, _ = w.Write([]byte(`{"code":"` + p.Code + `","retry_after":7}`))
		}, map[string]any{"code": "in_progress", "retry_after": 7.0}},
		"no JSON": {func(w http.ResponseWriter, _ *http.Request, _ problem.Problem) {
			_, _ = w.Write([]byte("<busy/>"))
		}, map[string]any{"code": "in_progress", "retry_after": 1.0, "status": 409.0}},
		"null": {func(w http.ResponseWriter, _ *http.Request, _ problem.Problem) {
			_, _ = w.Write([]byte("null"))
		}, map[string]any{"code": "in_progress", "retry_after": 1.0, "status": 409.0}},
	} {
		s := setup{handle: handle}
		if test.write != nil {
			s.engine = append(s.engine, core.WithProblemWriter(test.write))
		}
		made, session := newSession(t, s)
		first := make(chan response, 1)
		go func() { first <- call(t, session, keyed("k1", 5)) }()
		await(t, begun)
		got := call(t, session, keyed("k1", 5))
		end <- struct{}{}
		await(t, first).wantPaid(t, 5, false)
		members := got.problem()
		for member, want := range test.want {
			testkit.Equal(t, members[member], want, "%s: %s", name, member)
		}
		if name == "a profile" && !strings.Contains(string(dataOf(got.err)), "9007199254740993") {
			t.Errorf("the data has lost a digit: %s", dataOf(got.err))
		}
		made.wantRuns(t, 1)
	}
}

func dataOf(err error) []byte {
	if wire, is := errors.AsType[*jsonrpc.Error](err); is {
		return wire.Data
	}
	return nil
}

// A store that cannot be reached, and an engine that shuts down, run no tool.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	down := newShop(t, setup{store: downStore()})
	call(t, inMemory("2026-07-28")(t, down.server, newClient(nil)), keyed("k1", 5)).wantProblem(t, problem.StoreUnavailable, `"retry_after":1`)
	stopping := newShop(t, setup{})
	session := inMemory("2026-07-28")(t, stopping.server, newClient(nil))
	testkit.Must(t, stopping.engine.Shutdown(t.Context()))
	call(t, session, keyed("k1", 5)).wantProblem(t, problem.ShuttingDown, `"retry_after":1`)
	down.wantRuns(t, 0)
	stopping.wantRuns(t, 0)
}

// A result that the store did not take, because another process has the key, is not shown.
func TestLostLease(t *testing.T) {
	t.Parallel()
	for _, connect := range transports {
		made := newShop(t, setup{store: testkit.Failing(memstore.New(), storage.ErrLeaseLost, testkit.Complete)})
		call(t, connect(t, made.server, newClient(nil)), keyed("k1", 5)).wantProblem(t, problem.InProgress, `"retry_after":1`)
		made.wantRuns(t, 1)
	}
}

// A problem that is stored in place of a lost response is replayed in the same form.
func TestStoredProblems(t *testing.T) {
	t.Parallel()
	handle := func(ctx context.Context, _ *mcp.CallToolRequest, _ order) (*mcp.CallToolResult, payment, error) {
		failure.MarkExecuted(ctx)
		<-ctx.Done() // MaxRun
		return nil, payment{}, ctx.Err()
	}
	for _, guard := range [][]idemmcp.Option{nil, {idemmcp.AdCP()}} {
		made, session := newSession(t, setup{handle: handle, policy: []policy.Option{policy.MaxRun(time.Millisecond)}, guard: guard})
		for range 2 {
			call(t, session, keyed("k1", 5)).wantProblem(t, problem.HandlerFailed)
		}
		made.wantRuns(t, 1)
	}
}

// A tool that returns the error of its context, which has ended, gives the engine's
// response: the key is released.
func TestCutShort(t *testing.T) {
	t.Parallel()
	ended := func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	handle := func(ctx context.Context, request *mcp.CallToolRequest, o order) (*mcp.CallToolResult, payment, error) {
		<-ctx.Done()
		if o.Amount == 6 { // it has its effect all the same
			return paid(ctx, request, o)
		}
		return nil, payment{}, ctx.Err()
	}
	overAll(t, setup{handle: handle, raw: ended, policy: []policy.Option{policy.MaxRun(time.Millisecond)}}, func(t *testing.T, shop *shop, session *mcp.ClientSession) {
		for _, name := range []string{"charge", "raw"} {
			for range 2 {
				send(t, session, &mcp.CallToolParams{Name: name, Arguments: keyed("k1", 5)}).wantProblem(t, problem.HandlerCancelled, `"retry_after":1`)
			}
		}
		shop.wantRuns(t, 4)
		call(t, session, keyed("k2", 6)).wantPaid(t, 6, false)
		call(t, session, keyed("k2", 6)).wantPaid(t, 6, true)
	})
}

// The limits are those of the arguments and of the stored result.
func TestLimits(t *testing.T) {
	t.Parallel()
	limits := []policy.Option{policy.MaxRequestBytes(100), policy.MaxResponseBytes(300)}
	handle := func(ctx context.Context, call *mcp.CallToolRequest, in order) (*mcp.CallToolResult, payment, error) {
		if in.Amount == 7 {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.Repeat("x", 1000)}}}, payment{}, errorOf(in.Note)
		}
		return paid(ctx, call, in)
	}
	overAll(t, setup{policy: limits, handle: handle}, func(t *testing.T, shop *shop, session *mcp.ClientSession) {
		call(t, session, args{"amount": 5, "idempotency_key": "k1", "note": strings.Repeat("n", 100)}).wantProblem(t, problem.BodyTooLarge)
		// A body that is too large is not validated.
		call(t, session, args{"amount": "five", "idempotency_key": "k1", "note": strings.Repeat("n", 100)}).wantProblem(t, problem.BodyTooLarge)
		// The key counts too: 68 bytes beside 35 are too long.
		call(t, session, args{"amount": 5, "idempotency_key": strings.Repeat("k", 68)}).wantProblem(t, problem.BodyTooLarge)
		call(t, session, keyed("k1", 5)).wantPaid(t, 5, false)
		if got := call(t, session, keyed("k2", 7)); got.err != nil || len(got.result.Content) == 0 {
			t.Errorf("the first response: %s, %v", asJSON(got.result), got.err)
		}
		call(t, session, keyed("k2", 7)).wantProblem(t, problem.NotReplayable)
		for range 2 { // a large error releases its key
			if got := call(t, session, args{"amount": 7, "idempotency_key": "k3", "note": "fails"}); got.err != nil || !got.result.IsError {
				t.Errorf("the large error: %s, %v", asJSON(got.result), got.err)
			}
		}
		shop.wantRuns(t, 4)
	})
}

func errorOf(note string) error {
	if note == "" {
		return nil
	}
	return errors.New(note)
}

// OnReplay may change a replay, and its panic changes nothing.
func TestOnReplay(t *testing.T) {
	t.Parallel()
	change := func(result *mcp.CallToolResult, call *mcp.CallToolRequest) {
		var in order
		if err := json.Unmarshal(call.Params.Arguments, &in); err != nil {
			t.Error(err)
		}
		result.Content = nil
		if in.Context["panics"] == true {
			panic("a secret")
		}
		result.Meta = mcp.Meta{"context": in.Context["id"], "replayed": false}
	}
	s := setup{guard: []idemmcp.Option{idemmcp.OnReplay(change)}, policy: []policy.Option{policy.ExcludeFields("context")}}
	overAll(t, s, func(t *testing.T, shop *shop, session *mcp.ClientSession) {
		with := func(context args) args { return args{"amount": 5, "idempotency_key": "k1", "context": context} }
		first := call(t, session, with(args{"id": "c1"}))
		first.wantPaid(t, 5, false)
		second := call(t, session, with(args{"id": "c2"}))
		second.wantPaid(t, 5, true)
		if second.result.Meta["context"] != "c2" || len(second.result.Content) != 0 {
			t.Errorf("the replay is %s", asJSON(second.result))
		}
		wantReplayOf(t, first, call(t, session, with(args{"panics": true})))
		testkit.Equal(t, shop.events.count(event.WrongSetup), 1, "the panic is not reported")
		shop.wantRuns(t, 1)
	})
}

// A panic of a tool is settled, and continues to the middleware outside of the guard.
func TestPanic(t *testing.T) {
	t.Parallel()
	recovering := func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, request mcp.Request) (result mcp.Result, err error) {
			defer func() {
				if reason := recover(); reason != nil {
					result, err = nil, errors.New("recovered")
				}
			}()
			return next(ctx, method, request)
		}
	}
	for _, executes := range []bool{false, true} {
		handle := func(ctx context.Context, _ *mcp.CallToolRequest, _ order) (*mcp.CallToolResult, payment, error) {
			if executes {
				failure.MarkExecuted(ctx)
			}
			panic("the tool")
		}
		made, session := newSession(t, setup{handle: handle, outside: []mcp.Middleware{recovering}})
		if got := call(t, session, keyed("k1", 5)); got.err == nil || !strings.Contains(got.err.Error(), "recovered") {
			t.Errorf("got %s, %v", asJSON(got.result), got.err)
		}
		second := call(t, session, keyed("k1", 5))
		if executes {
			second.wantProblem(t, problem.HandlerFailed)
			made.wantRuns(t, 1)
		} else {
			made.wantRuns(t, 2)
		}
	}
}
