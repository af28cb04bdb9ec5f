package idemmcp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// pixel is a PNG of one pixel, and silence a WAV without samples.
var (
	pixel   = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\rIDATx\x9cc\xf8\xff\xff?\x00\x05\xfe\x02\xfe\xa75\x81\x84\x00\x00\x00\x00IEND\xaeB`\x82")
	silence = []byte("RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x80\x3e\x00\x00\x02\x00\x10\x00data\x00\x00\x00\x00")
)

func text(s string) mcp.Content { return &mcp.TextContent{Text: s} }

// conforming are the tools that the judge of MCP's conformance calls, by its scenarios.
var conforming = map[string]struct {
	tool   string
	handle mcp.ToolHandler
}{
	"tools-call-simple-text": {"test_simple_text", shows(text("This is a simple text response for testing."))},
	"tools-call-image":       {"test_image_content", shows(&mcp.ImageContent{Data: pixel, MIMEType: "image/png"})},
	"tools-call-audio":       {"test_audio_content", shows(&mcp.AudioContent{Data: silence, MIMEType: "audio/wav"})},
	"tools-call-embedded-resource": {"test_embedded_resource", shows(&mcp.EmbeddedResource{
		Resource: &mcp.ResourceContents{URI: "test://embedded-resource", MIMEType: "text/plain", Text: "This is an embedded resource content."},
	})},
	"tools-call-mixed-content": {"test_multiple_content_types", shows(text("Multiple content types test:"),
		&mcp.ImageContent{Data: pixel, MIMEType: "image/png"},
		&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "test://mixed-content-resource", MIMEType: "application/json", Text: `{"test":"data"}`}})},
	"tools-call-error": {"test_error_handling", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		result := new(mcp.CallToolResult)
		result.SetError(errors.New("this tool intentionally returns an error for testing"))
		return result, nil
	}},
	"tools-call-with-logging": {"test_tool_with_logging", func(ctx context.Context, call *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for _, said := range []string{"started", "is processing", "completed"} {
			if err := call.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: said}); err != nil { //nolint:staticcheck // the scenario is of 2025
				return nil, err
			}
		}
		return &mcp.CallToolResult{Content: []mcp.Content{text("logged")}}, nil
	}},
	"tools-call-with-progress": {"test_tool_with_progress", func(ctx context.Context, call *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		token := call.Params.GetProgressToken()
		for _, done := range []float64{0, 50, 100} {
			if err := call.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: done, Total: 100}); err != nil {
				return nil, err
			}
		}
		return &mcp.CallToolResult{Content: []mcp.Content{text(fmt.Sprint(token))}}, nil
	}},
	"tools-call-sampling": {"test_sampling", func(ctx context.Context, call *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		said, err := call.Session.CreateMessage(ctx, &mcp.CreateMessageParams{ //nolint:staticcheck // the scenario is of 2025
			Messages:  []*mcp.SamplingMessage{{Role: "user", Content: text("Test prompt for sampling")}}, //nolint:staticcheck // see above
			MaxTokens: 100,
		})
		if err != nil {
			return nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{text("LLM response: " + asJSON(said.Content))}}, nil
	}},
	"tools-call-elicitation": {"test_elicitation", func(ctx context.Context, call *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		given, err := call.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Your name?", RequestedSchema: map[string]any{
			"type": "object", "properties": map[string]any{"username": map[string]any{"type": "string"}}, "required": []string{"username"},
		}})
		if err != nil {
			return nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{text("User response: " + given.Action + asJSON(given.Content))}}, nil
	}},
}

func shows(content ...mcp.Content) mcp.ToolHandler {
	return func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: content}, nil
	}
}

// A server whose tools are all guarded passes the scenarios of MCP's own judge: content of all
// kinds, errors, progress, logging, sampling and elicitation go through a guarded run.
func TestConformance(t *testing.T) {
	t.Parallel()
	node, modules := agents(t)
	judge := filepath.Join(modules, "@modelcontextprotocol", "conformance", "dist", "index.js")
	server := mcp.NewServer(&mcp.Implementation{Name: "conforming", Version: "1"}, nil)
	var rows []policy.TableRow
	for _, one := range conforming {
		server.AddTool(&mcp.Tool{Name: one.tool, Description: "a tool of the judge", InputSchema: map[string]any{"type": "object"}}, one.handle)
		rows = append(rows, policy.Row("TOOL "+one.tool))
	}
	engine, guard, err := guarding(memstore.New(), core.SharedScope, []core.Option{quiet}, rows)
	testkit.Must(t, err)
	shutDown(t, engine)
	var guarded atomic.Int32
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
			if call, is := request.(*mcp.CallToolRequest); is { // the judge sends no keys
				guarded.Add(1)
				if call.Params.Meta == nil {
					call.Params.Meta = make(mcp.Meta)
				}
				call.Params.Meta["idempotency-key"] = uuid.NewString()
			}
			return next(ctx, method, request)
		}
	}, guard.Receive)
	endSessions(t, server)
	url := listen(t, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	for scenario := range conforming {
		t.Run(scenario, func(t *testing.T) {
			before := guarded.Load()
			run(t, node, judge, "server", "--url", url, "--scenario", scenario)
			if guarded.Load() == before {
				t.Error("the judge called no guarded tool")
			}
		})
	}
	run(t, node, judge, "server", "--url", url, "--scenario", "tools-list")
}
