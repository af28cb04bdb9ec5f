package idemmcp

import (
	"runtime"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The tools of a session are forgotten with it.
func TestHintsEndWithTheirSession(t *testing.T) {
	t.Parallel()
	h, kept := newToolLists(time.Second), new(mcp.ClientSession)
	h.learn(kept, []*mcp.Tool{{Name: "charge"}})
	h.learn(new(mcp.ClientSession), []*mcp.Tool{{Name: "charge"}})
	count := func() int {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.tools)
	}
	for end := time.Now().Add(30 * time.Second); count() > 1; <-time.After(time.Millisecond) {
		if runtime.GC(); time.Now().After(end) {
			t.Fatal("a dropped session is remembered")
		}
	}
	if h.find(kept, "charge") == nil {
		t.Error("the tools of a session in use are forgotten")
	}
}
