package idemmcp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	idemmcp "github.com/oncekey/oncekey/adapters/mcp"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// A result that asks for input releases the key. The call with the input continues under
// the same key, and its result is stored. Since version 2026-07-28 the client sends two
// calls, and steps before the request for input are not repeated. Before, the SDK asks the
// client within the run and calls the tool again, so that a step can only follow.
func TestInputRequired(t *testing.T) {
	t.Parallel()
	for name, connect := range transports {
		if name == "HTTP, JSON, 2025" {
			continue // a response in JSON carries no request of the server
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var reserved, charged atomic.Int64
			reserve := func(ctx context.Context) error {
				_, err := core.Step(ctx, "reserve", func(context.Context) (int64, error) { return reserved.Add(1), nil })
				return err
			}
			opts := []policy.Option{policy.OnAbandoned(policy.Refuse), policy.Keep("2xx", "5xx")}
			made := newShop(t, setup{policy: opts, handle: func(ctx context.Context, call *mcp.CallToolRequest, in order) (*mcp.CallToolResult, payment, error) {
				answer, given := call.Params.InputResponses["confirm"].(*mcp.ElicitResult)
				if in.Note == "steps first" || given {
					if err := reserve(ctx); err != nil {
						return nil, payment{}, err
					}
				}
				if !given {
					return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"confirm": &mcp.ElicitParams{Message: "Pay?"}}, RequestState: "s1"}, payment{}, nil
				}
				if answer.Action != "accept" || call.Params.RequestState != "s1" {
					return nil, payment{}, errors.New("not confirmed")
				}
				charged.Add(1)
				return paid(ctx, call, in)
			}})
			client := newClient(&mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: "accept"}, nil
			}})
			session := connect(t, made.server, client)
			isNew := session.InitializeResult().ProtocolVersion >= "2026-07-28"
			note := map[bool]string{true: "steps first", false: ""}[isNew]
			arguments := args{"amount": 5, "idempotency_key": "k1", "note": note}
			call(t, session, arguments).wantPaid(t, 5, false)
			call(t, session, arguments).wantPaid(t, 5, true)
			made.wantRuns(t, 2) // one asks
			if reserved.Load() != 1 || charged.Load() != 1 {
				t.Errorf("reserved %d and charged %d times, want once", reserved.Load(), charged.Load())
			}
			testkit.Equal(t, made.events.count(event.Execute) == 2, isNew, "whether the engine began another run")
			if !isNew {
				arguments["idempotency_key"], arguments["note"] = "k2", "steps first"
				if got := call(t, session, arguments); got.err != nil || !got.result.IsError || !strings.Contains(asJSON(got.result), "was called before in this run") {
					t.Errorf("steps on both sides of the request: %s, %v", asJSON(got.result), got.err)
				}
			}
		})
	}
}

// A client that handles input by itself sees the request for input, also after a mark that
// contradicts it. Such a call is never replayed.
func TestInputRequiredIsNeverStored(t *testing.T) {
	t.Parallel()
	made := newShop(t, setup{handle: func(ctx context.Context, _ *mcp.CallToolRequest, in order) (*mcp.CallToolResult, payment, error) {
		if in.Amount == 7 {
			failure.MarkExecuted(ctx)
		}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{}}, payment{}, nil
	}})
	client := newClient(&mcp.ClientOptions{MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true}})
	session := inMemory("2026-07-28")(t, made.server, client)
	for range 2 {
		if got := call(t, session, keyed("k1", 5)); got.err != nil || !got.result.NeedsInput() || got.result.Meta["replayed"] != nil {
			t.Errorf("got %s, %v", asJSON(got.result), got.err)
		}
	}
	made.wantRuns(t, 2)
	if got := call(t, session, keyed("k2", 7)); got.err != nil || !got.result.NeedsInput() {
		t.Errorf("got %s, %v", asJSON(got.result), got.err)
	}
	call(t, session, keyed("k2", 7)).wantProblem(t, problem.NotReplayable)
}

