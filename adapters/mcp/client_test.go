package idemmcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oncekey/oncekey/adapters/commerce"
	idemmcp "github.com/oncekey/oncekey/adapters/mcp"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// quick are options of a client that waits shortly, and retries records its retries.
func quick(retries *retries) idemmcp.ClientOptions {
	return idemmcp.ClientOptions{Backoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond, MaxTime: patience, MaxAttempts: 1000, OnRetry: retries.add}
}

type retries struct {
	mu  sync.Mutex
	all []idemmcp.Retry
}

func (r *retries) add(failed idemmcp.Retry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, failed)
}

func (r *retries) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

func sending(t *testing.T, o idemmcp.ClientOptions, inner ...mcp.Middleware) *mcp.Client {
	t.Helper()
	send, err := idemmcp.Send(o)
	testkit.Must(t, err)
	client := newClient(nil)
	client.AddSendingMiddleware(append([]mcp.Middleware{send}, inner...)...)
	return client
}

// losing loses the first replies to calls of tools: the server has handled the call, and the
// connection ends.
func losing(replies int32, handler http.Handler) http.Handler {
	var lost atomic.Int32
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") != "tools/call" || lost.Add(1) > replies {
			handler.ServeHTTP(w, r)
			return
		}
		handler.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	})
}

func losingReplies(t *testing.T, s *shop, replies int32, client *mcp.Client) *mcp.ClientSession {
	t.Helper()
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	return connectTo(t, listen(t, losing(replies, handler)), client, "2026-07-28", nil)
}

// Replies are lost, and the client repeats the call under its key until it has the result.
func TestClientRepeatsLostCalls(t *testing.T) {
	t.Parallel()
	places := map[string]idemmcp.KeyPlace{"_meta": {}, "arguments": idemmcp.InArguments("idempotency_key"), "arguments.meta": idemmcp.InArguments("meta.idempotency-key")}
	testkit.Each(t, places, func(t *testing.T, place idemmcp.KeyPlace) {
		made, repeated := newShop(t, setup{}), new(retries)
		o := quick(repeated)
		o.KeyIn = place
		session := losingReplies(t, made, 3, sending(t, o))
		call(t, session, args{"amount": 5}).wantPaid(t, 5, true)
		made.wantRuns(t, 1)
		if len(repeated.all) != 3 {
			t.Fatalf("%d retries, want 3: %+v", len(repeated.all), repeated.all)
		}
		for i, r := range repeated.all {
			if r.Tool != "charge" || r.Key == "" || r.Key != repeated.all[0].Key || r.Attempts != i+1 || r.Err == nil || r.Wait <= 0 {
				t.Errorf("retry %d is %+v", i, r)
			}
		}
		call(t, session, args{"amount": 5}).wantPaid(t, 5, false) // another call has another key
		made.wantRuns(t, 2)
		o.OnRetry = nil
		call(t, losingReplies(t, made, 1, sending(t, o)), args{"amount": 5}).wantPaid(t, 5, true)
	})
}

// A call of a tool without a hint is not repeated after a lost reply: its error has the key,
// under which the program may repeat the call on a new session.
func TestClientLeavesUnguardedToolsAlone(t *testing.T) {
	t.Parallel()
	made, repeated := newShop(t, setup{}), new(retries)
	plain := &mcp.CallToolParams{Name: "plain", Arguments: args{"amount": 1}}
	got := send(t, losingReplies(t, made, 1, sending(t, quick(repeated))), plain)
	lost, is := errors.AsType[*idemmcp.UnansweredError](got.err)
	if !is || lost.Tool != "plain" || lost.Key == "" || lost.Err == nil || strings.Contains(got.err.Error(), lost.Key) {
		t.Fatalf("got %v", got.err)
	}
	made.wantRuns(t, 1)
	testkit.Equal(t, repeated.count(), 0, "the call was repeated: %+v", repeated.all)
}

// A tool that runs without a key is not repeated either: its guard need not read the place
// of the client's key.
func TestClientRepeatsNoToolWithAnOptionalKey(t *testing.T) {
	t.Parallel()
	made := newShop(t, setup{policy: []policy.Option{policy.Required(false)}, guard: []idemmcp.Option{idemmcp.KeyIn(idemmcp.InArguments("note"))}})
	got := call(t, losingReplies(t, made, 1, sending(t, quick(new(retries)))), args{"amount": 5})
	if _, is := errors.AsType[*idemmcp.UnansweredError](got.err); !is {
		t.Errorf("got %s and the error %v", asJSON(got.result), got.err)
	}
	made.wantRuns(t, 1)
}

