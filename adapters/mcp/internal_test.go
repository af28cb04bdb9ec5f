package idemmcp

import (
	"encoding/json"
	"runtime"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oncekey/oncekey/internal/testkit"
)

// An object that is there for the key alone does not count, under each spelling of its name
// under which the key in it is found.
func TestObjectAroundAKey(t *testing.T) {
	t.Parallel()
	keys := newKeyFinder(defaultPlaces(), "")
	for text, want := range map[string]string{
		`{"amount":5,"meta":{"idempotency_key":"k"}}`:       `{"amount":5}`,
		`{"amount":5,"Meta":{"Idempotency-Key":"k"}}`:       `{"amount":5}`,
		`{"amount":5,"m\u0065ta":{"idempotency_key":"k"}}`:  `{"amount":5}`,
		`{"amount":5,"meta":{"idempotency_key":"k","a":1}}`: `{"amount":5,"meta":{"a":1}}`,
	} {
		found := keys.find(&mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Arguments: json.RawMessage(text)}})
		if found.key != "k" || string(found.body) != want {
			t.Errorf("%s has the key %q and the arguments %s, want %s", text, found.key, found.body, want)
		}
	}
}

// A member of another type does not hide the others.
func TestRetryAfterIn(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		`{"retry_after":2}`:                                2 * time.Second,
		`{"retry_after":2,"adcp_error":"RATE_LIMITED"}`:    2 * time.Second,
		`{"retry_after":2,"errors":["busy"]}`:              2 * time.Second,
		`{"adcp_error":{"retry_after":3},"errors":[]}`:     3 * time.Second,
		`{"errors":[{"retry_after":4},{"retry_after":5}]}`: 4 * time.Second,
		`{"errors":[{"details":{"retry_after":6}}]}`:       6 * time.Second,
		`{"retry_after":"soon"}`:                           0,
		`{"retry_after":1e9}`:                              time.Hour,
		`{"retry_after":-1}`:                               0,
		`"busy"`:                                           0,
		`{"retry_after":2`:                                 0,
	} {
		testkit.Equal(t, retryAfterIn([]byte(text)), want, "%s", text)
	}
}

// The tools of a session are forgotten with it.
func TestHintsEndWithTheirSession(t *testing.T) {
	t.Parallel()
	h, kept := newToolLists(time.Second), new(mcp.ClientSession)
	h.learn(kept, []*mcp.Tool{{Name: "charge"}})
	h.learn(new(mcp.ClientSession), []*mcp.Tool{{Name: "charge"}})
	testkit.Await(t, "for the tools of a dropped session to be forgotten", func() bool {
		runtime.GC()
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.tools) == 1
	})
	if h.find(kept, "charge") == nil {
		t.Error("the tools of a session in use are forgotten")
	}
}
