package idemmcp

import (
	"bytes"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

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
	return map[string]any{"adcp_error": about, "errors": []any{about}}
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
