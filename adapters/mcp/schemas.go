package idemmcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// schemas validates arguments before their key counts: a call that its tool would refuse
// uses no key, and finds no stored result (AdCP, "Idempotency", rule 1).
//
// The schemas are those of the server's list of tools. They are kept from the first call of
// a tool, by server: one that is made for each request lists its tools each time. A call
// that an old schema refuses is checked again by the new one, so a tool that is replaced
// needs no notification.
type schemas struct {
	next  mcp.MethodHandler
	known sync.Map // from the tool's name to its *jsonschema.Resolved
}

// listTools is the method of MCP that lists the tools.
const listTools = "tools/list"

// maxPages bounds the pages of a list of tools that are read.
const maxPages = 1000

// check returns the result of a call with wrong arguments, as the SDK's typed tools have
// it, or nil. Tools that are not listed, or whose schema cannot be read, are not checked.
func (s *schemas) check(ctx context.Context, call *mcp.CallToolRequest) *mcp.CallToolResult {
	schema, isKept := s.known.Load(call.Params.Name)
	if isKept && s.validate(schema, call) == nil {
		return nil
	}
	if schema = s.list(ctx, call); schema == nil {
		return nil
	}
	err := s.validate(schema, call)
	if err == nil {
		return nil
	}
	refusal := newResult(call)
	refusal.SetError(fmt.Errorf("validating \"arguments\": %w", err))
	return refusal
}

// list reads the schema of a call's tool from the server, and keeps it.
func (s *schemas) list(ctx context.Context, call *mcp.CallToolRequest) any {
	params := new(mcp.ListToolsParams)
	for range maxPages {
		result, err := s.next(ctx, listTools, &mcp.ListToolsRequest{Session: call.Session, Params: params, Extra: call.Extra})
		page, is := result.(*mcp.ListToolsResult)
		if err != nil || !is {
			return nil
		}
		for _, listed := range page.Tools {
			if listed != nil && listed.Name == call.Params.Name {
				return s.keep(listed)
			}
		}
		if page.NextCursor == "" {
			return nil
		}
		params = &mcp.ListToolsParams{Cursor: page.NextCursor}
	}
	return nil
}

// keep compiles the schema of a tool, as the SDK does.
func (s *schemas) keep(listed *mcp.Tool) any {
	schema, is := listed.InputSchema.(*jsonschema.Schema)
	if !is {
		written, err := json.Marshal(listed.InputSchema)
		if err != nil || json.Unmarshal(written, &schema) != nil || schema == nil {
			return nil
		}
	}
	resolved, err := schema.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		return nil
	}
	s.known.Store(listed.Name, resolved)
	return resolved
}

// validate applies the schema's defaults to the arguments, and validates them.
func (s *schemas) validate(schema any, call *mcp.CallToolRequest) error {
	resolved := schema.(*jsonschema.Resolved) //nolint:forcetypeassert // known and keep have only this type
	members := make(map[string]any)
	if len(call.Params.Arguments) > 0 {
		if err := json.Unmarshal(call.Params.Arguments, &members); err != nil {
			return err
		}
	}
	var value any = members
	if err := resolved.ApplyDefaults(&value); err != nil {
		return err
	}
	return resolved.Validate(&value)
}

// hinted returns a list that shows idempotent tools with idempotentHint. The server's own
// tools stay unchanged.
func hinted(tools map[string]*tool, listed *mcp.ListToolsResult) *mcp.ListToolsResult {
	shown := *listed
	shown.Tools = slices.Clone(listed.Tools)
	for i, one := range shown.Tools {
		if one == nil || tools[one.Name] == nil || !tools[one.Name].isIdempotent {
			continue
		}
		copied, annotations := *one, mcp.ToolAnnotations{}
		if one.Annotations != nil {
			annotations = *one.Annotations
		}
		annotations.IdempotentHint = true
		copied.Annotations = &annotations
		shown.Tools[i] = &copied
	}
	return &shown
}
