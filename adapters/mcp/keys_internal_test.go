package idemmcp

import (
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
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
