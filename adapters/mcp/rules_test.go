package idemmcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	idemmcp "github.com/oncekey/oncekey/adapters/mcp"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// A retry gets the stored result, marked as a replay. Another payload is refused. Tools
// without a row are not guarded.
func TestRunsOnce(t *testing.T) {
	t.Parallel()
	overAll(t, setup{}, func(t *testing.T, shop *shop, session *mcp.ClientSession) {
		call(t, session, keyed("k1", 5)).wantPaid(t, 5, false)
		call(t, session, keyed("k1", 5)).wantPaid(t, 5, true)
		call(t, session, keyed("k1", 6)).wantProblem(t, problem.KeyReused)
		call(t, session, keyed("k2", 5)).wantPaid(t, 5, false)
		shop.wantRuns(t, 2)
		for range 2 {
			if got := send(t, session, &mcp.CallToolParams{Name: "plain", Arguments: keyed("k1", 5)}); got.err != nil || got.result.IsError {
				t.Errorf("the tool without a row: %s, %v", asJSON(got.result), got.err)
			}
		}
		shop.wantRuns(t, 4)
	})
}

// A tool's key is another one than the same key of another tool.
func TestToolsHaveTheirOwnKeys(t *testing.T) {
	t.Parallel()
	made, session := newSession(t, setup{raw: nothing})
	call(t, session, keyed("k1", 5)).wantPaid(t, 5, false)
	if got := send(t, session, &mcp.CallToolParams{Name: "raw", Arguments: keyed("k1", 5)}); got.err != nil || got.result.Meta["replayed"] != nil {
		t.Errorf("got %s, %v", asJSON(got.result), got.err)
	}
	made.wantRuns(t, 2)
	testkit.Equal(t, made.events.all[0].Route, "charge", "the route of the first event")
}

// Calls are equal by the tool and the values of its arguments, and never by the envelope.
func TestEquality(t *testing.T) {
	t.Parallel()
	raw := func(text string) *mcp.CallToolParams {
		return &mcp.CallToolParams{Name: "charge", Arguments: json.RawMessage(text)}
	}
	const first = `{"amount":10,"note":"a","idempotency_key":"k1"}`
	for name, test := range map[string]struct {
		opts   []policy.Option
		second *mcp.CallToolParams
		equal  bool
	}{
		"the same":                  {nil, raw(first), true},
		"another order, white":      {nil, raw(`{ "note":"a", "idempotency_key":"k1", "amount":1e1}`), true},
		"other metadata":            {nil, &mcp.CallToolParams{Name: "charge", Arguments: json.RawMessage(first), Meta: mcp.Meta{"progressToken": "p7", "trace": "t"}}, true},
		"request state":             {nil, &mcp.CallToolParams{Name: "charge", Arguments: json.RawMessage(first), RequestState: "s"}, true},
		"another value":             {nil, raw(`{"amount":10,"note":"b","idempotency_key":"k1"}`), false},
		"another member":            {nil, raw(`{"amount":10,"note":"a","context":{},"idempotency_key":"k1"}`), false},
		"ExcludeFields":             {[]policy.Option{policy.ExcludeFields("note")}, raw(`{"amount":10,"note":"b","idempotency_key":"k1"}`), true},
		"a path of ExcludeFields":   {[]policy.Option{policy.ExcludeFields("context.id")}, raw(`{"amount":10,"note":"a","context":{"id":7},"idempotency_key":"k1"}`), false},
		"IncludeFields":             {[]policy.Option{policy.IncludeFields("amount")}, raw(`{"amount":10,"note":"b","idempotency_key":"k1"}`), true},
		"not in IncludeFields":      {[]policy.Option{policy.IncludeFields("note")}, raw(`{"amount":11,"note":"a","idempotency_key":"k1"}`), true},
		"ExactBytes":                {[]policy.Option{policy.ExactBytes(true)}, raw(first), true},
		"ExactBytes, another order": {[]policy.Option{policy.ExactBytes(true)}, raw(`{"note":"a","amount":10,"idempotency_key":"k1"}`), false},
	} {
		made := newShop(t, setup{policy: test.opts})
		session := connectByPipes(t, made.server, newClient(nil))
		send(t, session, raw(first)).wantPaid(t, 10, false)
		got := send(t, session, test.second)
		if equal := got.err == nil && got.result.Meta["replayed"] == true; equal != test.equal || !equal && got.problem()["code"] != problem.KeyReused {
			t.Errorf("%s: got %s, %v; equal is %t, want %t", name, asJSON(got.result), got.err, equal, test.equal)
		}
	}
}

