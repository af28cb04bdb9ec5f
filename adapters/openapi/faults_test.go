package openapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/oncekey/oncekey/adapters/openapi"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// Case 65: Merge names a fault in the place of a route's description.
func TestFaultsInADocument(t *testing.T) {
	t.Parallel()
	const nulled, again = " is null: fill it in, or remove it", " was described by an earlier Merge: give Merge the document from before it"
	type row struct{ paths, components, want string }
	testkit.Each(t, map[string]row{
		"a parameter of the path":      {`{"/p/{n}": {"parameters": [{"name":"n","in":"path"}, null]}}`, `{}`, `paths./p/{n}.parameters[1]` + nulled},
		"a parameter of the operation": {`{"/p/{n}": {"post": {"parameters": [null], "responses": {}}}}`, `{}`, `paths./p/{n}.post.parameters[0]` + nulled},
		"a response":                   {`{"/p/{n}": {"post": {"responses": {"409": null}}}}`, `{}`, `paths./p/{n}.post.responses.409` + nulled},
		"a path":                       {`{"/p/{n}": null}`, `{}`, `paths./p/{n}` + nulled},
		"two": {
			`{"/p/{n}": {"parameters": [null], "post": {"parameters": [null], "responses": {}}}}`, `{}`,
			`paths./p/{n}.parameters[0]` + nulled + "\nopenapi: the document's paths./p/{n}.post.parameters[0]" + nulled,
		},

		"paths of a wrong type":      {`[]`, `{}`, `paths is an array: it must be an object`},
		"components of a wrong type": {`{}`, `"none"`, `components is a string: it must be an object`},
		"schemas of a wrong type":    {`{}`, `{"schemas": 7}`, `components.schemas is a number: it must be an object`},
		"a path of a wrong type":     {`{"/p/{n}": "p.json"}`, `{}`, `paths./p/{n} is a string: it must be an object`},
		"parameters that are none":   {`{"/p/{n}": {"post": {"parameters": {}}}}`, `{}`, `paths./p/{n}.post.parameters is an object: it must be an array`},
		"a parameter that is none":   {`{"/p/{n}": {"post": {"parameters": ["n"]}}}`, `{}`, `paths./p/{n}.post.parameters[0] is a string: it must be an object`},
		"responses that are none":    {`{"/p/{n}": {"post": {"responses": true}}}`, `{}`, `paths./p/{n}.post.responses is a boolean: it must be an object`},
		"headers that are none":      {`{"/p/{n}": {"post": {"responses": {"201": {"headers": []}}}}}`, `{}`, `paths./p/{n}.post.responses.201.headers is an array: it must be an object`},

		"a path elsewhere":         {`{"/p/{n}": {"$ref": "p.json#/a"}}`, `{}`, `paths./p/{n} is a $ref to "p.json#/a": write the path item in its place`},
		"a path twice":             {`{"/p/{n}": {}, "/p/{n}": {}}`, `{}`, `paths./p/{n} is defined twice: remove one`},
		"a path in two spellings":  {`{"/p/{n}": {}, "\/p\/{\u006e}": {}}`, `{}`, `paths./p/{n} is defined twice: remove one`},
		"a path with two names":    {`{"/p/{n}": {}, "/p/{m}": {}}`, `{}`, `paths./p/{n} and paths./p/{m} are the same path: leave one`},
		"an operation again":       {`{"/p/{n}": {"post": {"x-idempotency": {}}}}`, `{}`, `paths./p/{n}.post` + again},
		"an observing one again":   {`{"/p/{n}": {"post": {"parameters": [{"name": "Idempotency-Key", "in": "header", "schema": {"$ref": "#/components/schemas/IdempotencyKey"}}]}}}`, `{}`, `paths./p/{n}.post` + again},
		"one of a key field again": {`{"/p/{n}": {"post": {"x-idempotency-key-field": "id"}}}`, `{}`, `paths./p/{n}.post` + again},
		"an operation twice":       {`{"/p/{n}": {"post": {}, "post": {}}}`, `{}`, `paths./p/{n}.post is defined twice: remove one`},
		"responses twice":          {`{"/p/{n}": {"post": {"responses": {}, "responses": {}}}}`, `{}`, `paths./p/{n}.post.responses is defined twice: remove one`},
		"a response twice":         {`{"/p/{n}": {"post": {"responses": {"409": {}, "409": {}}}}}`, `{}`, `paths./p/{n}.post.responses.409 is defined twice: remove one`},
		"a response's part twice":  {`{"/p/{n}": {"post": {"responses": {"409": {"content": {}, "content": {}}}}}}`, `{}`, `paths./p/{n}.post.responses.409.content is defined twice: remove one`},
		"a parameter's name twice": {`{"/p/{n}": {"parameters": [{"in": "path", "in": "path"}]}}`, `{}`, `paths./p/{n}.parameters[0].in is defined twice: remove one`},
		"components twice":         {`{}`, `{}, "components": {}`, `components is defined twice: remove one`},
		"schemas twice":            {`{}`, `{"schemas": {}, "schemas": {}}`, `components.schemas is defined twice: remove one`},
	}, func(t *testing.T, c row) {
		text := fmt.Sprintf(`{"openapi":"3.1.0","info":{"title":"","version":""},"paths":%s,"components":%s}`, c.paths, c.components)
		declared := rows(t, policy.Row("POST /p/{id}"), policy.Row("PUT /p/{id}"), policy.Row("POST /other"))
		if merged, err := openapi.Merge([]byte(text), declared); merged != nil || fmt.Sprint(err) != "openapi: the document's "+c.want {
			t.Errorf("got  %v\nwant openapi: the document's %s", err, c.want)
		}
	})
}