// A session that ends leaves the call unanswered, and another session repeats it under the
// same key.
func TestClientRepeatsOnAnotherSession(t *testing.T) {
	t.Parallel()
	made, began, end := newPatientShop(t)
	repeated := new(retries)
	client := sending(t, quick(repeated))
	session, cut := severable(t, made.server, client)
	ended := make(chan response)
	go func() { ended <- call(t, session, args{"amount": 5}) }()
	await(t, began)
	cut()
	got := <-ended
	lost, is := errors.AsType[*idemmcp.UnansweredError](got.err)
	if !is || lost.Key == "" || repeated.count() > 5 { // the first error may be of the pipe
		t.Fatalf("got %v after %d retries on a lost session", got.err, repeated.count())
	}
	close(end)
	again, err := inMemory("2025-11-25")(t, made.server, client).CallTool(idemmcp.WithKey(t.Context(), lost.Key), &mcp.CallToolParams{Name: "charge", Arguments: args{"amount": 5}})
	response{again, err}.wantPaid(t, 5, true)
	made.wantRuns(t, 1)
}

// severable connects by pipes, and returns a function that ends the connection.
func severable(t *testing.T, server *mcp.Server, client *mcp.Client) (*mcp.ClientSession, func()) {
	t.Helper()
	fromServer, toClient := io.Pipe()
	fromClient, toServer := io.Pipe()
	session := join(t, server, client, &mcp.IOTransport{Reader: fromClient, Writer: toClient}, &mcp.IOTransport{Reader: fromServer, Writer: toServer}, "2025-11-25")
	return session, func() {
		_, _ = toClient.Close(), toServer.Close()
	}
}

// A call that is refused for now is repeated after the time that the server asks for, also
// where problems are results.
func TestClientWaitsForACallInProgress(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string][]idemmcp.Option{"errors": nil, "results": {idemmcp.AdCP()}}, func(t *testing.T, options []idemmcp.Option) {
		made, began, end := newPatientShop(t, options...)
		repeated := new(retries)
		first := inMemory("2026-07-28")(t, made.server, newClient(nil))
		ended := make(chan response)
		go func() { ended <- call(t, first, keyed("k", 5)) }()
		await(t, began)
		o := quick(repeated)
		o.KeyIn = idemmcp.InArguments("idempotency_key")
		second := inMemory("2026-07-28")(t, made.server, sending(t, o))
		go func() { ended <- call(t, second, keyed("k", 5)) }()
		testkit.Await(t, "for three refused attempts", func() bool { return repeated.count() >= 3 })
		close(end)
		for range 2 {
			if got := <-ended; got.err != nil || got.result.IsError {
				t.Errorf("got %s and %v", asJSON(got.result), got.err)
			}
		}
		made.wantRuns(t, 1)
		if repeated.all[0].Wait < 20*time.Millisecond {
			t.Errorf("the first wait was %v, and the server asked for a second", repeated.all[0].Wait)
		}
	})
}

// An attempt that takes too long is given up and repeated, and the tool runs once.
func TestClientRepeatsSlowAttempts(t *testing.T) {
	t.Parallel()
	made, _, end := newPatientShop(t)
	repeated := new(retries)
	o := quick(repeated)
	o.AttemptTimeout = 50 * time.Millisecond
	session := inMemory("2026-07-28")(t, made.server, sending(t, o))
	_, err := session.ListTools(t.Context(), nil) // on a busy machine the list that Send asks for can take longer than an attempt may
	testkit.Must(t, err)
	ended := make(chan response)
	go func() { ended <- call(t, session, args{"amount": 5}) }()
	testkit.Await(t, "for two attempts", func() bool { return repeated.count() >= 2 })
	close(end)
	(<-ended).wantPaid(t, 5, true)
	made.wantRuns(t, 1)
}