// fate is the end of the key of a call that ended in an error.
type fate string

const (
	released  fate = "released"
	kept      fate = "kept"
	uncertain fate = "uncertain"
)

// The key of a failed call is released, unless marks, lists or the mode say otherwise.
func TestFailures(t *testing.T) {
	t.Parallel()
	refuse := policy.OnAbandoned(policy.Refuse)
	wire := func(code int64) error {
		return &jsonrpc.Error{Code: code, Message: "refused", Data: json.RawMessage(`{"why":1}`)}
	}
	after := func(mark func(context.Context), err error) handler {
		return func(ctx context.Context, _ *mcp.CallToolRequest, _ order) (*mcp.CallToolResult, payment, error) {
			mark(ctx)
			return nil, payment{}, err
		}
	}
	executed := func(ctx context.Context) { failure.MarkExecuted(ctx) }
	retryable := func(ctx context.Context) { failure.MarkRetryable(ctx) }
	unsure := func(ctx context.Context) { failure.MarkUncertain(ctx) }
	unmarked := func(context.Context) {}
	declined := errors.New("declined")
	type test struct {
		handle handler
		opts   []policy.Option
		want   fate
	}
	testkit.Each(t, map[string]test{
		"isError":                               {after(unmarked, declined), nil, released},
		"isError, Keep":                         {after(unmarked, declined), []policy.Option{policy.Keep("5xx")}, kept},
		"isError, executed":                     {after(executed, declined), nil, kept},
		"isError, Permanent":                    {after(unmarked, failure.Permanent(declined)), nil, kept},
		"isError, Refuse":                       {after(unmarked, declined), []policy.Option{refuse}, uncertain},
		"isError, Refuse, a retryable mark":     {after(retryable, declined), []policy.Option{refuse}, released},
		"isError, Refuse, a retryable error":    {after(unmarked, failure.Retryable(declined)), []policy.Option{refuse}, released},
		"isError, Refuse, an uncertain error":   {after(unmarked, failure.Uncertain(declined)), []policy.Option{refuse}, uncertain},
		"isError, Refuse, an uncertain mark":    {after(unsure, declined), []policy.Option{refuse}, uncertain},
		"isError, a Classifier":                 {after(unmarked, declined), []policy.Option{policy.Classifier(keepAll)}, kept},
		"JSON-RPC error":                        {after(unmarked, wire(-32603)), nil, released},
		"JSON-RPC error, Keep":                  {after(unmarked, wire(-32603)), []policy.Option{policy.Keep("5xx")}, kept},
		"JSON-RPC error, Refuse":                {after(unmarked, wire(-32603)), []policy.Option{refuse}, uncertain},
		"JSON-RPC error, executed":              {after(executed, wire(-32603)), nil, kept},
		"invalid params, Refuse":                {after(unmarked, wire(-32602)), []policy.Option{refuse}, released},
		"invalid params, Keep":                  {after(unmarked, wire(-32602)), []policy.Option{policy.Keep("5xx")}, released},
		"method not found, Refuse":              {after(unmarked, wire(-32601)), []policy.Option{refuse}, released},
		"invalid request, Refuse":               {after(unmarked, wire(-32600)), []policy.Option{refuse}, released},
		"URL elicitation, Refuse":               {after(unmarked, wire(-32042)), []policy.Option{refuse}, released},
		"URL elicitation, Keep":                 {after(unmarked, wire(-32042)), []policy.Option{policy.Keep("5xx")}, released},
		"invalid params, executed":              {after(executed, wire(-32602)), nil, kept},
		"a result with isError and a mark":      {after(executed, nil), nil, kept},
		"a success that may be repeated":        {after(retryable, nil), nil, released},
		"a success that is not certain":         {after(unsure, nil), []policy.Option{refuse}, uncertain},
		"a success that OnlySuccess would keep": {after(unmarked, nil), []policy.Option{policy.Classifier(failure.OnlySuccess)}, kept},
	}, func(t *testing.T, test test) {
		overAll(t, setup{policy: test.opts, handle: test.handle}, func(t *testing.T, shop *shop, session *mcp.ClientSession) {
			first := call(t, session, keyed("k1", 5))
			second := call(t, session, keyed("k1", 5))
			switch test.want {
			case released:
				shop.wantRuns(t, 2)
			case uncertain:
				shop.wantRuns(t, 1)
				second.wantProblem(t, problem.OutcomeUnknown)
			case kept:
				shop.wantRuns(t, 1)
				wantReplayOf(t, first, second)
			}
		})
	})
}

