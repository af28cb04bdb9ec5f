package openapi_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/oncekey/oncekey/adapters/openapi"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// Schemas have the types, the required and the optional members of the bodies.
func TestWrittenSchemas(t *testing.T) {
	t.Parallel()
	const object, code = `{"type":"object","required":["error"],"properties":{"error":{"type":"object","required":`, `"code":{"type":"string","enum":[`
	write := func(w http.ResponseWriter, r *http.Request, p problem.Problem) {
		if p.RetryAfter > 0 && p.Code != problem.InProgress {
			p.RetryAfter = 0 // optional in one group
		}
		nested(w, r, p)
	}
	type row struct {
		write  problem.Writer
		status string
		want   string
	}
	testkit.Each(t, map[string]row{
		"nested": {nested, "429", object + `["after","causes","code","message","status"],"properties":{"after":{"type":"number"},"causes":{"type":"array","items":{"type":"string"}},` +
			code + `"in_progress","store_unavailable","shutting_down","handler_cancelled","not_confirmed"]},"message":{"type":"string"},"status":{"type":"integer"}}}}}`},
		"no item": {write, "503", object + `["causes","code","message","status"],"properties":{"causes":{"type":"array","items":{}},` +
			code + `"store_unavailable","shutting_down","handler_cancelled","not_confirmed"]},"message":{"type":"string"},"status":{"type":"integer"}}}}}`},
		"text":             {plain, "503", `{"type":"string"}`},
		"mixed":            {bodies(`{"a":1,"b":null,"code":7}`, `{"a":1.5,"b":"","c":true,"code":"x"}`), "503", `{"type":"object","required":["a","b","code"],"properties":{"a":{"type":"number"},"b":{},"code":{},"c":{"type":"boolean"}}}`},
		"kinds":            {bodies(`[{"a":[1]},2]`, `[{"a":"b"}]`), "503", `{"type":"array","items":{}}`},
		"items":            {bodies(`[{"a":[1]}]`, `[{"a":[2.5],"b":{}},{"b":{}}]`), "503", `{"type":"array","items":{"type":"object","properties":{"a":{"type":"array","items":{"type":"number"}},"b":{"type":"object"}}}}`},
		"codes":            {bodies(`{"code":"a"}`, `{"code":"b"}`), "503", `{"type":"object","required":["code"],"properties":{"code":{"type":"string","enum":["a","b"]}}}`},
		"repeats":          {bodies(`{"a":1,"a":"b"}`, `{"a":"c"}`), "503", `{"type":"object","required":["a"],"properties":{"a":{"type":"string"}}}`},
		"kinds of numbers": {bodies(`{"a":null,"b":1.5,"c":"x"}`, `{"a":null,"b":"x","c":1.5}`), "503", `{"type":"object","required":["a","b","c"],"properties":{"a":{},"b":{},"c":{}}}`},
		"null":             {bodies(`null`, `{}`), "503", `{}`},
		"numbers":          {bodies(`1e2`, `-3`), "503", `{"type":"number"}`},
	}, func(t *testing.T, c row) {
		text, err := openapi.Document(rows(t, policy.Row("POST /a")), openapi.ProblemWriter(c.write))
		doc := parsed(t, text, err)
		for _, media := range target(doc, at(operation(t, doc, "POST", "/a"), "responses", c.status)).Get("content").Map() {
			testkit.Equal(t, media.Get("schema.@ugly").Raw, c.want, "the schema")
		}
	})
}

// bodies writes one body for each 503 in turn, and the first one otherwise.
func bodies(all ...string) problem.Writer {
	return func(w http.ResponseWriter, _ *http.Request, p problem.Problem) {
		w.Header().Set("Content-Type", "application/vnd.shop+json")
		w.WriteHeader(p.Status)
		fmt.Fprint(w, all[(1+slices.Index([]string{problem.StoreUnavailable, problem.ShuttingDown}, p.Code)+len(all)-1)%len(all)])
	}
}