// Final answers are not repeated: a tool's own error, and an error of JSON-RPC without
// retry_after.
func TestClientTakesFinalAnswers(t *testing.T) {
	t.Parallel()
	repeated := new(retries)
	made := newShop(t, setup{handle: func(context.Context, *mcp.CallToolRequest, order) (*mcp.CallToolResult, payment, error) {
		return nil, payment{}, errors.New("card declined")
	}})
	session := inMemory("2026-07-28")(t, made.server, sending(t, quick(repeated)))
	if got := call(t, session, args{"amount": 5}); got.err != nil || !got.result.IsError {
		t.Errorf("got %s and %v", asJSON(got.result), got.err)
	}
	got := send(t, session, &mcp.CallToolParams{Name: "absent", Arguments: args{}})
	if _, is := errors.AsType[*jsonrpc.Error](got.err); !is {
		t.Errorf("got %v", got.err)
	}
	m := newMerchant(t, memstore.New(), commerce.ACP(), completeACP, idemmcp.ACP())
	m.answer = func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{StructuredContent: args{"retry_after": 1}, Content: []mcp.Content{}}, nil // a success
	}
	send(t, inMemory("2026-07-28")(t, m.server, sending(t, quick(repeated))), &mcp.CallToolParams{Name: completeACP, Arguments: json.RawMessage(acp("k", "", "{}"))})
	testkit.Equal(t, repeated.count(), 0, "a final answer was repeated: %+v", repeated.all)
}

// AdCP's errors have their retry_after in the envelope, or in the first of the payload.
func TestClientWaitsAsAdCPSays(t *testing.T) {
	t.Parallel()
	limited := args{"code": "RATE_LIMITED", "message": "later", "retry_after": 1}
	testkit.Each(t, map[string]args{"envelope": {"adcp_error": limited}, "payload": {"errors": []any{limited}}}, func(t *testing.T, body args) {
		server, repeated := mcp.NewServer(&mcp.Implementation{Name: "seller", Version: "1"}, nil), new(retries)
		calls := 0
		server.AddTool(&mcp.Tool{Name: "create_media_buy", InputSchema: args{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if calls++; calls > 1 {
				return &mcp.CallToolResult{Content: []mcp.Content{}}, nil
			}
			return &mcp.CallToolResult{IsError: true, StructuredContent: body, Content: []mcp.Content{}}, nil
		})
		session := inMemory("2026-07-28")(t, server, sending(t, quick(repeated)))
		got := send(t, session, &mcp.CallToolParams{Name: "create_media_buy", Arguments: args{}})
		if got.err != nil || got.result.IsError || calls != 2 || repeated.count() != 1 {
			t.Errorf("got %s and %v after %d calls", asJSON(got.result), got.err, calls)
		}
	})
}

// seen records the calls that leave a client.
type seen struct {
	mu    sync.Mutex
	calls []string
	lists int
}

func (s *seen) record(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		s.mu.Lock()
		switch params := request.GetParams().(type) {
		case *mcp.CallToolParams:
			s.calls = append(s.calls, params.Name+" "+asJSON(params.Arguments)+" "+asJSON(params.Meta["idempotency-key"]))
		case *mcp.ListToolsParams:
			s.lists++
		}
		s.mu.Unlock()
		return next(ctx, method, request)
	}
}