// The mark of an error is not in the way of its data.
func TestMarkedErrors(t *testing.T) {
	t.Parallel()
	for _, mark := range []func(error) error{failure.Retryable, failure.Uncertain} {
		wire := &jsonrpc.Error{Code: -32050, Message: "busy", Data: json.RawMessage(`{"why":1}`)}
		made, session := newSession(t, setup{
			raw:    func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return nil, mark(wire) },
			policy: []policy.Option{policy.Keep("5xx")},
		})
		for range 2 {
			got := send(t, session, &mcp.CallToolParams{Name: "raw", Arguments: keyed("k1", 5)})
			if sent, is := errors.AsType[*jsonrpc.Error](got.err); !is || asJSON(sent) != asJSON(wire) {
				t.Errorf("got %v, want %s", got.err, asJSON(wire))
			}
		}
		made.wantRuns(t, 2)
	}
}

// A replay of an error around a JSON-RPC error has its code, and no data, as the SDK sends it.
func TestErrorAroundAJSONRPCError(t *testing.T) {
	t.Parallel()
	around := fmt.Errorf("charge: %w", &jsonrpc.Error{Code: -32050, Message: "busy", Data: json.RawMessage(`{"why":1}`)})
	made, session := newSession(t, setup{raw: func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		failure.MarkExecuted(ctx)
		return nil, around
	}})
	raw := &mcp.CallToolParams{Name: "raw", Arguments: keyed("k1", 5)}
	wantReplayOf(t, send(t, session, raw), send(t, session, raw))
	made.wantRuns(t, 1)
}

func keepAll(failure.Outcome) failure.Class { return failure.ClassCache }

// wantReplayOf expects the same response, marked if it is a result.
func wantReplayOf(t *testing.T, first, second response) {
	t.Helper()
	if first.err != nil {
		wire, is := errors.AsType[*jsonrpc.Error](second.err)
		want, _ := errors.AsType[*jsonrpc.Error](first.err)
		if !is || asJSON(wire) != asJSON(want) {
			t.Errorf("the replay is %v, want %v", second.err, first.err)
		}
		return
	}
	if second.err != nil || second.result.Meta["replayed"] != true {
		t.Errorf("the replay is %s, %v", asJSON(second.result), second.err)
		return
	}
	meta := maps.Clone(second.result.Meta)
	delete(meta, "replayed")
	second.result.Meta = meta
	testkit.Equal(t, asJSON(second.result), asJSON(first.result), "the replay")
}

