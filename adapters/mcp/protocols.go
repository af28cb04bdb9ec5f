package idemmcp

import (
	"bytes"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// ACP serves the binding of the Agentic Commerce Protocol to MCP (docs/mcp-binding.md), on an
// engine with the options of commerce.ACP:
//
//	profile := commerce.ACP()
//	engine, err := core.New(store, scope, profile.Options()...)
//	table, err := policy.NewTable(policy.Row("TOOL complete_checkout_session", policy.From(profile.Policy)))
//	guard, err := idemmcp.New(engine, table, idemmcp.ACP())
//
// The key is arguments.meta.idempotency_key. The member meta has what the header has over
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
// isError and the member errors. The structured content of a problem and of a replay has the
// context of the call that gets it, and a replay has replayed: true there, beside the one in
// _meta. A text that repeats the structured content changes with it. The tool itself sends
// the context back with its own responses.
func AdCP() Option {
	return func(g *Guard) error {
		g.settings.problemsAsResults, g.settings.adcp = true, true
		return nil
	}
}

// shown returns a response of the guard as the client gets it.
func (s *settings) shown(result *mcp.CallToolResult, call *mcp.CallToolRequest) *mcp.CallToolResult {
	if !s.adcp {
		return result
	}
	return enveloped(result, call)
}

// enveloped returns a response of the guard with the members of AdCP's envelope.
func enveloped(result *mcp.CallToolResult, call *mcp.CallToolRequest) *mcp.CallToolResult {
	shown := *result
	if shown.IsError && shown.StructuredContent == nil {
		shown.StructuredContent = invalid(result)
	}
	before, err := json.Marshal(shown.StructuredContent)
	if err != nil || !gjson.ParseBytes(before).IsObject() { // a tool's own content
		return result
	}
	written, _ := sjson.DeleteBytes(before, "context")
	if context := gjson.GetBytes(call.Params.Arguments, "context"); context.Exists() {
		written, _ = sjson.SetRawBytes(written, "context", []byte(context.Raw))
	}
	if shown.Meta[marker] == true {
		written, _ = sjson.SetBytes(written, "replayed", true)
	}
	shown.StructuredContent = json.RawMessage(written)
	if result.StructuredContent == nil || saysOnly(result.Content, before) {
		shown.Content = []mcp.Content{&mcp.TextContent{Text: string(written)}}
	}
	return &shown
}

// invalid returns the body for arguments that the tool's schema refuses.
func invalid(result *mcp.CallToolResult) any {
	var text string
	for _, content := range result.Content {
		if said, is := content.(*mcp.TextContent); is {
			text = said.Text
		}
	}
	about := map[string]string{"code": "INVALID_REQUEST", "message": text, "recovery": "correctable"}
	return map[string]any{"errors": []any{about}}
}

// saysOnly reports whether the content is one text with this JSON.
func saysOnly(content []mcp.Content, document []byte) bool {
	if len(content) != 1 {
		return false
	}
	said, is := content[0].(*mcp.TextContent)
	var text, same bytes.Buffer
	return is && json.Compact(&text, []byte(said.Text)) == nil && json.Compact(&same, document) == nil && bytes.Equal(text.Bytes(), same.Bytes())
}