// The place of the key: the caller's key stays, a read-only tool gets none, and a tool whose
// schema has no member for it gets none in its arguments. The tools are listed once, and again
// for one that is not there.
func TestClientPlacesKeys(t *testing.T) {
	t.Parallel()
	type row struct {
		in     idemmcp.KeyPlace
		params mcp.CallToolParams
		want   string
	}
	testkit.Each(t, map[string]row{
		"a new key":                     {idemmcp.KeyPlace{}, mcp.CallToolParams{Name: "charge", Arguments: args{"amount": 1}}, `charge {"amount":1} "given"`},
		"the caller's key":              {idemmcp.KeyPlace{}, mcp.CallToolParams{Name: "charge", Meta: mcp.Meta{"idempotency-key": "mine"}}, `charge {} "mine"`},
		"a read-only tool":              {idemmcp.KeyPlace{}, mcp.CallToolParams{Name: "look"}, `look {} null`},
		"an unguarded tool":             {idemmcp.KeyPlace{}, mcp.CallToolParams{Name: "plain"}, `plain {} "given"`},
		"in the arguments":              {idemmcp.InArguments("idempotency_key"), mcp.CallToolParams{Name: "charge", Arguments: args{"amount": 1}}, `charge {"amount":1,"idempotency_key":"given"} null`},
		"the caller's in the arguments": {idemmcp.InArguments("idempotency_key"), mcp.CallToolParams{Name: "charge", Arguments: keyed("mine", 1)}, `charge {"amount":1,"idempotency_key":"mine"} null`},
		"not in a tool's schema":        {idemmcp.InArguments("idempotency_key"), mcp.CallToolParams{Name: "closed", Arguments: args{}}, `closed {} null`},
		"in an object":                  {idemmcp.InArguments("meta.key"), mcp.CallToolParams{Name: "charge", Arguments: args{"meta": nil}}, `charge {"meta":{"key":"given"}} null`},
		"no object":                     {idemmcp.InArguments("meta.key"), mcp.CallToolParams{Name: "charge", Arguments: args{"meta": "mine"}}, `charge {"meta":"mine"} null`},
		"of no listed tool":             {idemmcp.InArguments("idempotency_key"), mcp.CallToolParams{Name: "absent", Arguments: args{}}, `absent {} null`},
	}, func(t *testing.T, row row) {
		made, out := newShop(t, setup{}), new(seen)
		for _, tool := range []*mcp.Tool{{Name: "look", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, {Name: "closed"}} {
			tool.InputSchema = map[string]any{"type": "object", "properties": map[string]any{}}
			made.server.AddTool(tool, nothing)
		}
		o := quick(new(retries))
		o.KeyIn = row.in
		session := inMemory("2025-11-25")(t, made.server, sending(t, o, out.record))
		for range 2 {
			_, _ = session.CallTool(idemmcp.WithKey(t.Context(), "given"), &row.params)
		}
		lists := 1
		if row.params.Name == "absent" {
			lists = 2
		}
		if want := []string{row.want, row.want}; !slices.Equal(out.calls, want) || out.lists != lists {
			t.Errorf("sent %q after %d lists, want %q after %d", out.calls, out.lists, want, lists)
		}
	})
}

// A tool that calls other servers gives each the same key in each of its runs, and no other
// call's key.
func TestClientDerivesKeys(t *testing.T) {
	t.Parallel()
	bank, out := newShop(t, setup{}), new(seen)
	other := mcp.NewServer(&mcp.Implementation{Name: "other", Version: "1"}, nil)
	mcp.AddTool(other, &mcp.Tool{Name: "charge"}, paid)
	session := inMemory("2026-07-28")(t, bank.server, sending(t, quick(new(retries)), out.record))
	another := inMemory("2026-07-28")(t, other, sending(t, quick(new(retries)), out.record))
	fails := true
	made := newShop(t, setup{handle: func(ctx context.Context, c *mcp.CallToolRequest, in order) (*mcp.CallToolResult, payment, error) {
		for i, session := range []*mcp.ClientSession{session, session, another} {
			if _, err := session.CallTool(idemmcp.WithCall(ctx, fmt.Sprint("line-", i%2)), &mcp.CallToolParams{Name: "charge", Arguments: args{"amount": in.Amount}}); err != nil {
				return nil, payment{}, err
			}
		}
		if fails {
			return nil, payment{}, errors.New("no stock")
		}
		return paid(ctx, c, in)
	}})
	agent := inMemory("2026-07-28")(t, made.server, newClient(nil))
	call(t, agent, keyed("k", 5))
	fails = false
	call(t, agent, keyed("k", 5)).wantPaid(t, 5, false)
	if first := out.calls[:3]; !slices.Equal(first, out.calls[3:]) || len(slices.Compact(slices.Sorted(slices.Values(first)))) != 3 {
		t.Errorf("the bank was called by %q", out.calls)
	}
	bank.wantRuns(t, 2)
}

// Wrong options are refused, and the error names the option.
func TestClientOptions(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]idemmcp.ClientOptions{
		"MaxAttempts is -1":     {MaxAttempts: -1},
		"AttemptTimeout is -1":  {AttemptTimeout: -1},
		"Backoff is 1m0s":       {Backoff: time.Minute},
		"KeyIn is a header":     {KeyIn: idemmcp.InHeader("Idempotency-Key")},
		"KeyIn is arguments.a*": {KeyIn: idemmcp.InArguments(`a\*`)},
		"InMeta":                {KeyIn: idemmcp.InMeta("")},
	} {
		if _, err := idemmcp.Send(o); err == nil || !strings.HasPrefix(err.Error(), "idemmcp: ") || !strings.Contains(strings.ReplaceAll(err.Error(), `\`, ""), want) {
			t.Errorf("%+v: got %v, want an error with %q", o, err, want)
		}
	}
}