// A hundred equal calls at once run the tool once. They wait, and get its result.
func TestConcurrentCalls(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	handle := func(ctx context.Context, call *mcp.CallToolRequest, in order) (*mcp.CallToolResult, payment, error) {
		await(t, release)
		return paid(ctx, call, in)
	}
	made, session := newSession(t, setup{policy: []policy.Option{policy.Wait(patience)}, handle: handle})
	var all sync.WaitGroup
	var first, replayed atomic.Int64
	for range 100 {
		all.Go(func() {
			switch response := call(t, session, keyed("k1", 5)); {
			case response.err != nil:
				t.Error(response.err)
			case response.result.Meta["replayed"] == true:
				replayed.Add(1)
			default:
				first.Add(1)
			}
		})
	}
	testkit.Await(t, "for the calls to wait", func() bool {
		running := made.engine.Running()
		return len(running) == 1 && running[0].Waiting == 99
	})
	close(release)
	all.Wait()
	made.wantRuns(t, 1)
	if first.Load() != 1 || replayed.Load() != 99 {
		t.Errorf("%d first results and %d replays, want 1 and 99", first.Load(), replayed.Load())
	}
}

// The retry reaches another pod.
func TestTwoPods(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	one, two := newShop(t, setup{store: store}), newShop(t, setup{store: store})
	for name, connect := range transports {
		key := strings.ReplaceAll(name, " ", "-")
		key = strings.ReplaceAll(key, ",", "")
		call(t, connect(t, one.server, newClient(nil)), keyed(key, 5)).wantPaid(t, 5, false)
		call(t, inMemory("2025-11-25")(t, two.server, newClient(nil)), keyed(key, 5)).wantPaid(t, 5, true)
	}
	two.wantRuns(t, 0)
}

// The engine's own policies that let a call through.
func TestUnguardedRuns(t *testing.T) {
	t.Parallel()
	skip := policy.SkipIf(func(r *http.Request) bool {
		var in order
		return json.Unmarshal(idemmcp.CallFrom(r.Context()).Params.Arguments, &in) == nil && in.Note == "dry run"
	})
	for name, test := range map[string]struct {
		setup     setup
		arguments args
		result    event.Result
	}{
		"SkipIf":          {setup{policy: []policy.Option{skip}}, args{"amount": 5, "idempotency_key": "k1", "note": "dry run"}, event.Skipped},
		"ObserveOnly":     {setup{policy: []policy.Option{policy.ObserveOnly(true)}}, keyed("k1", 5), event.Replay},
		"WithObserveOnly": {setup{engine: []core.Option{core.WithObserveOnly()}}, keyed("k1", 5), event.Replay},
		"FailOpen":        {setup{store: downStore(), policy: []policy.Option{policy.OnStoreError(policy.FailOpen)}}, keyed("k1", 5), event.Unprotected},
	} {
		overAll(t, test.setup, func(t *testing.T, shop *shop, session *mcp.ClientSession) {
			for range 2 {
				call(t, session, test.arguments).wantPaid(t, 5, false)
			}
			shop.wantRuns(t, 2)
			if shop.events.count(test.result) == 0 {
				t.Errorf("%s: no event %s", name, test.result)
			}
		})
	}
}

// A route that only observes changes nothing: a tool gets arguments that its schema refuses.
func TestObservedArguments(t *testing.T) {
	t.Parallel()
	for _, observes := range []bool{false, true} {
		_, session := newSession(t, setup{raw: nothing, policy: []policy.Option{policy.ObserveOnly(observes)}})
		raw := &mcp.CallToolParams{Name: "raw", Arguments: []int{1}, Meta: mcp.Meta{"idempotency-key": "k1"}}
		if got := send(t, session, raw); got.err != nil || got.result.IsError == observes {
			t.Errorf("observes %t: got %s, %v", observes, asJSON(got.result), got.err)
		}
	}
}

