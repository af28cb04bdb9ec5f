package validation_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/oncekey/oncekey/policy"
)

// matching compiles each pattern as JSON Schema asks (the u flag) and as newer readers do (the
// v flag), and prints which values match.
const matching = `
	const cases = JSON.parse(require("fs").readFileSync(0, "utf8"));
	const matches = (pattern, flag, values) => values.map(value => new RegExp(pattern, flag).test(value));
	console.log(JSON.stringify(cases.map(c => ({u: matches(c.Pattern, "u", c.Values), v: matches(c.Pattern, "v", c.Values), none: matches(c.Pattern, "", c.Values)}))));`

// A pattern means in ECMAScript what the policy's expression means in Go.
func TestKeyPatternsInECMAScript(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		const missing = "node is missing: it comes with npm, which tools/install-servers.sh installs"
		if os.Getenv("ONCEKEY_REQUIRE_SERVERS") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	values := []string{"ord_1", "ORD_1", "a.b", "aXb", "ab", `"ord_1"`, `"ORD_1"`, `"a\"b"`, `"a\\b"`, "1", "-", "&&", "k", "K", `""`, "é"}
	keys := []string{"ord_1", "ORD_1", "a.b", "aXb", "ab", "ord_1", "ORD_1", `a"b`, `a\b`, "1", "-", "&&", "k", "K", "", "é"}
	type row struct {
		Pattern string
		Values  []string
		want    []bool
		format  policy.KeyFormats
	}
	var all []row
	for _, expression := range []string{
		`(?i)ord_\d`, `(?i:k)`, `(?P<kind>ord|inv)_[[:digit:]]`, `\Aord_\d+\z`, `\pL+_\PL`, `\Qa.b`, "a.b", `[\w.-]+`, `[&&]{2}`, `[^-&]`, "[[:punct:]]+", `a["\\]b`, `\bab\b`, ".+", "(a|ab){1,2}",
	} {
		format := policy.KeyPattern(expression)
		doc := document(t, policy.Row("POST /a", policy.KeyFormat(format)))
		r := row{Pattern: operation(t, doc, "POST", "/a").Parameters[0].Value.Schema.Value.AllOf[1].Value.Pattern, Values: values, format: format}
		for _, key := range keys {
			r.want = append(r.want, key != "é" && format.Allows(key))
		}
		all = append(all, r)
	}
	input, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), node, "-e", matching)
	command.Stdin = bytes.NewReader(input)
	var said bytes.Buffer
	command.Stderr = &said
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, said.Bytes())
	}
	var got []map[string][]bool
	if err := json.Unmarshal(output, &got); err != nil || len(got) != len(all) {
		t.Fatalf("node printed %s (%v)", output, err)
	}
	for i, r := range all {
		for flag, matches := range got[i] {
			for n, matched := range matches {
				if matched != r.want[n] {
					t.Errorf("%s is described as %s, which with flag %s matches %s: %t", r.format, r.Pattern, flag, values[n], matched)
				}
			}
		}
	}
}
