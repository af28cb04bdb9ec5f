package wire

import (
	"strings"
	"testing"
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
		if got, err := ParseKey(value); err != nil || got != want {
			t.Errorf("ParseKey(%q) = %q, %v; want %q", value, got, err, want)
		}
	}
}

func TestParseKeyIgnoresSpaceAround(t *testing.T) {
	t.Parallel()
	if got, err := ParseKey(" k\t"); err != nil || got != "k" {
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
		if got, err := ParseKey(value); err == nil || err.Error() != want {
			t.Errorf("ParseKey(%q) = %q, %v; want %s", value, got, err, want)
		}
	}
}

func FuzzParseKey(f *testing.F) {
	for _, seed := range []string{"k", `"k"`, `"a\"b"`, "a,b", ":a:", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		key, err := ParseKey(value)
		if err != nil {
			return
		}
		if key == "" || len(key) > 255 || strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' }) {
			t.Errorf("ParseKey(%q) let %q through", value, key)
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		if again, err := ParseKey(quoted); err != nil || again != key {
			t.Errorf("the quoted form %q of %q is %q, %v", quoted, key, again, err)
		}
	})
}