// Progress and log messages of a run reach the client of the call. A replay has none.
//
//nolint:staticcheck // logging is deprecated, and the SDK still has it
func TestNotifications(t *testing.T) {
	t.Parallel()
	handle := func(ctx context.Context, call *mcp.CallToolRequest, in order) (*mcp.CallToolResult, payment, error) {
		err := errors.Join( // a response in JSON carries no notifications
			call.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: call.Params.GetProgressToken(), Progress: 1}),
			call.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: "charging"}),
		)
		if err != nil && !strings.Contains(err.Error(), "stream not connected") {
			t.Error(err)
		}
		return paid(ctx, call, in)
	}
	for name, connect := range transports {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made := newShop(t, setup{handle: handle})
			progress, logged := make(chan any, 10), make(chan any, 10)
			client := newClient(&mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, request *mcp.ProgressNotificationClientRequest) {
					progress <- request.Params.ProgressToken
				},
				LoggingMessageHandler: func(_ context.Context, request *mcp.LoggingMessageRequest) { logged <- request.Params.Data },
			})
			session := connect(t, made.server, client)
			meta := func() mcp.Meta {
				return mcp.Meta{"progressToken": "p1", "io.modelcontextprotocol/logLevel": "info"}
			}
			if session.InitializeResult().ProtocolVersion < "2026-07-28" {
				testkit.Must(t, session.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "info"}))
			}
			send(t, session, &mcp.CallToolParams{Name: "charge", Arguments: keyed("k1", 5), Meta: meta()}).wantPaid(t, 5, false)
			if name == "HTTP, JSON, 2025" || name == "stateless, JSON" {
				return
			}
			for of, got := range map[string]chan any{"progress": progress, "log": logged} {
				select {
				case <-got:
				case <-time.After(patience):
					t.Error("no message: ", of)
				}
			}
			send(t, session, &mcp.CallToolParams{Name: "charge", Arguments: keyed("k1", 5), Meta: meta()}).wantPaid(t, 5, true)
			if len(progress) > 0 || len(logged) > 0 {
				t.Error("a replay has messages")
			}
		})
	}
}

// newPatientShop has a tool that closes begun, waits for end, and fails the test if its context has ended by then.
func newPatientShop(t *testing.T, options ...idemmcp.Option) (made *shop, begun, end chan struct{}) {
	t.Helper()
	begun, end = make(chan struct{}), make(chan struct{})
	made = newShop(t, setup{guard: options, handle: func(ctx context.Context, call *mcp.CallToolRequest, in order) (*mcp.CallToolResult, payment, error) {
		close(begun)
		await(t, end)
		if ctx.Err() != nil {
			t.Error("the end of the client's call reached the run")
		}
		return paid(ctx, call, in)
	}})
	return made, begun, end
}

// A client that gives up does not end the run: its retry gets the result.
func TestCancelledCall(t *testing.T) {
	t.Parallel()
	testkit.Each(t, transports, func(t *testing.T, connect connect) {
		made, begun, end := newPatientShop(t)
		session := connect(t, made.server, newClient(nil))
		ctx, cancel := context.WithCancel(t.Context())
		var first sync.WaitGroup
		first.Go(func() {
			if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "charge", Arguments: keyed("k1", 5)}); !errors.Is(err, context.Canceled) {
				t.Errorf("the first call got %v", err)
			}
		})
		await(t, begun)
		cancel()
		first.Wait()
		call(t, session, keyed("k1", 5)).wantProblem(t, problem.InProgress)
		close(end)
		testkit.Await(t, "for the result to be stored", func() bool { return made.events.count(event.Completed) == 1 })
		call(t, session, keyed("k1", 5)).wantPaid(t, 5, true)
		made.wantRuns(t, 1)
	})
}

// The SDK may end a tool's context with its HTTP request. A guarded run outlives it.
func TestPropagatedCancellation(t *testing.T) {
	t.Parallel()
	made, begun, end := newPatientShop(t)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return made.server },
		&mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true})
	url := listen(t, handler)
	first := connectTo(t, url, newClient(nil), "2026-07-28", nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		await(t, begun)
		cancel()
	}()
	if _, err := first.CallTool(ctx, &mcp.CallToolParams{Name: "charge", Arguments: keyed("k1", 5)}); err == nil {
		t.Error("the first call was not cut off")
	}
	close(end)
	testkit.Await(t, "for the result to be stored", func() bool { return made.events.count(event.Completed) == 1 })
	call(t, connectTo(t, url, newClient(nil), "2026-07-28", nil), keyed("k1", 5)).wantPaid(t, 5, true)
	made.wantRuns(t, 1)
}

// A reply that is lost on its way is replayed to a new session.
func TestLostReply(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]mcp.StreamableHTTPOptions{
		"SSE": {}, "JSON": {JSONResponse: true}, "stateless": {Stateless: true}, "stateless, JSON": {Stateless: true, JSONResponse: true},
	} {
		for _, version := range []string{"2025-11-25", "2026-07-28"} {
			made := newShop(t, setup{})
			handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return made.server }, &opts)
			var lost atomic.Bool
			url := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				r.Body = io.NopCloser(bytes.NewReader(body))
				if !bytes.Contains(body, []byte("tools/call")) || lost.Swap(true) {
					handler.ServeHTTP(w, r)
					return
				}
				handler.ServeHTTP(httptest.NewRecorder(), r) // the server has responded
				panic(http.ErrAbortHandler)
			}))
			first := connectTo(t, url, newClient(nil), version, nil)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			if result, err := first.CallTool(ctx, &mcp.CallToolParams{Name: "charge", Arguments: keyed("k1", 5)}); err == nil {
				t.Errorf("%s, %s: the reply was not lost: %s", name, version, asJSON(result))
			}
			cancel()
			call(t, connectTo(t, url, newClient(nil), version, nil), keyed("k1", 5)).wantPaid(t, 5, true)
			made.wantRuns(t, 1)
		}
	}
}

