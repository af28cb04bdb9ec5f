package idemmcp

import (
	"context"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/callers"
	"github.com/oncekey/oncekey/policy"
)

// Guard guards the tools of a table. It is immutable and safe for concurrent use. One
// guard may serve several servers, and servers that are made for each request.
type Guard struct {
	settings
	tools  map[string]*tool
	rows   []policy.Declaration // in the order of the table
	places []KeyPlace
	// notCompared are members of the arguments that belong to a protocol's envelope.
	notCompared []string
}

// Option changes a Guard.
type Option func(*Guard) error

// KeyIn names the places of a call that can hold its key, in place of DefaultKeyPlaces.
// New refuses an empty list, and a place with a malformed name.
func KeyIn(places ...KeyPlace) Option {
	return func(g *Guard) error {
		if len(places) == 0 {
			return errors.New("KeyIn is given no places: give at least one, such as idemmcp.InMeta(\"idempotency-key\")")
		}
		for _, place := range places {
			if err := place.check(); err != nil {
				return fmt.Errorf("KeyIn: %w", err)
			}
		}
		g.places = places
		return nil
	}
}

// OnReplay calls change before each replay is sent. change gets a copy of the stored
// result, which it may change, and the new call, which it must not change. It may echo
// a member of the new call's arguments, for example. StructuredContent is a
// json.RawMessage. The member replayed of _meta is set afterwards. If change panics, the
// replay is sent as it was stored, and the event is wrong_setup. change must be safe for
// concurrent use. Default: none.
func OnReplay(change func(result *mcp.CallToolResult, call *mcp.CallToolRequest)) Option {
	return func(g *Guard) error {
		if change == nil {
			return errors.New("OnReplay is given nil: give a function, or leave the option out")
		}
		g.onReplay = change
		return nil
	}
}

// ACP serves the binding of the Agentic Commerce Protocol to MCP (docs/mcp-binding.md), on an
// engine with the options of commerce.ACP:
//
//	profile := commerce.ACP()
//	engine, err := core.New(store, scope, profile.Options()...)
//	table, err := policy.NewTable(policy.Row("TOOL complete_checkout_session", policy.From(profile.Policy)))
//	guard, err := idemmcp.New(engine, table, idemmcp.ACP())
//
// The key is arguments.meta.idempotency_key. The member meta has the parts of the header of
// HTTP, such as a signature with its time, and does not count in the comparison. Problems
// are errors of JSON-RPC with the code -32000 and the protocol's error in data.
//
// The Universal Commerce Protocol (checkout-mcp.md) needs no option: an engine of
// commerce.UCP compares the bytes of the arguments, without the key in
// arguments.meta["idempotency-key"].
func ACP() Option {
	return func(g *Guard) error {
		g.notCompared = []string{"meta"}
		return nil
	}
}

// AdCP serves the binding of the Ad Context Protocol to MCP, on an engine with the options
// of commerce.AdCP:
//
//	profile := commerce.AdCP()
//	engine, err := core.New(store, scope, profile.Options()...)
//	table, err := policy.NewTable(policy.Row("TOOL create_media_buy", policy.From(profile.Policy)))
//	guard, err := idemmcp.New(engine, table, idemmcp.AdCP())
//
// The guard's problems, and arguments that the tool's schema refuses, are results with
// isError and the members adcp_error and errors. The structured content of a problem and of
// a replay has the context of the call that gets it, and a replay has replayed: true there,
// beside the one in _meta. A text that repeats the structured content changes with it. The
// tool itself sends the context back with its own responses. A tool with an output schema
// allows these four members there, or clients in TypeScript refuse problems and replays.
func AdCP() Option {
	return func(g *Guard) error {
		g.adcp = true
		return nil
	}
}

