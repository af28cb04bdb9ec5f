package openapi_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/oncekey/oncekey/adapters/openapi"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// Every response has the key's header: the handler's of every status, and problems in both
// forms. A shared response of the team's own stays as it is.
func TestKeyEcho(t *testing.T) {
	t.Parallel()
	const theirs = `{"openapi":"3.1.0","info":{"title":"a","version":"1"},"paths":{"/a":{"post":{"responses":{
		"201":{"description":"ours"},"409":{"description":"ours"},"502":{"description":"ours"},"504":{"$ref":"#/components/responses/Ours"},"x-a":{}}}}},
		"components":{"responses":{"Ours":{"description":"ours"}}}}`
	declared := rows(t, policy.Row("POST /a"), policy.Row("POST /b", policy.ObserveOnly(true)), policy.Row("POST /c", policy.KeyField("id")))
	for name, form := range map[string][]openapi.Option{"the engine's own": nil, "flat": {openapi.ProblemWriter(flat)}} {
		options := slices.Concat([]openapi.Option{openapi.KeyEcho(), openapi.KeyHeader("request-id")}, form)
		text, err := openapi.Merge([]byte(theirs), declared, options...)
		doc := parsed(t, text, err)
		testkit.Equal(t, kept("", gjson.Parse(theirs), doc), "", "%s", name)
		for path, want := range map[string]int{"/a": 9, "/b": 1, "/c": 8} {
			found := 0
			for status, response := range operation(t, doc, "POST", path).Get("responses").Map() {
				header := at(target(doc, response), "headers", "Request-Id")
				if header.Get("$ref").Str == "#/components/headers/IdempotencyKeyEcho" {
					found++
				} else if status != "504" && status != "x-a" {
					t.Errorf("%s: %s of %s has the header %q", name, status, path, header)
				}
			}
			testkit.Equal(t, found, want, "%s: responses of %s with the header", name, path)
		}
		if got := at(operation(t, doc, "POST", "/b"), "responses", "2XX", "headers"); len(namesOf(got)) != 1 {
			t.Errorf("%s: an observing route replays nothing, and has the headers %s", name, got)
		}
		if got := at(operation(t, doc, "POST", "/a"), "responses", "502", "headers"); len(namesOf(got)) != 1 {
			t.Errorf("%s: a response that is not kept has the headers %s", name, got)
		}
		if got := doc.Get("components.headers.IdempotencyKeyEcho.description").Str; !strings.HasPrefix(got, "The Request-Id of the request") {
			t.Errorf("%s: the header's text is %q", name, got)
		}
	}
}
