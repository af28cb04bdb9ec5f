package openapi_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/oncekey/oncekey/adapters/openapi"
	"github.com/oncekey/oncekey/policy"
)

// Case 65: a null where OpenAPI has none is named, and nothing is changed.
func TestNullsInADocument(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ paths, components, want string }{
		"a parameter of the path":      {`{"/p/{n}": {"parameters": [{"name":"n","in":"path"}, null]}}`, `{}`, `openapi: the document's paths./p/{n}.parameters[1] is null`},
		"a parameter of the operation": {`{"/p/{n}": {"post": {"parameters": [null], "responses": {}}}}`, `{}`, `openapi: the document's paths./p/{n}.post.parameters[0] is null`},
		"a response":                   {`{"/p/{n}": {"post": {"responses": {"409": null}}}}`, `{}`, `openapi: the document's paths./p/{n}.post.responses.409 is null`},
		"an allOf": {
			`{"/p/{n}": {"post": {"responses": {"409": {"description": "", "content": {"application/problem+json": {"schema": {"allOf": [null]}}}}}}}}`, `{}`,
			`openapi: the document's paths./p/{n}.post.responses.409.content.application/problem+json.schema.allOf[0] is null`,
		},
		"two":                     {`{"/p/{n}": {"parameters": [null], "post": {"parameters": [null], "responses": {}}}}`, `{}`, `is null`},
		"a component of our name": {`{}`, `{"schemas": {"IdempotencyProblem": null}}`, `openapi: the document has another components.schemas.IdempotencyProblem`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := fmt.Sprintf(`{"openapi":"3.1.0","info":{"title":"","version":""},"paths":%s,"components":%s}`, c.paths, c.components)
			doc := unmarshal(t, text)
			err := openapi.Merge(doc, rows(t, policy.Row("POST /p/{id}"), policy.Row("POST /other")))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %s", err, c.want)
			}
			if !reflect.DeepEqual(doc, unmarshal(t, text)) {
				t.Error("the document is changed")
			}
		})
	}
}

// unmarshal reads a document without resolving references, which nulls would end.
func unmarshal(t *testing.T, text string) *openapi3.T {
	t.Helper()
	var doc openapi3.T
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	return &doc
}

// Case 65: nulls that are in the way of nothing stay.
func TestNullsElsewhere(t *testing.T) {
	t.Parallel()
	doc := unmarshal(t, `{"openapi":"3.1.0","info":null,"servers":null,"tags":[null],"security":null,
		"components":{"schemas":{"Theirs":null},"parameters":null,"headers":{"Theirs":null}},
		"paths":{"/other":null,"/p":{"get":null,"post":{"parameters":null,"callbacks":null,
			"responses":{"201":{"description":"","headers":{"X-Theirs":null},"content":{"application/json":null,"application/problem+json":null}}}}}}}`)
	if err := openapi.Merge(doc, rows(t, policy.Row("POST /p"))); err != nil {
		t.Fatal(err)
	}
	if doc.Paths.Value("/p").Post.Responses.Value("422") == nil {
		t.Error("nothing was added")
	}
}

// Case 65: a nil document or option is named.
func TestNilIsNamed(t *testing.T) {
	t.Parallel()
	declared := rows(t, policy.Row("POST /p"))
	nilPath := openapi3.NewPaths()
	nilPath.Set("/p", nil)
	for want, merge := range map[string]func() error{
		"openapi: the document is nil: give one, or call Document":  func() error { return openapi.Merge(nil, declared) },
		"openapi: option 2 is nil: leave it out":                    func() error { return openapi.Merge(&openapi3.T{}, declared, openapi.ReplayHeader("X"), nil) },
		"openapi: the document's paths./p is null":                  func() error { return openapi.Merge(&openapi3.T{Paths: nilPath}, declared) },
		"openapi: option 1 is nil":                                  func() error { _, err := openapi.Document(declared, nil); return err },
		`openapi: ReplayHeader is "": it must be a header name`:     func() error { return openapi.Merge(&openapi3.T{}, declared, openapi.ReplayHeader("")) },
		`openapi: ReplayHeader is "X\nY": it must be a header name`: func() error { return openapi.Merge(&openapi3.T{}, declared, openapi.ReplayHeader("X\nY")) },
	} {
		if err := merge(); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	if err := openapi.Merge(&openapi3.T{}, nil); err != nil {
		t.Errorf("no declarations: %v", err)
	}
	if doc, err := openapi.Document(nil); err != nil || doc == nil {
		t.Errorf("no declarations: %v", err)
	}
}

// Case 65: gin takes a brace for a character of the path, which OpenAPI cannot say.
func TestPatternsThatHaveNoTemplate(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"/a{", "/{", "/a{b", "/{a}/{b", "/{a:{2}"} {
		_, err := openapi.Document(rows(t, policy.Row("POST "+pattern)))
		if want := "openapi: row 1: POST " + pattern + ": the pattern has a brace that is not closed"; fmt.Sprint(err) != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// Case 65: no pattern makes a panic.
func FuzzPatterns(f *testing.F) {
	for _, pattern := range []string{"/a/{id}", "/:id/*rest", "/{id:[0-9]{2}}/*", "/{", "/}{", `/\:a`, "/*", "/:", "/{}{}"} {
		f.Add(pattern)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		table, err := policy.NewTable(policy.Row("POST " + pattern))
		if err != nil {
			return
		}
		doc, err := openapi.Document(table.Declarations())
		if (err == nil) == (doc == nil) {
			t.Errorf("got %v and %v", doc, err)
		}
		if err == nil && openapi.Merge(doc, table.Declarations()) != nil {
			t.Errorf("%q cannot be merged twice", pattern)
		}
	})
}
