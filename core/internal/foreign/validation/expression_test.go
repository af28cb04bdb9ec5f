package validation_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"regexp"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
	"github.com/oncekey/oncekey/policy"
)

// matching compiles each pattern as JSON Schema asks (the u flag), as newer readers do (the v
// flag), and one of ASCII without a flag. It prints which values match.
const matching = `
	const cases = JSON.parse(require("fs").readFileSync(0, "utf8"));
	const flags = pattern => /^[ -~]*$/.test(pattern) ? ["u", "v", ""] : ["u", "v"];
	console.log(JSON.stringify(cases.map(c => Object.fromEntries(flags(c.Pattern).map(
		flag => [flag, c.Values.map(value => new RegExp(c.Pattern, flag).test(value))])))));`

// row is a pattern, and values with what Go's expression says about them.
type row struct {
	Pattern    string
	Values     []string
	expression string
	want       []bool
}

// Patterns mean in ECMAScript what the policy's and the router's expressions mean in Go.
func TestPatternsInECMAScript(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		serverproc.Missing(t, "node is missing: it comes with npm, which tools/install-servers.sh installs")
	}
	all := append(keyRows(t), pathRows(t)...)
	input, err := json.Marshal(all)
	testkit.Must(t, err)
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
					t.Errorf("%s is described as %s, which with the flags %q matches %q: %t", r.expression, r.Pattern, flag, r.Values[n], matched)
				}
			}
		}
	}
}

func keyRows(t *testing.T) (all []row) {
	t.Helper()
	values := []string{"ord_1", "ORD_1", "a.b", "aXb", "ab", `"ord_1"`, `"ORD_1"`, `"a\"b"`, `"a\\b"`, "1", "-", "&&", "k", "K", `""`, "é"}
	keys := []string{"ord_1", "ORD_1", "a.b", "aXb", "ab", "ord_1", "ORD_1", `a"b`, `a\b`, "1", "-", "&&", "k", "K", "", "é"}
	for _, expression := range []string{
		`^ord_\d$`, "(ord|inv)_[0-9]", `a\.b`, `[\w.-]+`, "[a-c:]+?", "(a|ab){1,2}", "(?:k|K){1,}", "ab|",
	} {
		format := policy.KeyPattern(expression)
		doc := document(t, policy.Row("POST /a", policy.KeyFormat(format)))
		r := row{Pattern: operation(t, doc, "POST", "/a").Parameters[0].Value.Schema.Value.Pattern, Values: values, expression: expression}
		for _, key := range keys {
			r.want = append(r.want, key != "é" && format.Allows(key)) // core.ParseKey refuses it
		}
		all = append(all, r)
	}
	return all
}

func pathRows(t *testing.T) (all []row) {
	t.Helper()
	values := []string{"", "a", "A", "k", "\u212a", "ab", "é", "日本", "7", "a/b", "\n", "^", "]", "x", "\u2028"}
	for _, expression := range []string{
		"[0-9]+", "[a-z-]+", `\w`, "x|y", "(?:a|ab)", "a/b",
	} {
		doc := document(t, policy.Row("POST /a/{p:"+expression+"}"))
		r := row{Pattern: operation(t, doc, "POST", "/a/{p}").Parameters[0].Value.Schema.Value.Pattern, Values: values, expression: expression}
		for _, value := range values {
			r.want = append(r.want, regexp.MustCompile("^"+expression+"$").MatchString(value))
		}
		all = append(all, r)
	}
	return all
}