// New returns a guard of the tools in a table: the rows with the method TOOL, such as
// "TOOL charge". It skips all other rows, so that one table may serve HTTP and MCP. The
// error joins all faults: a table without such a row, RedactFields, each policy that the
// engine refuses, a nil option.
func New(engine *core.Engine, table *policy.Table, opts ...Option) (*Guard, error) {
	switch {
	case engine == nil:
		return nil, errors.New("idemmcp: the engine is nil: give the engine from core.New")
	case table == nil:
		return nil, errors.New("idemmcp: the table is nil: give the table from policy.NewTable")
	}
	g := &Guard{settings: settings{engine: engine}, tools: make(map[string]*tool), places: DefaultKeyPlaces(engine)}
	var all []error
	for i, opt := range opts {
		if opt == nil {
			all = append(all, fmt.Errorf("idemmcp: option %d of New is nil: leave it out", i+1))
		} else if err := opt(g); err != nil {
			all = append(all, fmt.Errorf("idemmcp: %w", err))
		}
	}
	place := callers.Place()
	for _, row := range table.Declarations() {
		if row.Method != storage.MethodTool {
			continue
		}
		g.rows = append(g.rows, row)
		if err := g.add(place, &row); err != nil {
			all = append(all, fmt.Errorf("idemmcp: %s: %s: %w", row.Source, row.Route(), err))
		}
	}
	if len(g.rows) == 0 {
		all = append(all, errors.New(`idemmcp: the table has no row of a tool: add one, such as policy.Row("TOOL charge")`))
	}
	if err := errors.Join(all...); err != nil {
		return nil, err
	}
	return g, nil
}

// add compiles the policy of a row.
func (g *Guard) add(place string, row *policy.Declaration) error {
	if len(row.Policy.RedactFields) > 0 {
		return &policy.FieldError{Field: "RedactFields", Value: row.Policy.RedactFields, Want: "left out, because the text of a result repeats its structured content"}
	}
	route, err := g.engine.RouteWith(core.Declaration{Place: place, WriteProblem: writeProblem}, policy.From(row.Policy))
	if err != nil {
		return err
	}
	route.Declare(core.Endpoint{Method: row.Method, Pattern: row.Pattern})
	keyField := row.Policy.KeyField
	g.tools[row.Pattern] = &tool{
		name: row.Pattern, route: route, maxBytes: row.Policy.MaxRequestBytes, keyField: keyField, keys: newKeyFinder(g.places, keyField, g.notCompared...),
		isIdempotent: row.Policy.Required && row.Policy.SkipIf == nil && !route.Observes(),
	}
	return nil
}

// Receive is the mcp.Middleware of the guard. Add it inside of authenticating and logging
// middleware: of several middlewares that AddReceivingMiddleware gets, the last is the
// innermost.
//
//	server.AddReceivingMiddleware(authenticate, guard.Receive)
//
// Calls of guarded tools run once for each key. The list of tools shows the guarded tools
// that require a key with the annotation idempotentHint. All other requests pass unchanged.
func (g *Guard) Receive(next mcp.MethodHandler) mcp.MethodHandler {
	schemas := &schemas{next: next}
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		if method == callTool {
			call, is := request.(*mcp.CallToolRequest)
			if !is {
				return nil, fmt.Errorf("idemmcp: the request of %s is a %T: the guard needs a *mcp.CallToolRequest", method, request)
			}
			if called := g.tools[call.Params.Name]; called != nil {
				return g.serve(ctx, called, call, schemas)
			}
		}
		result, err := next(ctx, method, request)
		if listed, is := result.(*mcp.ListToolsResult); is && err == nil {
			return hinted(g.tools, listed), nil
		}
		return result, err
	}
}

// serve runs the tool of a call, or replays its stored result, or refuses the call.
func (g *Guard) serve(ctx context.Context, called *tool, call *mcp.CallToolRequest, schemas *schemas) (mcp.Result, error) {
	if !called.route.Observes() && int64(len(call.Params.Arguments)) <= called.maxBytes {
		if refusal := schemas.check(ctx, call); refusal != nil {
			return g.shown(refusal, call), nil
		}
	}
	s := &serving{guard: &g.settings, tool: called, call: call, next: schemas.next, found: called.keys.find(call)}
	request := s.request(ctx)
	g.engine.Serve(s, request, called.route, s)
	return s.reply(request)
}
