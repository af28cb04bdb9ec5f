package core_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/storage"
)

func TestParseKey(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 255)
	good := map[string]string{
		"8e03978e-40d5-43dd-bc93-6894a57f9324":   "8e03978e-40d5-43dd-bc93-6894a57f9324",
		`"8e03978e-40d5-43dd-bc93-6894a57f9324"`: "8e03978e-40d5-43dd-bc93-6894a57f9324",
		`"a\"b\\c"`:                              `a"b\c`,
		`"a,b;c"`:                                "a,b;c",
		"order:42/a?b=c&d~!@#":                   "order:42/a?b=c&d~!@#",
		"42":                                     "42",
		":":                                      ":",
		long:                                     long,
		`"` + long + `"`:                         long,
	}
	for value, want := range good {
		if got, err := core.ParseKey(value); err != nil || got != want {
			t.Errorf("ParseKey(%q) = %q, %v; want %q", value, got, err, want)
		}
	}
}

func TestParseKeyIgnoresSpaceAround(t *testing.T) {
	t.Parallel()
	if got, err := core.ParseKey(" k\t"); err != nil || got != "k" {
		t.Errorf("got %q, %v", got, err)
	}
}

// Case 30.
func TestParseKeyRefuses(t *testing.T) {
	t.Parallel()
	const invalid = "Idempotency-Key must be 1 to 255 visible ASCII characters, raw or as one string in quotes"
	const long = "Idempotency-Key must not exceed 255 characters"
	bad := map[string]string{
		"": invalid, " ": invalid, `""`: invalid, `"`: invalid,
		"a b": invalid, `"a b"`: invalid, "a\x00b": invalid, "a\nb": invalid, "a\x7f": invalid, "schlüssel": invalid, "\xff": invalid,
		"a,b": invalid, "a, b": invalid, `"a", "b"`: invalid, `"a";p=1`: invalid, "a;p=1": invalid,
		":YWJj:": invalid, "?1": invalid, "?0": invalid, "(a)": invalid, "()": invalid,
		`"a`: invalid, `a"`: invalid, `"a"b"`: invalid, `"a\b"`: invalid, `"a\`: invalid, `"a\"`: invalid, `"\"a"b"`: invalid,
		strings.Repeat("k", 256): long, `"` + strings.Repeat("k", 256) + `"`: long,
	}
	for value, want := range bad {
		if got, err := core.ParseKey(value); err == nil || err.Error() != want {
			t.Errorf("ParseKey(%q) = %q, %v; want %s", value, got, err, want)
		}
	}
}

func FuzzParseKey(f *testing.F) {
	for _, seed := range []string{"k", `"k"`, `"a\"b"`, "a,b", ":a:", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		key, err := core.ParseKey(value)
		if err != nil {
			return
		}
		if key == "" || len(key) > 255 || strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' }) {
			t.Errorf("ParseKey(%q) let %q through", value, key)
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		if again, err := core.ParseKey(quoted); err != nil || again != key {
			t.Errorf("the quoted form %q of %q is %q, %v", quoted, key, again, err)
		}
	})
}

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
