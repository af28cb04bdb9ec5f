package openapi_test

import (
	"regexp"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/policy"
)

// The guard reads a key in quotes as the raw key. The described pattern allows both, also
// for an expression with anchors in its alternatives.
func TestKeyPatternWithAnchorsInAlternatives(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{
		"^ord_[0-9]+$|^inv_[0-9]+$", "^(ord|inv)_[0-9]+$", "ord_[0-9]+|^inv_[0-9]+", "^ord_[0-9|]+$|^inv_[]|0-9]+$", `^ord_\d+$|^inv_\d+$`,
	} {
		format := policy.KeyFormat(policy.KeyPattern(expression))
		doc := document(t, policy.TableRow{Route: "POST /p", Options: []policy.Option{format}})
		described := operation(t, doc, "POST", "/p").Get("parameters.0.schema.allOf.1.pattern").Str
		pattern, err := regexp.Compile(described)
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range []string{`ord_1`, `inv_1`, `"ord_1"`, `"inv_1"`, `xord_1`, `inv_1x`, `"xinv_1"`, `ord_`} {
			key, err := core.ParseKey(value)
			if err != nil {
				t.Fatal(err)
			}
			if want := policy.KeyPattern(expression).Allows(key); pattern.MatchString(value) != want {
				t.Errorf("%s: the guard allows %s: %t, and the document has %s", expression, value, want, described)
			}
		}
	}
}
