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
	tools    map[weak.Pointer[mcp.ClientSession]]map[string]*mcp.Tool // nil: no such tool
}

func newToolLists(patience time.Duration) *toolLists {
	return &toolLists{patience: patience, tools: make(map[weak.Pointer[mcp.ClientSession]]map[string]*mcp.Tool)}
}

// learn keeps the listed tools, and the names of missing ones, until the program drops the
// session. A broken server lists null, which the SDK removes only afterwards.
func (h *toolLists) learn(session *mcp.ClientSession, listed []*mcp.Tool, missing ...string) {
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
	for _, name := range missing {
		known[name] = nil
	}
}

func (h *toolLists) forget(at weak.Pointer[mcp.ClientSession]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.tools, at)
}

// find returns a tool, or nil. known says that a list had it, or did not have it.
func (h *toolLists) find(session *mcp.ClientSession, name string) (tool *mcp.Tool, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	tool, known = h.tools[weak.Make(session)][name]
	return tool, known
}

// of returns the tool of a name. It lists the tools of a session that has not listed this
// one, and returns nil if the server does not: a call needs no hint.
func (h *toolLists) of(ctx context.Context, session *mcp.ClientSession, name string) *mcp.Tool {
	if tool, known := h.find(session, name); known {
		return tool
	}
	ctx, cancel := context.WithTimeout(ctx, h.patience)
	defer cancel()
	for _, err := range session.Tools(ctx, nil) { // the middleware sees the pages
		if err != nil {
			return nil
		}
	}
	tool, known := h.find(session, name)
	if !known {
		h.learn(session, nil, name)
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
