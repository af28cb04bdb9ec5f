package core_test

import (
	"fmt"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/storage"
)

// Case 23: the parts of a storage key cannot be shifted against each other.
func TestStorageKey(t *testing.T) {
	t.Parallel()
	seen := map[string][]string{}
	for _, parts := range [][]string{
		{"a:b", "POST", "/p", "c"},
		{"a", "POST", "/p", "b:c"},
		{"a", "POST", "/pb", ":c"},
		{"", "aPOST", "/p", "b:c"},
		{"a", "PATCH", "/p", "b:c"},
		{"a", "POST", "/q", "b:c"},
		{"a\x00", "POST", "/p", "b:c"},
	} {
		key := storage.Key(parts[0], parts[1], parts[2], parts[3])
		if other, taken := seen[key]; taken || len(key) != 64 {
			t.Errorf("%q and %q share %s", parts, other, key)
		}
		seen[key] = parts
	}
}

func ExampleParseKey() {
	raw, _ := core.ParseKey("order-42")
	quoted, _ := core.ParseKey(`"order-42"`)
	fmt.Println(raw == quoted)

	_, err := core.ParseKey("order 42")
	fmt.Println(err)
	// Output:
	// true
	// Idempotency-Key must be 1 to 255 visible ASCII characters, raw or as one string in quotes
}
