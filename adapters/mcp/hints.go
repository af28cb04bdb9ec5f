package idemmcp

import (
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// hinted returns a list that shows guarded tools with idempotentHint. The server's own
// tools stay unchanged.
func hinted(tools map[string]*tool, listed *mcp.ListToolsResult) *mcp.ListToolsResult {
	shown := *listed
	shown.Tools = slices.Clone(listed.Tools)
	for i, one := range shown.Tools {
		guarded := tools[one.Name]
		if guarded == nil || guarded.route.Observes() {
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
