package idemmcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oncekey/oncekey/adapters/internal/calls"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
)

// callTool is the method of MCP that calls a tool.
const callTool = "tools/call"

// settings are the parts of a guard that a call needs.
type settings struct {
	engine   *core.Engine
	onReplay func(*mcp.CallToolResult, *mcp.CallToolRequest) // nil: none
	adcp     bool
}

// tool is a guarded tool.
type tool struct {
	name     string
	route    *core.Route
	maxBytes int64 // the policy's MaxRequestBytes
	keyField string
	keys     *keyFinder
	// isIdempotent reports that each call of the tool is guarded, so that a repetition has no
	// further effect.
	isIdempotent bool
}

// serving is one call on its way through the engine: the handler that the engine runs,
// and the writer to which the engine responds.
type serving struct {
	calls.Writer
	guard  *settings
	tool   *tool
	call   *mcp.CallToolRequest
	next   mcp.MethodHandler
	found  found
	client calls.Patient

	result mcp.Result // the tool's own, or
	err    error      // its error
}

var (
	_ http.Handler        = (*serving)(nil)
	_ http.ResponseWriter = (*serving)(nil)
)

// servingKey is the context key of the call.
type servingKey struct{}

// servingOf returns the serving of a context, or nil.
func servingOf(ctx context.Context) *serving {
	s, _ := ctx.Value(servingKey{}).(*serving)
	return s
}

// request returns the call as a request of HTTP: the tool's name is the path, and the
// arguments without the key are the body. The header is that of the HTTP request that
// carries the call, if any, so that a Scope may read it.
func (s *serving) request(ctx context.Context) *http.Request {
	carried := make(http.Header)
	if s.call.Extra != nil && s.call.Extra.Header != nil {
		carried = maps.Clone(s.call.Extra.Header)
	}
	names := s.guard.engine.KeyHeaders()
	for _, name := range names {
		delete(carried, name)
	}
	if values := s.found.headerValues(); values != nil {
		carried[names[0]] = values
	}
	carried["Content-Type"] = []string{"application/json"}
	body := s.found.body
	if int64(len(s.call.Params.Arguments)) > s.tool.maxBytes {
		body = s.call.Params.Arguments // the limit is that of the arguments with the key
	}
	request := &http.Request{
		Method: storage.MethodTool, URL: &url.URL{Path: s.tool.name}, Pattern: s.tool.name, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: carried, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
	s.client = calls.Patient{Context: ctx}
	return request.WithContext(context.WithValue(s.client, servingKey{}, s))
}

// ServeHTTP runs the tool, and writes its response for the engine to store.
func (s *serving) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, guarded, cancel := s.client.Limit(r.Context())
	defer cancel()
	returned, err := s.next(ctx, callTool, s.call)
	result, is := returned.(*mcp.CallToolResult)
	cause := err
	if err == nil && result != nil {
		cause = result.GetError()
	}
	calls.Mark(ctx, cause)
	isCut := errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded)
	if isCut && guarded && ctx.Err() != nil {
		return // the engine responds, as for an HTTP handler without a response
	}
	s.Own, s.err = true, calls.Unmarked(err)
	if err != nil {
		s.writeError(ctx, w)
		return
	}
	s.result = returned
	if returned != nil && !is { // of inner middleware, which has a type of its own
		core.WentAround(w, http.StatusOK)
		return
	}
	s.writeResult(ctx, w, result)
}

// writeResult writes the result of the tool. A result that is absent or no JSON is stored
// as not replayable, because its side effect has happened. The client gets an error: the
// SDK would panic, or send no response at all.
func (s *serving) writeResult(ctx context.Context, w http.ResponseWriter, result *mcp.CallToolResult) {
	if result == nil {
		s.result, s.err = nil, errNoResult
		core.WentAround(w, http.StatusOK)
		return
	}
	if needsInput(result) {
		failure.MarkRetryable(ctx, "the tool needs input")
		core.WentAround(w, http.StatusOK)
		return
	}
	result = withoutMarker(result)
	s.result = result
	status := http.StatusOK
	if result.IsError {
		status = statusOf(result.GetError())
	}
	body, err := encoded(result)
	if err != nil {
		s.result, s.err = nil, errNoResult
	}
	respond(w, status, resultType, body, err)
}

// errNoResult is the response in place of a result that cannot be sent.
var errNoResult = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "idemmcp: the tool has run, and returned no result, or one that is no JSON"}

// writeError writes the tool's JSON-RPC error. Those that say that no tool has run, or that
// the same call follows once its user has visited a URL, release the key.
func (s *serving) writeError(ctx context.Context, w http.ResponseWriter) {
	wire := jsonrpc.Error{Message: s.err.Error()}
	if inner, is := errors.AsType[*jsonrpc.Error](s.err); is {
		wire.Code = inner.Code
		if s.err == error(inner) { //nolint:errorlint // as the SDK does: an error around it has no data
			wire = *inner
		}
	}
	switch wire.Code {
	case jsonrpc.CodeInvalidRequest, jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidParams, mcp.CodeURLElicitationRequired:
		failure.MarkRetryable(ctx, "the call was refused")
	}
	body, err := json.Marshal(&wire)
	respond(w, statusOf(s.err), errorType, body, err)
}

// reply returns the response that the engine wrote.
func (s *serving) reply(request *http.Request) (mcp.Result, error) {
	if s.Own {
		return s.result, s.err
	}
	stored, err := readResponse(s.call, s.Header().Get("Content-Type"), s.Status, s.Body)
	if err != nil {
		return nil, err
	}
	if s.Header()[s.guard.engine.ReplayHeader()] != nil {
		stored = s.replayed(request, stored)
	}
	return s.guard.shown(stored, s.call), nil
}

// shown returns a response of the guard as the client gets it.
func (s *settings) shown(result *mcp.CallToolResult, call *mcp.CallToolRequest) *mcp.CallToolResult {
	if !s.adcp {
		return result
	}
	return enveloped(result, call)
}

// replayed returns a stored result with the marker, and with the changes of OnReplay.
func (s *serving) replayed(request *http.Request, stored *mcp.CallToolResult) *mcp.CallToolResult {
	if s.guard.onReplay != nil {
		if err := callOnReplay(s.guard.onReplay, stored, s.call); err != nil {
			s.guard.engine.Warn(request, s.tool.route, err)
			stored, _ = readResult(s.call, s.Body) // read before without an error
		}
	}
	if stored.Meta == nil {
		stored.Meta = make(mcp.Meta, 1)
	}
	stored.Meta[marker] = true
	return stored
}

// callOnReplay calls the program's function, and returns its panic as an error.
func callOnReplay(change func(*mcp.CallToolResult, *mcp.CallToolRequest), result *mcp.CallToolResult, call *mcp.CallToolRequest) (err error) {
	defer func() {
		if recover() != nil { // its value could hold a request's data
			err = errors.New("idemmcp: the function of OnReplay panicked: the replay is sent without its changes")
		}
	}()
	change(result, call)
	return nil
}
