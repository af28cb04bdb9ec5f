// Package validation_test validates the documents of adapters/openapi. It is a separate
// module, so that programs with oncekey do not depend on the validator.
package validation_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/internal/testkit"
	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
	"github.com/oncekey/oncekey/policy"
)

// The golden files of the package, which its tests compare to the byte.
func TestGoldenFiles(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../../adapters/openapi/testdata/*.json")
	if err != nil || len(files) < 3 {
		t.Fatalf("the files are %v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		valid(t, text, err)
	}
}

func theirs(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../../adapters/openapi/testdata/theirs.json")
	testkit.Must(t, err)
	return string(text)
}

// The members that Merge adds are OpenAPI 3.0 as well.
func TestMergeIntoAnOlderDocument(t *testing.T) {
	t.Parallel()
	doc := merge(t, strings.Replace(theirs(t), "3.1.0", "3.0.3", 1), policy.Row("POST /payments", everything), policy.Row("PUT /a/{id:[a-z]+}"), policy.Row("POST /aged", policy.KeyAge(time.Hour)))
	testkit.Equal(t, doc.OpenAPI, "3.0.3", "the version of the document")
	operation(t, doc, "PUT", "/a/{id}")
}

func TestMergeIntoLittle(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"openapi":"3.1.0","info":{"title":"a","version":"1"},"components":{}}`,
		`{"openapi":"3.1.0","info":{"title":"a","version":"1"},"paths":{"/a":{
			"parameters":[{"name":"Idempotency-Key","in":"header","schema":{"type":"string"}}],
			"post":{}}}}`,
		`{"openapi":"3.1.0","info":{"title":"a","version":"1"},"paths":{}}`,
	} {
		operation(t, merge(t, text, policy.Row("POST /a")), "POST", "/a")
	}
	valid(t, []byte(`{"openapi":"3.1.0","info":{"title":"a","version":"1"},"paths":{}}`), nil)
	document(t)
}

func TestPathTemplates(t *testing.T) {
	t.Parallel()
	for pattern, template := range map[string]string{
		"/":                            "/",
		"/members/{id:[0-9]{1,3}}/x":   "/members/{id}/x",
		"/members/{id:^[0-9]+$}":       "/members/{id}",
		"/files/*":                     "/files/{wildcard}",
		"/a/{year}-{month}.json":       "/a/{year}-{month}.json",
		"/members/:id/pets/:pet":       "/members/{id}/pets/{pet}",
		"/files/:owner/*rest":          "/files/{owner}/{rest}",
		"/v1/payments:batch":           "/v1/payments:batch",
		`/v1/\:batch`:                  "/v1/:batch",
		"/v1/{tenant}/payments:cancel": "/v1/{tenant}/payments:cancel",
		"/v1.2/~me/a|b/@x/!":           "/v1.2/~me/a|b/@x/!",
	} {
		operation(t, document(t, policy.Row("POST "+pattern)), "POST", template)
	}
}

// A policy that can cause less is described in a valid document too.
func TestPolicies(t *testing.T) {
	t.Parallel()
	for _, option := range []policy.Option{policy.Required(false), policy.ObserveOnly(true), policy.Transactional(true), policy.OnAbandoned(policy.Refuse)} {
		operation(t, document(t, policy.Row("POST /a", option)), "POST", "/a")
	}
}

// The schema of the key takes the keys that core takes, raw and in quotes.
func TestKeySchema(t *testing.T) {
	t.Parallel()
	o := operation(t, document(t, policy.Row("POST /a")), "POST", "/a")
	parameter := o.Parameters.GetByInAndName("header", core.KeyHeader)
	if parameter == nil || !parameter.Required {
		t.Fatalf("got %+v", parameter)
	}
	keys := []string{
		"8e03978e-40d5-43e8-bc93-6894a57f9324", "ключ", strings.Repeat("a", 255), strings.Repeat("a", 256), "\x7f",
		`"` + strings.Repeat("a", 255) + `"`, `"` + strings.Repeat("a", 256) + `"`, `"` + strings.Repeat(`\"`, 255) + `"`, `"` + strings.Repeat(`\"`, 256) + `"`,
	}
	add := func(key string) {
		if key == strings.TrimSpace(key) { // the white space around a value is HTTP's
			keys = append(keys, key)
		}
	}
	allOf([]rune(`a"\,:()?0`), 4, add)
	allOf([]rune("a\" \t;1~!-"), 3, add)
	taken := 0
	for _, key := range keys {
		_, err := core.ParseKey(key)
		if err == nil {
			taken++
		}
		testkit.Equal(t, parameter.Schema.Value.VisitJSON(key) == nil, err == nil, "whether the schema allows %q, of which core says %v", key, err)
	}
	if taken < 1000 || taken > len(keys)-1000 {
		t.Errorf("core takes %d of %d keys: too few on one side", taken, len(keys))
	}
}

// allOf calls try for every text of at most length characters.
func allOf(characters []rune, length int, try func(string)) {
	try("")
	if length == 0 {
		return
	}
	for _, c := range characters {
		allOf(characters, length-1, func(rest string) { try(string(c) + rest) })
	}
}

// The schema of a route with a format takes its keys, raw and in quotes.
func TestKeyFormats(t *testing.T) {
	t.Parallel()
	for _, format := range []policy.KeySyntax{policy.UUIDKey, policy.KeyPattern("ord_[0-9]{6}"), policy.KeyPattern("^a|bc$"), policy.KeyPattern(`[a-c]*\.`)} {
		o := operation(t, document(t, policy.Row("POST /a", policy.KeyFormat(format))), "POST", "/a")
		schema := o.Parameters.GetByInAndName("header", core.KeyHeader).Schema.Value
		for _, key := range []string{"8e03978e-40d5-43e8-bc93-6894a57f9324", "8e03978e", "ord_123456", "ord_12345", "ord_1234567", "a", "bc", "abc", "ab.", ".", "..", "a,b"} {
			for _, spelled := range []string{key, `"` + key + `"`} {
				parsed, err := core.ParseKey(spelled)
				if want, fault := err == nil && format.Allows(parsed), schema.VisitJSON(spelled); (fault == nil) != want {
					t.Errorf("%s: %q is allowed: %t, and the schema says %v", format, spelled, want, fault)
				}
			}
		}
	}
}

// The validation of the other tests finds faults.
func TestValidationFindsFaults(t *testing.T) {
	t.Parallel()
	doc := document(t, policy.Row("POST /a/{id}"))
	operation(t, doc, "POST", "/a/{id}").Parameters = openapi3.Parameters{}
	if doc.Validate(t.Context()) == nil {
		t.Error("a template without its parameter passes")
	}
	doc = document(t, policy.Row("POST /a"))
	doc.Components.Schemas["IdempotencyProblem"].Value.Properties["title"].Value.Type = &openapi3.Types{"words"}
	if doc.Validate(t.Context()) == nil {
		t.Error("a type that is none passes")
	}
}

// linter is where tools/install-redocly.sh puts Redocly's command.
const linter = "../../../../build/redocly/node_modules/.bin/redocly"

// Redocly's recommended rules find no error in our part of a document. Servers and security
// are the service's own, and so are the summaries of its own operations.
func TestRedocly(t *testing.T) {
	t.Parallel()
	for file, theirs := range map[string][]string{
		"document.json": {"security-defined"},
		"merged.json":   {"security-defined", "no-empty-servers", "operation-summary"},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			lint(t, theirs, "../../../../adapters/openapi/testdata/"+file)
		})
	}
}

// lint runs Redocly's linter on files, without the rules for the service's own parts.
func lint(t *testing.T, theirs []string, files ...string) {
	t.Helper()
	program, err := filepath.Abs(linter)
	testkit.Must(t, err)
	if _, err := os.Stat(program); err != nil {
		serverproc.Missing(t, "Redocly's linter is missing: sh tools/install-redocly.sh fetches it with npm")
	}
	arguments := []string{"lint", "--extends=recommended", "--format=stylish"}
	for _, rule := range theirs {
		arguments = append(arguments, "--skip-rule="+rule)
	}
	command := exec.CommandContext(context.Background(), program, append(arguments, files...)...)
	command.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("redocly: %v:\n%s", err, output)
	}
}