// Until protocol version 2025-11-25 a tool may ask the client while it runs.
//
//nolint:staticcheck // sampling is deprecated, and the SDK still has it
func TestElicitation(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"in memory, 2025", "pipes", "HTTP, SSE, 2025"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			made := newShop(t, setup{handle: func(ctx context.Context, call *mcp.CallToolRequest, in order) (*mcp.CallToolResult, payment, error) {
				answer, err := call.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Pay?"})
				if err != nil || answer.Action != "accept" {
					return nil, payment{}, errors.Join(err, errors.New("not confirmed"))
				}
				sampled, err := call.Session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 1})
				if err != nil || sampled.Model != "m" {
					return nil, payment{}, errors.Join(err, errors.New("not sampled"))
				}
				return paid(ctx, call, in)
			}})
			session := transports[name](t, made.server, newClient(&mcp.ClientOptions{
				ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					asked.Add(1)
					return &mcp.ElicitResult{Action: "accept"}, nil
				},
				CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
					return &mcp.CreateMessageResult{Model: "m", Role: "assistant", Content: &mcp.TextContent{Text: "ok"}}, nil
				},
			}))
			call(t, session, keyed("k1", 5)).wantPaid(t, 5, false)
			call(t, session, keyed("k1", 5)).wantPaid(t, 5, true)
			if made.wantRuns(t, 1); asked.Load() != 1 {
				t.Errorf("the client was asked %d times", asked.Load())
			}
		})
	}
}

// A run that asks a client that does not respond ends by MaxRun. Its key is free then.
func TestElicitationWithoutResponse(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"in memory, 2025", "pipes", "HTTP, SSE, 2025"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			silent := make(chan struct{})
			asked := make(chan struct{}, 10)
			handle := func(ctx context.Context, call *mcp.CallToolRequest, in order) (*mcp.CallToolResult, payment, error) {
				if in.Note != "" {
					return paid(ctx, call, in)
				}
				_, err := call.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Pay?"})
				return nil, payment{}, err
			}
			opts := []policy.Option{policy.MaxRun(2 * time.Second), policy.ExcludeFields("note")}
			made := newShop(t, setup{handle: handle, policy: opts})
			session := transports[name](t, made.server, newClient(&mcp.ClientOptions{
				ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					asked <- struct{}{}
					await(t, silent)
					return &mcp.ElicitResult{Action: "cancel"}, nil
				},
			}))
			t.Cleanup(func() { close(silent) }) // before the session ends, which waits for its handlers
			ctx, cancel := context.WithCancel(t.Context())
			var first sync.WaitGroup
			first.Go(func() { _, _ = session.CallTool(ctx, &mcp.CallToolParams{Name: "charge", Arguments: keyed("k1", 5)}) })
			await(t, asked)
			cancel() // the client is gone
			first.Wait()
			testkit.Await(t, "for the run to end", func() bool { return len(made.engine.Running()) == 0 })
			call(t, session, args{"amount": 5, "idempotency_key": "k1", "note": "confirmed"}).wantPaid(t, 5, false)
			made.wantRuns(t, 2)
		})
	}
}

// The functions of core work in a tool, with the values of outer middleware.
func TestContext(t *testing.T) {
	t.Parallel()
	type userKey struct{}
	outside := func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
			ctx, cancel := context.WithTimeout(context.WithValue(ctx, userKey{}, "alice"), time.Hour)
			defer cancel()
			return next(ctx, method, request)
		}
	}
	handle := func(ctx context.Context, call *mcp.CallToolRequest, in order) (*mcp.CallToolResult, payment, error) {
		lease, guarded := core.LeaseFrom(ctx)
		_, limited := ctx.Deadline()
		if guarded != (in.Key != "") || guarded && (core.KeyFrom(ctx) != "k1" || lease.Attempt != 1 || core.DeriveKey(ctx, "charge") == "") {
			t.Errorf("the lease is %+v, %t", lease, guarded)
		}
		if guarded == limited { // the deadline of the client is that of an unguarded run only
			t.Errorf("guarded %t, with a deadline %t", guarded, limited)
		}
		testkit.Equal(t, ctx.Value(userKey{}), "alice", "the values of outer middleware are lost")
		return paid(ctx, call, in)
	}
	overAll(t, setup{handle: handle, outside: []mcp.Middleware{outside}, policy: []policy.Option{policy.Required(false)}}, func(t *testing.T, _ *shop, session *mcp.ClientSession) {
		call(t, session, keyed("k1", 5)).wantPaid(t, 5, false)
		call(t, session, args{"amount": 5}).wantPaid(t, 5, false)
	})
}

// A guard that is added twice is one policy.
func TestAddedTwice(t *testing.T) {
	t.Parallel()
	made := newShop(t, setup{})
	made.server.AddReceivingMiddleware(made.guard.Receive)
	session := inMemory("2026-07-28")(t, made.server, newClient(nil))
	call(t, session, keyed("k1", 5)).wantPaid(t, 5, false)
	call(t, session, keyed("k1", 5)).wantPaid(t, 5, true)
	made.wantRuns(t, 1)
}
