package idemmcp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// lines is a client that writes and reads the lines of stdio by itself.
type lines struct {
	t      *testing.T
	writer io.Writer
	reader *bufio.Scanner
}

// speak connects to a server by lines, in a version of the protocol with sessions.
func speak(t *testing.T, server *mcp.Server) *lines {
	t.Helper()
	fromServer, toClient := io.Pipe()
	fromClient, toServer := io.Pipe()
	session, err := server.Connect(t.Context(), &mcp.IOTransport{Reader: fromClient, Writer: toClient}, nil)
	testkit.Must(t, err)
	t.Cleanup(func() {
		_ = toServer.Close()
		_ = session.Wait()
	})
	l := &lines{t, toServer, bufio.NewScanner(fromServer)}
	l.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`)
	l.receive()
	l.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return l
}

func (l *lines) send(line string) {
	l.t.Helper()
	if _, err := io.WriteString(l.writer, line+"\n"); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lines) receive() string {
	l.t.Helper()
	if !l.reader.Scan() {
		l.t.Fatal("the server is gone: ", l.reader.Err())
	}
	return l.reader.Text()
}

// call calls a tool, and returns the line of the response.
func (l *lines) call(id, tool, arguments string) string {
	l.t.Helper()
	l.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `}}`)
	return l.receive()
}

// everything is a result with each kind of content, and numbers that no float64 has.
func everything(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	large := json.Number("9007199254740993")
	size := int64(math.MaxInt64)
	meta := func() mcp.Meta { return mcp.Meta{"n": large, "e": json.Number("1.10"), "far": json.Number("1e400")} }
	annotations := &mcp.Annotations{Audience: []mcp.Role{"user"}, Priority: 0.1, LastModified: "2026-01-01T00:00:00Z"}
	return &mcp.CallToolResult{
		Meta: mcp.Meta{"n": large, "nested": map[string]any{"n": large}},
		Content: []mcp.Content{
			&mcp.TextContent{Text: "", Meta: meta(), Annotations: annotations},
			&mcp.TextContent{Text: "<b>&\u2028 ü"},
			&mcp.ImageContent{Data: []byte{0, 255}, MIMEType: "image/png", Meta: meta(), Annotations: annotations},
			&mcp.ImageContent{},
			&mcp.AudioContent{Data: []byte{1}, MIMEType: "audio/wav", Meta: meta(), Annotations: annotations},
			&mcp.ResourceLink{URI: "file:///a", Name: "a", Title: "A", Description: "d", MIMEType: "text/plain", Size: &size, Meta: meta(), Annotations: annotations, Icons: []mcp.Icon{{Source: "data:,"}}},
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///b", MIMEType: "text/plain", Text: "t", Meta: meta()}, Meta: meta(), Annotations: annotations},
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///c", Blob: []byte{}}},
		},
		StructuredContent: json.RawMessage(`{"n":9007199254740993,"list":[1.0,null,{"e":1e400}],"null":null}`),
		RequestState:      "state",
	}, nil
}

// A replay has every byte of the result, under the id of the new call.
func TestReplayIsExact(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]mcp.ToolHandler{
		"everything": everything,
		"nothing":    nothing,
		"no object": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{StructuredContent: []any{nil}}, nil
		},
		"null": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{StructuredContent: json.RawMessage("null")}, nil
		},
	} {
		made := newShop(t, setup{raw: raw})
		client := speak(t, made.server)
		first := decodedLine(t, client.call(`"first"`, "raw", `{"idempotency_key":"k1"}`))
		second := decodedLine(t, client.call("2", "raw", `{"idempotency_key":"k1"}`))
		if second["id"] != json.Number("2") {
			t.Errorf("%s: the replay has the id %v", name, second["id"])
		}
		result := second["result"].(map[string]any)
		meta, _ := result["_meta"].(map[string]any)
		testkit.Equal(t, meta["replayed"], true, "%s: the second response is no replay: %v", name, second)
		if delete(meta, "replayed"); len(meta) == 0 {
			delete(result, "_meta")
		}
		if !reflect.DeepEqual(first["result"], second["result"]) {
			t.Errorf("%s: the replay is\n%s\nwant\n%s", name, asJSON(second["result"]), asJSON(first["result"]))
		}
		made.wantRuns(t, 1)
	}
}

func decodedLine(t *testing.T, line string) map[string]any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader([]byte(line)))
	decoder.UseNumber()
	var members map[string]any
	testkit.Must(t, decoder.Decode(&members))
	return members
}

// A result that no JSON can hold is an error, and the tool does not run again.
func TestResultThatCannotBeStored(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]*mcp.CallToolResult{
		"no JSON": {StructuredContent: math.Inf(1)},
		"nil":     nil,
	} {
		made, session := newSession(t, setup{raw: func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return result, nil }})
		raw := &mcp.CallToolParams{Name: "raw", Arguments: keyed("k1", 5)}
		got := send(t, session, raw)
		if got.err == nil || !strings.Contains(got.err.Error(), "the tool has run") {
			t.Errorf("%s: the first response is %s, %v", name, asJSON(got.result), got.err)
		}
		send(t, session, raw).wantProblem(t, problem.NotReplayable)
		made.wantRuns(t, 1)
	}
}

// Middleware inside of the guard may return a result of its own type, which is not stored.
func TestResultOfAnotherType(t *testing.T) {
	t.Parallel()
	type own struct{ *mcp.CallToolResult }
	server := mcp.NewServer(&mcp.Implementation{Name: "gateway", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "charge"}, handler(paid))
	server.AddReceivingMiddleware(newShop(t, setup{}).guard.Receive, func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
			result, err := next(ctx, method, request)
			if made, is := result.(*mcp.CallToolResult); is {
				result = own{made}
			}
			return result, err
		}
	})
	session := inMemory("2026-07-28")(t, server, newClient(nil))
	call(t, session, keyed("k", 5)).wantPaid(t, 5, false)
	call(t, session, keyed("k", 5)).wantProblem(t, problem.NotReplayable)
}

// A tool cannot forge the mark of a replay, and its own result stays unchanged.
func TestForgedMark(t *testing.T) {
	t.Parallel()
	shared := &mcp.CallToolResult{Meta: mcp.Meta{"replayed": true, "own": 1}, Content: []mcp.Content{}}
	made := newShop(t, setup{raw: func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return shared, nil }})
	client := speak(t, made.server)
	for i, want := range []string{
		`{"jsonrpc":"2.0","id":0,"result":{"_meta":{"own":1},"content":[]}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"_meta":{"own":1,"replayed":true},"content":[]}}`,
	} {
		testkit.Equal(t, client.call(fmt.Sprint(i), "raw", `{"idempotency_key":"k1"}`), want, "the result")
	}
	testkit.Equal(t, shared.Meta["replayed"], true, "the tool's own result was changed")
}

// Members that stand twice reach the tool only where they are not the key's.
func TestRepeatedMembers(t *testing.T) {
	t.Parallel()
	made := newShop(t, setup{})
	client := speak(t, made.server)
	const first = `{"amount":5,"note":"a","note":"b","idempotency_key":"k1"}`
	for _, arguments := range []string{first, first, `{"amount":5,"note":"b","note":"a","idempotency_key":"k1"}`} {
		t.Log(client.call("1", "charge", arguments))
	}
	made.wantRuns(t, 1)
	if got := client.call("2", "charge", `{"amount":5,"note":"b","idempotency_key":"k1"}`); !bytes.Contains([]byte(got), []byte(problem.KeyReused)) {
		t.Errorf("got %s", got)
	}
}

// RecoverFunc may give a response without Recovered: an error by its status, or a result.
func TestRecoveredByHand(t *testing.T) {
	t.Parallel()
	for want, response := range map[string]*policy.Response{
		`{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"Bad Gateway","data":{"why":1}}}`:                                                     {Status: 502, Body: []byte(`{"why":1}`)},
		`{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"Bad Gateway"}}`:                                                                      {Status: 502, Body: []byte(`<why/>`)},
		`{"jsonrpc":"2.0","id":2,"result":{"_meta":{"replayed":true},"content":[{"type":"text","text":"a"}]}}`:                                          {Status: 200, Body: []byte(`{"content":[{"type":"text","text":"a"}]}`)},
		`{"jsonrpc":"2.0","id":2,"result":{"_meta":{"replayed":true},"content":[]}}`:                                                                    {Status: 200, Body: []byte(`{}`)},
		`{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"idemmcp: the stored response cannot be read: unexpected end of JSON input"}}`:        {Status: 200},
		`{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"idemmcp: the stored response cannot be read: unrecognized content type \"video\""}}`: {Status: 200, Body: []byte(`{"content":[{"type":"video"}]}`)},
	} {
		find := func(context.Context, policy.Abandoned) (*policy.Response, error) { return response, nil }
		fails := func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{IsError: true}, nil // uncertain under Recover
		}
		made := newShop(t, setup{raw: fails, policy: []policy.Option{policy.OnAbandoned(policy.Recover(find)), policy.LockTTL(time.Minute)}})
		client := speak(t, made.server)
		client.call("1", "raw", `{"idempotency_key":"k1"}`)
		testkit.Equal(t, client.call("2", "raw", `{"idempotency_key":"k1"}`), want, "the result")
	}
}

// A call without arguments is equal to one with an empty object, and to one with null.
func TestCallWithoutArguments(t *testing.T) {
	t.Parallel()
	made := newShop(t, setup{})
	client := speak(t, made.server)
	call := func(arguments string) string {
		client.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"charge",` + arguments + `"_meta":{"idempotency-key":"k1"}}}`)
		return client.receive()
	}
	for i, arguments := range []string{``, `"arguments":{},`, `"arguments":{"idempotency_key":"k1"},`, `"arguments":null,`} {
		if got := call(arguments); !strings.Contains(got, "pay_1") || strings.Contains(got, `"replayed":true`) != (i > 0) {
			t.Errorf("%s: got %s", arguments, got)
		}
	}
	made.wantRuns(t, 1)
}
