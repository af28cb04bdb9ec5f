package openapi_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// describedPattern returns the pattern of the header's values, or "".
func describedPattern(t *testing.T, expression string) string {
	t.Helper()
	format := policy.KeyFormat(policy.KeyPattern(expression))
	doc := document(t, policy.TableRow{Route: "POST /p", Options: []policy.Option{format}})
	return operation(t, doc, "POST", "/p").Get("parameters.0.schema.pattern").Str
}

// spellings returns the header's values of a key: in quotes, and raw where it can be.
func spellings(key string) []string {
	inQuotes := `"` + strings.NewReplacer(`"`, `\"`, `\`, `\\`).Replace(key) + `"`
	if raw, err := core.ParseKey(key); err == nil && raw == key {
		return []string{inQuotes, key}
	}
	return []string{inQuotes}
}

// The described pattern allows the keys that the guard allows, raw and in quotes, also for
// an expression whose syntax JSON Schema does not have.
func TestKeyPattern(t *testing.T) {
	t.Parallel()
	keys := []string{"ord_1", "inv_1", "ORD_1", "xord_1", "inv_1x", "ord_", "a.b", "a-b", "aXb", "ab", "abab", "abc", "a|b", `a"b`, `a\b`, `a\\b`, "k]", "K^", "ord 1"}
	for char := rune('!'); char <= '~'; char++ {
		keys = append(keys, string(char))
	}
	for _, expression := range []string{
		"^ord_[0-9]+$", "^(ord|inv)_[0-9]+$", "ord_[0-9]+|inv_[0-9]+", "^a|bc$", `ord_\d+`, `a\.b`, `[\w.-]+`, "[a-c:]+?", "(ab){2}", "(?:ab){1,}", "(ab|a){1,2}c?", "x|",
	} {
		described := describedPattern(t, expression)
		pattern, err := regexp.Compile(described)
		if described == "" || err != nil {
			t.Errorf("%s is described as %q (%v)", expression, described, err)
			continue
		}
		for _, key := range keys {
			for _, value := range spellings(key) {
				if want := policy.KeyPattern(expression).Allows(key) && key != "ord 1"; pattern.MatchString(value) != want {
					t.Errorf("%s: the guard allows %s: %t, and the document has %s", expression, value, want, described)
				}
			}
		}
	}
}

// The document has no pattern for an expression that JSON Schema may read in another way.
func TestKeyPatternThatIsNotPlain(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{
		"^ord_[0-9]+$|^inv_[0-9]+$", "a?^b", "(a$)+b?", `ab\$`, `a|b\zc`, `\Aord_\d+\z`, "(?m)^ab$", `\bab\b`, // anchors
		"(?i)ord_[0-9]+", "(?i:k)", "(?P<kind>ord|inv)_1", "[[:digit:]]+", `\pL+`, `\Qa.b`, `a\x62`, `a\142`, // syntax of RE2
		".+", "a.b", "[^a-z]+", `[\[\]^]`, "[0-z]", "[a-z-9]", "[&&]{2}", `\W`, `\S+`, `a["\\]b`, "é|ab", "ord 1", "a,b", "a{,3}", // characters
	} {
		testkit.Equal(t, describedPattern(t, expression), "", "%s is described as", expression)
	}
}

// The described pattern of a path parameter allows the values that chi's expression allows.
func TestPathPattern(t *testing.T) {
	t.Parallel()
	values := []string{"", "a", "A", "k", "\u212a", "ab", "a-b", "x", "xy", "é", "日本", "7", "a/b", "a\nb", "\n", "^", "]", "😀", "\x7f"}
	for _, expression := range []string{
		"[0-9]+", "^[a-z-]+$", "x|y", "(?:x|xy)", "a{0}", `\w`, "a/b", "a-b",
	} {
		doc := document(t, policy.Row("POST /a/{p:"+expression+"}"))
		described := operation(t, doc, "POST", "/a/{p}").Get("parameters.0.schema.pattern").Str
		pattern, err := regexp.Compile(described)
		if described == "" || err != nil {
			t.Errorf("%s is described as %q (%v)", expression, described, err)
			continue
		}
		chi := regexp.MustCompile("^" + strings.TrimSuffix(strings.TrimPrefix(expression, "^"), "$") + "$")
		for _, value := range values {
			if want := chi.MatchString(value); pattern.MatchString(value) != want {
				t.Errorf("%s: chi allows %q: %t, and the document has %s", expression, value, want, described)
			}
		}
	}
}