// A program that ends an abandoned attempt finds out its result.
func TestRecovered(t *testing.T) {
	t.Parallel()
	find := func(context.Context, policy.Abandoned) (*policy.Response, error) {
		return idemmcp.Recovered(&mcp.CallToolResult{StructuredContent: payment{"pay_1", 5}, Meta: mcp.Meta{"replayed": "forged"}})
	}
	handle := func(ctx context.Context, _ *mcp.CallToolRequest, _ order) (*mcp.CallToolResult, payment, error) {
		failure.MarkUncertain(ctx)
		return nil, payment{}, errors.New("timeout")
	}
	overAll(t, setup{policy: []policy.Option{policy.OnAbandoned(policy.Recover(find))}, handle: handle}, func(t *testing.T, shop *shop, session *mcp.ClientSession) {
		if got := call(t, session, keyed("k1", 5)); got.err != nil || !got.result.IsError {
			t.Errorf("got %s, %v", asJSON(got.result), got.err)
		}
		call(t, session, keyed("k1", 5)).wantPaid(t, 5, true)
		call(t, session, keyed("k1", 5)).wantPaid(t, 5, true)
		shop.wantRuns(t, 1)
	})
	for name, result := range map[string]*mcp.CallToolResult{
		"a nil result":              nil,
		"a result that needs input": {InputRequests: mcp.InputRequestMap{}},
		"a result that is no JSON":  {StructuredContent: make(chan int)},
	} {
		if response, err := idemmcp.Recovered(result); err == nil {
			t.Errorf("%s: got %+v, want an error", name, response)
		}
	}
	if response, err := idemmcp.Recovered(&mcp.CallToolResult{IsError: true}); err != nil || response.Status != http.StatusInternalServerError {
		t.Errorf("a result with isError: %+v, %v", response, err)
	}
}

// New names each fault.
func TestNew(t *testing.T) {
	t.Parallel()
	made := newShop(t, setup{})
	tableOf := func(rows ...policy.TableRow) *policy.Table {
		table, err := policy.NewTable(rows...)
		testkit.Must(t, err)
		return table
	}
	charge := policy.Row("TOOL charge")
	for want, try := range map[string]func() (*idemmcp.Guard, error){
		"the engine is nil":    func() (*idemmcp.Guard, error) { return idemmcp.New(nil, tableOf(charge)) },
		"the table is nil":     func() (*idemmcp.Guard, error) { return idemmcp.New(made.engine, nil) },
		"has no row of a tool": func() (*idemmcp.Guard, error) { return idemmcp.New(made.engine, tableOf(policy.Row("POST /a"))) },
		"option 1 of New":      func() (*idemmcp.Guard, error) { return idemmcp.New(made.engine, tableOf(charge), nil) },
		"OnReplay is given": func() (*idemmcp.Guard, error) {
			return idemmcp.New(made.engine, tableOf(charge), idemmcp.OnReplay(nil))
		},
		"row 1: TOOL charge: policy: RedactFields": func() (*idemmcp.Guard, error) {
			return idemmcp.New(made.engine, tableOf(policy.Row("TOOL charge", policy.RedactFields("id"))))
		},
		"row 1: TOOL charge: policy: Transactional": func() (*idemmcp.Guard, error) {
			return idemmcp.New(made.engine, tableOf(policy.Row("TOOL charge", policy.Transactional(true))))
		},
	} {
		if _, err := try(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one with %q", err, want)
		}
	}
	routes := made.engine.Routes()
	if i := slices.IndexFunc(routes, func(r *core.Route) bool {
		return slices.Contains(r.Endpoints(), core.Endpoint{Method: "TOOL", Pattern: "charge"})
	}); i < 0 || !strings.HasSuffix(strings.Split(routes[i].DeclaredAt(), ":")[0], "mcp/fixture_test.go") {
		t.Errorf("the engine does not know the tool, or its place: %d", i)
	}
}
