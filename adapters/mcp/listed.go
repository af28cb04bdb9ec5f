package idemmcp

import (
	"context"
	"runtime"
	"sync"
	"time"
	"weak"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// toolLists are the tools that the servers of a client's sessions have listed. It is safe for
// concurrent use.
type toolLists struct {
	patience time.Duration // of a list
	mu       sync.Mutex
	tools    map[weak.Pointer[mcp.ClientSession]]map[string]*mcp.Tool
}

func newToolLists(patience time.Duration) *toolLists {
	return &toolLists{patience: patience, tools: make(map[weak.Pointer[mcp.ClientSession]]map[string]*mcp.Tool)}
}

// learn keeps the listed tools until the program drops the session. A broken server lists
// null, which the SDK removes only afterwards.
func (h *toolLists) learn(session *mcp.ClientSession, listed []*mcp.Tool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := weak.Make(session)
	known := h.tools[at]
	if known == nil {
		known = make(map[string]*mcp.Tool)
		h.tools[at] = known
		runtime.AddCleanup(session, h.forget, at)
	}
	for _, tool := range listed {
		if tool != nil {
			known[tool.Name] = tool
		}
	}
}

func (h *toolLists) forget(at weak.Pointer[mcp.ClientSession]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.tools, at)
}

// find returns a tool, or nil if no list had it.
func (h *toolLists) find(session *mcp.ClientSession, name string) *mcp.Tool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tools[weak.Make(session)][name]
}

// of returns the tool of a name. It lists the tools of a session that has not listed this
// one, because a server may add a tool at any time. It returns nil if the server does not
// list the tool: a call needs no hint.
func (h *toolLists) of(ctx context.Context, session *mcp.ClientSession, name string) *mcp.Tool {
	tool := h.find(session, name)
	if tool != nil {
		return tool
	}
	ctx, cancel := context.WithTimeout(ctx, h.patience)
	defer cancel()
	for listed, err := range session.Tools(ctx, nil) { // the middleware sees the pages that the SDK has not cached
		if err != nil {
			return nil
		}
		if listed.Name == name {
			tool = listed
		}
	}
	return tool
}

func isReadOnly(tool *mcp.Tool) bool {
	return tool != nil && tool.Annotations != nil && tool.Annotations.ReadOnlyHint
}

// mayRepeat reports whether a second run of the tool has no further effect.
func mayRepeat(tool *mcp.Tool) bool {
	return tool != nil && tool.Annotations != nil && (tool.Annotations.ReadOnlyHint || tool.Annotations.IdempotentHint)
}
