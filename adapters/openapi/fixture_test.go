package openapi_test

import (
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/adapters/openapi"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

var update = flag.Bool("update", false, "write the golden files anew")

func rows(t *testing.T, rows ...policy.TableRow) []policy.Declaration {
	t.Helper()
	table, err := policy.NewTable(rows...)
	testkit.Must(t, err)
	return table.Declarations()
}

func document(t *testing.T, declared ...policy.TableRow) gjson.Result {
	t.Helper()
	text, err := openapi.Document(rows(t, declared...))
	return parsed(t, text, err)
}

func merge(t *testing.T, text string, declared []policy.Declaration) gjson.Result {
	t.Helper()
	merged, err := openapi.Merge([]byte(text), declared)
	return parsed(t, merged, err)
}

func parsed(t *testing.T, text []byte, err error) gjson.Result {
	t.Helper()
	testkit.Must(t, err)
	if !json.Valid(text) {
		t.Fatalf("this is not JSON: %s", text)
	}
	return gjson.ParseBytes(text)
}

// at follows unescaped names.
func at(value gjson.Result, names ...string) gjson.Result {
	for _, name := range names {
		value = value.Get(gjson.Escape(name))
	}
	return value
}

// namesOf returns the names of an object's members in order.
func namesOf(object gjson.Result) (names []string) {
	object.ForEach(func(name, _ gjson.Result) bool {
		names = append(names, name.Str)
		return true
	})
	return names
}

func operation(t *testing.T, doc gjson.Result, method, template string) gjson.Result {
	t.Helper()
	o := at(doc, "paths", template, strings.ToLower(method))
	if !o.IsObject() {
		t.Fatalf("there is no %s %s; the paths are %q", method, template, namesOf(doc.Get("paths")))
	}
	return o
}

// target follows a $ref to a component.
func target(doc, value gjson.Result) gjson.Result {
	if ref, isRef := strings.CutPrefix(value.Get("$ref").Str, "#/components/"); isRef {
		return at(doc.Get("components"), strings.Split(ref, "/")...)
	}
	return value
}

// parameterOf returns the operation's parameter, and follows a $ref.
func parameterOf(doc, operation gjson.Result, in, name string) gjson.Result {
	for _, p := range operation.Get("parameters").Array() {
		p = target(doc, p)
		if p.Get("in").Str == in && p.Get("name").Str == name {
			return p
		}
	}
	return gjson.Result{}
}

// codes returns the problem codes that an operation describes, by status.
func codes(doc, operation gjson.Result) map[string][]string {
	all := make(map[string][]string)
	for status, response := range operation.Get("responses").Map() {
		schema := target(doc, at(target(doc, response), "content", "application/problem+json").Get("schema"))
		for _, code := range schema.Get("allOf.1.properties.code.enum").Array() {
			all[status] = append(all[status], code.Str)
		}
		slices.Sort(all[status])
	}
	for status, some := range all {
		if len(some) == 0 {
			delete(all, status)
		}
	}
	return all
}

// golden compares text with a file, to the byte. To accept a change:
// go test ./adapters/openapi -update.
func golden(t *testing.T, file, got string) {
	t.Helper()
	file = "testdata/" + file
	if *update {
		testkit.Must(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	testkit.Must(t, err)
	if got != string(want) {
		t.Errorf("%s is not the text that is made now: look at the difference, then run with -update\n%s", file, got)
	}
}

func theirs(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("testdata/theirs.json")
	testkit.Must(t, err)
	return string(text)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