// Case 65: faults in other places stay.
func TestFaultsElsewhere(t *testing.T) {
	t.Parallel()
	before := `{"openapi":"3.1.0","info":null,"servers":null,"tags":[null],"security":null,"x-a":{"b":1,"b":2},
		"components":{"schemas":{"Theirs":null},"parameters":null,"headers":{"Theirs":null}},
		"paths":{"/other":null,"/elsewhere":{"$ref":"a.json"},"/{a}":[],"/{b}":7,"/p":{"get":null,"post":{"parameters":null,"callbacks":null,
			"responses":{"201":{"description":"","headers":{"X-Theirs":null},"content":{"application/json":null,"application/problem+json":null}}}}}}}`
	doc := merge(t, before, rows(t, policy.Row("POST /p")))
	if fault := kept("", gjson.Parse(before), doc); fault != "" {
		t.Error(fault)
	}
	if !operation(t, doc, "POST", "/p").Get("responses.422").Exists() {
		t.Error("the document is unchanged")
	}
}

// Merge refuses text that is not an OpenAPI document in JSON, with the reason.
func TestTextsThatAreNoDocument(t *testing.T) {
	t.Parallel()
	const give, version = ": give an OpenAPI document in JSON, or call Document", ": give an OpenAPI document of version 3, such as 3.1.0"
	for text, want := range map[string]string{
		"":                                       "the document is empty" + give,
		" \n":                                    "the document is empty" + give,
		"null":                                   "the document is null" + give,
		"[]":                                     "the document is an array" + give,
		` "openapi: 3.1.0" `:                     "the document is a string" + give,
		"7":                                      "the document is a number" + give,
		"openapi: 3.1.0\npaths: {}":              "the document is YAML: convert it to JSON first",
		"# ours\n---\n\"openapi\" : \"3.1.0\"\n": "the document is YAML: convert it to JSON first",
		"\xef\xbb\xbf{\"openapi\":\"3.1.0\"}":    "the document begins with a byte order mark: remove it",
		"{\n  \"openapi\": \"3.1.0\",\n  paths}": "the document is not JSON: line 3, column 3: invalid character 'p' looking for beginning of object key string",
		"{\n\"openapi\":\"3.1.0\",\n}":           "the document is not JSON: line 3, column 1: invalid character '}' looking for beginning of object key string",
		`{"openapi":"3.1.0"`:                     "the document is not JSON: line 1, column 18: unexpected end of JSON input",
		`{"openapi":"3.1.0"} {}`:                 "the document is not JSON: line 1, column 21: invalid character '{' after top-level value",
		"<html>":                                 "the document is not JSON: line 1, column 1: invalid character '<' looking for beginning of value",
		`{}`:                                     "the document has no member openapi" + version,
		`{"swagger":"2.0"}`:                      `the document is Swagger "2.0"` + version,
		`{"openapi":"4.0.0"}`:                    `the document's openapi is "4.0.0"` + version,
		`{"openapi":3.1}`:                        `the document's openapi is 3.1` + version,
	} {
		for _, declared := range [][]policy.Declaration{nil, rows(t, policy.Row("POST /p"))} {
			if merged, err := openapi.Merge([]byte(text), declared); merged != nil || fmt.Sprint(err) != "openapi: "+want {
				t.Errorf("%q: got %v\nwant openapi: %s", text, err, want)
			}
		}
	}
	deep := `{"openapi":"3.1.0","x-a":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + "}"
	if _, err := openapi.Merge([]byte(deep), nil); !strings.Contains(fmt.Sprint(err), "exceeded max depth") {
		t.Errorf("got %v", err)
	}
}

// Case 65: a nil document or option is named.
func TestNilIsNamed(t *testing.T) {
	t.Parallel()
	declared, empty := rows(t, policy.Row("POST /p")), []byte(`{"openapi":"3.1.0"}`)
	for want, merge := range map[string]func() ([]byte, error){
		"openapi: the document is empty":                            func() ([]byte, error) { return openapi.Merge(nil, declared) },
		"openapi: option 2 is nil: leave it out":                    func() ([]byte, error) { return openapi.Merge(empty, declared, openapi.ReplayHeader("X"), nil) },
		"openapi: option 1 is nil":                                  func() ([]byte, error) { return openapi.Document(declared, nil) },
		`openapi: KeyHeader is "X Key": it must be a header name`:   func() ([]byte, error) { return openapi.Merge(empty, declared, openapi.KeyHeader("X Key")) },
		`openapi: ExpiryHeader is "": it must be a header name`:     func() ([]byte, error) { return openapi.Merge(empty, declared, openapi.ExpiryHeader("")) },
		"openapi: ProblemWriter is nil: give the function":          func() ([]byte, error) { return openapi.Document(declared, openapi.ProblemWriter(nil)) },
		`openapi: ReplayHeader is "": it must be a header name`:     func() ([]byte, error) { return openapi.Merge(empty, declared, openapi.ReplayHeader("")) },
		`openapi: ReplayHeader is "X\nY": it must be a header name`: func() ([]byte, error) { return openapi.Merge(empty, declared, openapi.ReplayHeader("X\nY")) },
	} {
		if merged, err := merge(); merged != nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// Case 65: no pattern causes a panic.
func FuzzPatterns(f *testing.F) {
	for _, pattern := range []string{"/a/{id}", "/:id/*rest", "/{id:[0-9]{2}}/*", "/{", "/}{", `/\:a`, "/*", "/:", "/{}{}", "/a.b|c~d/@e"} {
		f.Add(pattern)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		table, err := policy.NewTable(policy.Row("POST " + pattern))
		if err != nil {
			return
		}
		doc, err := openapi.Document(table.Declarations())
		if (err == nil) == (doc == nil) {
			t.Errorf("got %s and %v", doc, err)
		}
		if err != nil {
			return
		}
		if _, err := openapi.Merge(doc, table.Declarations()); err == nil {
			t.Errorf("%q is merged twice into %s", pattern, doc)
		}
	})
}

// Merge keeps all members of any document in order, and adds the new path under its exact
// name. It refuses to describe an operation again.
func FuzzMerge(f *testing.F) {
	for _, document := range []string{
		theirs(f), `{"openapi":"3.1.0"}`, `{"openapi":"3.0.0","paths":{"/a/{b}":{"post":null}}}`, "{\r\n\t\"openapi\" : \"3.1\" ,\n\n\"paths\" :\t{ } } ",
		`{"openapi":"3.1.0","paths":{"/a/{b}":{"parameters":[{"$ref":"#/components/parameters/x"}],"post":{"responses":{"default":{},"4XX":{"headers":null}}}}}}`,
		`{"\u006fpenapi":"3.1.0","components":{"schemas":{}, "x":[ ]},"paths":{"/\ud800":{},"/p":{"post":{"parameters":[ ],"responses":{ "409" :{"content":{}} }}}}}`,
	} {
		for _, pattern := range []string{"/a/{id}", "/p", "/a.b/~c/d|e", "/*", "/:x/@y/#z/!", `/"\`, "/payments"} {
			f.Add([]byte(document), pattern)
		}
	}
	f.Fuzz(func(t *testing.T, document []byte, pattern string) {
		table, err := policy.NewTable(policy.Row("POST "+pattern), policy.Row("PUT /p", policy.ObserveOnly(true)))
		if err != nil {
			return
		}
		before := slices.Clone(document)
		merged, err := openapi.Merge(document, table.Declarations())
		switch {
		case !bytes.Equal(document, before):
			t.Fatalf("Merge has changed the bytes of the caller: %q", document)
		case err != nil && merged != nil:
			t.Fatalf("got %s and %v", merged, err)
		case err != nil:
			return
		case !json.Valid(merged):
			t.Fatalf("this is not JSON: %s", merged)
		}
		testkit.Equal(t, kept("", gjson.ParseBytes(document), gjson.ParseBytes(merged)), "", "in %s", merged)
		if _, err := openapi.Merge(merged, table.Declarations()); err == nil || !strings.Contains(err.Error(), "by an earlier Merge") {
			t.Errorf("merged again: %v\n%s", err, merged)
		}
		if written, err := openapi.Merge(document, table.Declarations(), openapi.ProblemWriter(nested)); err == nil && !json.Valid(written) {
			t.Errorf("merged with a writer: %s", written)
		}
		paths := namesOf(gjson.GetBytes(merged, "paths"))
		fragment, err := openapi.Document(table.Declarations())
		testkit.Must(t, err)
		for _, template := range namesOf(gjson.GetBytes(fragment, "paths")) {
			if !slices.Contains(paths, template) && !strings.Contains(template, "{") {
				t.Errorf("there is no path %q in %s", template, merged)
			}
		}
	})
}
