package openapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/oncekey/oncekey/adapters/openapi"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// testdata/theirs.json is a team's own document. It describes POST /payments in more
// detail than a declaration, and other routes in less.
func TestMergeOverwritesNothing(t *testing.T) {
	t.Parallel()
	declared := rows(t, policy.Row("POST /payments"), policy.Row("PATCH /members/:id"), policy.Row("PUT /files/*"), policy.Row("POST /refunds"))
	before := gjson.Parse(theirs(t))
	doc := merge(t, theirs(t), declared)
	golden(t, "merged.json", doc.Raw)
	if fault := kept("", before, doc); fault != "" {
		t.Error(fault)
	}

	pay := operation(t, doc, "POST", "/payments")
	if pay.Get("operationId").Str != "pay" || pay.Get("parameters.#").Int() != 1 || pay.Get("parameters.0.description").Str != "ours" {
		t.Errorf("the parameter was there already: %s", pay.Get("parameters"))
	}
	testkit.EqualSlices(t, namesOf(pay.Get("responses.201.headers")), []string{"x-idempotent-replay"}, "the header that was there already")
	if !pay.Get("responses.402.headers.X-Idempotent-Replay").Exists() {
		t.Error("a declined payment is replayed too")
	}
	conflict := pay.Get("responses.409")
	if media := namesOf(conflict.Get("content")); !slices.Equal(media, []string{"application/json", "application/problem+json"}) || !conflict.Get("headers.Retry-After").Exists() {
		t.Errorf("our problem stands beside theirs: %s", conflict)
	}
	if problem := at(pay, "responses", "422", "content", "application/problem+json"); problem.Get("schema.allOf").Exists() {
		t.Errorf("their schema is overwritten: %s", problem)
	}
	testkit.EqualSlices(t, namesOf(pay.Get("responses.502")), []string{"description"}, "a response of 5xx is not replayed")
	if problem := at(conflict, "content", "application/problem+json"); problem.Get("schema.$ref").Str != "#/components/schemas/IdempotencyConflict" || len(namesOf(problem.Get("examples"))) != 2 {
		t.Errorf("our problem is %s", problem)
	}
	if pay.Get("x-idempotency.ttlSeconds").Int() != 86400 || !strings.Contains(pay.Get("x-idempotency.description").Str, "24 hours") {
		t.Errorf("their parameter has no text of ours, so the extension has it: %s", pay.Get("x-idempotency"))
	}
	testkit.EqualSlices(t, namesOf(pay.Get("responses.503")), []string{"$ref"}, "a shared response is changed")
	if statuses := namesOf(pay.Get("responses")); !slices.Equal(statuses, []string{"201", "402", "409", "422", "502", "503", "400", "401", "413", "500"}) {
		t.Errorf("responses are %v", statuses)
	}

	// Paths that differ only in parameter names are the same path, declared once.
	update := operation(t, doc, "PATCH", "/members/{memberId}")
	if update.Get("parameters.#").Int() != 1 || parameterOf(doc, update, "path", "memberId").Exists() {
		t.Errorf("parameters are %s", update.Get("parameters"))
	}
	upload := operation(t, doc, "PUT", "/files/{path}")
	if p := parameterOf(doc, upload, "path", "path"); !strings.Contains(p.Get("description").Str, "including slashes") {
		t.Errorf("parameters are %s", upload.Get("parameters"))
	}
	testkit.EqualSlices(t, namesOf(doc.Get("paths")), []string{"/payments", "/members/{memberId}", "/files/{path}", "/refunds"}, "the paths")
}

// kept returns the places where after lacks a part of before, or has the part elsewhere.
// A null may have become an object or an array.
func kept(place string, before, after gjson.Result) string {
	switch {
	case before.Type == gjson.Null && (after.IsObject() || after.IsArray()):
		return ""
	case before.IsObject() != after.IsObject() || before.IsArray() != after.IsArray():
		return fmt.Sprintf("%s is %s, and was %s", place, after.Raw, before.Raw)
	case !before.IsObject() && !before.IsArray():
		if before.Raw != after.Raw {
			return fmt.Sprintf("%s is %s, and was %s", place, after.Raw, before.Raw)
		}
		return ""
	}
	wanted, got := membersOf(before), membersOf(after)
	if len(got) < len(wanted) {
		return fmt.Sprintf("%s has lost a member: %s", place, after.Raw)
	}
	for i, member := range wanted {
		place := place + "." + member.name
		if got[i].name != member.name {
			return fmt.Sprintf("%s is elsewhere, or gone", place)
		}
		if fault := kept(place, member.value, got[i].value); fault != "" {
			return fault
		}
	}
	return ""
}

type member struct {
	name  string
	value gjson.Result
}

func membersOf(value gjson.Result) (all []member) {
	value.ForEach(func(name, value gjson.Result) bool {
		all = append(all, member{name.Raw, value})
		return true
	})
	return all
}

// A new member looks like its neighbours.
func TestLayout(t *testing.T) {
	t.Parallel()
	declared := rows(t, policy.Row("POST /a", policy.ObserveOnly(true)))
	type row struct{ before, has string }
	testkit.Each(t, map[string]row{
		"around it":   {" {\"openapi\":\"3.1.0\"}\n", " {\"openapi\":\"3.1.0\",\"paths\":{"},
		"behind it":   {" {\"openapi\":\"3.1.0\"}\n", "}\n"},
		"on one line": {`{"openapi":"3.1.0","paths":{}}`, `"paths":{"/a":{"post":{"operationId":"postA","summary":"POST /a, once for each key","parameters":[{"name":"`},
		"with spaces": {`{ "openapi": "3.1.0", "paths": { "/b": {} } }`, `"paths": { "/b": {}, "/a": {"post":{"operationId":"postA",`},
		"in lines":    {"{\n  \"openapi\": \"3.1.0\",\n  \"paths\": {}\n}", "\n  \"paths\": {\n    \"/a\": {\n      \"post\": {\n        \"operationId\": \"postA\",\n"},
		"by tabs":     {"{\n\t\"openapi\": \"3.1.0\",\n\t\"paths\": {}\n}", "\n\t\"paths\": {\n\t\t\"/a\": {\n\t\t\t\"post\": {\n"},
		"of Windows":  {"{\r\n  \"openapi\": \"3.1.0\"\r\n}", ",\r\n  \"paths\": {\r\n    \"/a\": {\r\n"},
		"at the end":  {"{\n\n \"openapi\": \"3.1.0\",\n\n \"paths\": {\n\n  \"/b\": {}\n\n }}", "\"/b\": {},\n  \"/a\": {\n   \"post\": {\n"},
		"in a list": {
			"{\n  \"openapi\": \"3.1.0\",\n  \"paths\": {\"/a\":\n    {\"post\": {\"parameters\": [\n      {}\n    ]}}}}",
			"[\n      {},\n      {\n        \"name\": \"Idempotency-Key\",\n        \"in\": \"header\",\n",
		},
	}, func(t *testing.T, c row) {
		if got, err := openapi.Merge([]byte(c.before), declared); err != nil || !strings.Contains(string(got), c.has) {
			t.Errorf("got %s, %v\nwant %s in it", got, err, c.has)
		}
	})
}

// A document without paths, and an operation without responses or with a header that
// the whole path has.
func TestMergeIntoLittle(t *testing.T) {
	t.Parallel()
	declared := rows(t, policy.Row("POST /a"))
	for _, empty := range []string{
		`{"openapi":"3.1.0","info":{"title":"a","version":"1"},"components":{}}`,
		`{"openapi":"3.1.0","info":{"title":"a","version":"1"},"paths":null,"components":null}`,
	} {
		doc := merge(t, empty, declared)
		if o := operation(t, doc, "POST", "/a"); !o.Get("responses.2XX").Exists() || !doc.Get("components.schemas.IdempotencyProblem").Exists() {
			t.Errorf("got %s", doc)
		}
	}
	for name, shared := range map[string]string{
		"by itself":        `{"name":"Idempotency-Key","in":"header","schema":{"type":"string"}}`,
		"in another case":  `{"name":"idempotency-key","in":"header","schema":{"type":"string"}}`,
		"behind a $ref":    `{"$ref":"#/components/parameters/a~1b%20c~0"}`,
		"behind two $refs": `{"$ref":"#/components/parameters/again"}`,
	} {
		doc := merge(t, `{"openapi":"3.1.0","info":{"title":"a","version":"1"},
			"components":{"parameters":{"a/b c~":{"name":"Idempotency-Key","in":"header"},"again":{"$ref":"#/components/parameters/a~1b%20c~0"}}},
			"paths":{"/a":{"parameters":[`+shared+`],"post":{}}}}`, declared)
		if o := operation(t, doc, "POST", "/a"); o.Get("parameters").Exists() || !o.Get("responses.2XX").Exists() {
			t.Errorf("%s: got %s", name, o)
		}
	}
	// Two routers' names for one path.
	testkit.EqualSlices(t, namesOf(document(t, policy.Row("POST /a/{x}"), policy.Row("PUT /a/:y")).Get("paths")), []string{"/a/{x}"}, "the paths")
	// A redirection describes success, and an error does not.
	for status, isSuccess := range map[string]bool{"303": true, "404": false} {
		doc := merge(t, `{"openapi":"3.1.0","paths":{"/a":{"post":{"responses":{"`+status+`":{"description":""}}}}}}`, declared)
		testkit.Equal(t, operation(t, doc, "POST", "/a").Get("responses.2XX").Exists(), !isSuccess, "2XX beside %s", status)
	}
	// A default describes success, and a null counts as no operation.
	doc := merge(t, `{"openapi":"3.1.0","paths":{"/a":{"post":{"responses":{"default":{"description":""}}}},"/b/{c}":{"put":null}}}`,
		rows(t, policy.Row("POST /a"), policy.Row("PUT /b/:c")))
	if o := operation(t, doc, "POST", "/a"); o.Get("responses.2XX").Exists() || !o.Get("responses.default.headers.X-Idempotent-Replay").Exists() {
		t.Errorf("got %s", o)
	}
	if o := operation(t, doc, "PUT", "/b/{c}"); !parameterOf(doc, o, "path", "c").Exists() {
		t.Errorf("got %s", o)
	}
	for name, other := range map[string]string{
		"a $ref to another file": `{"$ref":"common.json#/components/parameters/Key"}`,
		"a $ref to itself":       `{"$ref":"#/components/parameters/circle"}`,
		"a $ref without target":  `{"$ref":"#/components/parameters/gone"}`,
		"a parameter of a query": `{"name":"Idempotency-Key","in":"query"}`,
		"another header":         `{"name":"X-Tenant","in":"header"}`,
		"another header of keys": `{"name":"X-Parent-Key","in":"header","schema":{"$ref":"#/components/schemas/IdempotencyKey"}}`,
	} {
		doc := merge(t, `{"openapi":"3.1.0","components":{"parameters":{"circle":{"$ref":"#/components/parameters/circle"}}},
			"paths":{"/a":{"post":{"parameters":[`+other+`]}}}}`, declared)
		testkit.Equal(t, operation(t, doc, "POST", "/a").Get("parameters.#").Int(), 2, "%s is no key", name)
	}
}

// An extension is not a response.
func TestExtensionsStay(t *testing.T) {
	t.Parallel()
	doc := merge(t, `{"openapi":"3.1.0","paths":{"x-a":1,"/a":{"x-b":null,"post":{"x-c":[],"responses":{"x-d":null,"x-e":{"description":""},"x-f":7}}}}}`, rows(t, policy.Row("POST /a")))
	responses := operation(t, doc, "POST", "/a").Get("responses")
	if responses.Get("x-d").Raw != "null" || responses.Get("x-e").Raw != `{"description":""}` || responses.Get("x-f").Raw != "7" {
		t.Errorf("got %s", responses)
	}
}

func TestMergeThatCannotBe(t *testing.T) {
	t.Parallel()
	const rename = ": rename it, or remove it if an earlier Merge added it"
	for name, c := range map[string]struct {
		components string
		want       []string
	}{
		"other components": {
			`"schemas":{"IdempotencyProblem":{"type":"string"}},"responses":{"IdempotencyConflict":{"description":"ours"}},"headers":{"IdempotentReplay":{"schema":{"type":"boolean"}}}`,
			[]string{
				"openapi: the document has another components.schemas.IdempotencyProblem" + rename,
				"openapi: the document has another components.headers.IdempotentReplay" + rename,
				"openapi: the document has another components.responses.IdempotencyConflict" + rename,
			},
		},
		"another method": {"", []string{"openapi: row 2: BREW /coffee: OpenAPI describes no method BREW"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			declared := rows(t, policy.Row("POST /a"), policy.Row("BREW /coffee"))
			if name == "other components" {
				declared = declared[:1]
			}
			merged, err := openapi.Merge([]byte(`{"openapi":"3.1.0","info":{"title":"a","version":"1"},"paths":{},"components":{`+c.components+`}}`), declared)
			if got := strings.Split(fmt.Sprint(err), "\n"); merged != nil || !slices.Equal(got, c.want) {
				t.Errorf("got %q\nwant %q", got, c.want)
			}
		})
	}
}

func ExampleMerge() {
	document := []byte(`{
  "openapi": "3.1.0",
  "info": {"title": "Payments", "version": "1"},
  "paths": {"/payments": {"post": {"responses": {"201": {"description": "paid"}}}}}
}`)
	declared, err := policy.Declarations(api{})
	if err != nil {
		panic(err)
	}
	document, err = openapi.Merge(document, declared)
	if err != nil {
		panic(err)
	}
	pay := gjson.GetBytes(document, "paths./payments.post")
	fmt.Println(pay.Get("responses.201.description"), pay.Get("parameters.0.name"))
	fmt.Println(pay.Get("responses.@keys"))
	// Output:
	// paid Idempotency-Key
	// ["201","400","401","409","413","422","500","503"]
}

// The path of a server is no part of the document's paths.
func TestMergeBelowServer(t *testing.T) {
	t.Parallel()
	type test struct{ servers, paths, route, want string }
	testkit.Each(t, map[string]test{
		"no servers":                   {`[]`, `{}`, "/v1/payments", "/v1/payments"},
		"a server without a path":      {`[{"url":"https://a.example"}]`, `{}`, "/v1/payments", "/v1/payments"},
		"a server with a path":         {`[{"url":"https://a.example/v1"}]`, `{}`, "/v1/payments", "/payments"},
		"a path alone, with a slash":   {`[{"url":"/v1/"}]`, `{}`, "/v1/payments/:id", "/payments/{id}"},
		"a described path":             {`[{"url":"/v1"}]`, `{"/members/{memberId}":{"post":{}}}`, "/v1/members/{id}", "/members/{memberId}"},
		"variables":                    {`[{"url":"https://{host}:8443/api/{v}","variables":{"host":{"default":"a.example"},"v":{"default":"v2"}}}]`, `{}`, "/api/v2/payments", "/payments"},
		"of two servers, the path's":   {`[{"url":"https://a.example/v1"},{"url":"https://b.example/sandbox/v1"}]`, `{}`, "/sandbox/v1/payments", "/payments"},
		"of two servers, the first":    {`[{"url":"https://a.example"},{"url":"https://b.example/v1"}]`, `{}`, "/v1/payments", "/v1/payments"},
		"of two servers, the document": {`[{"url":"https://a.example"},{"url":"https://b.example/v1"}]`, `{"/refunds":{},"/payments":{}}`, "/v1/payments", "/refunds /payments"},
		"another path":                 {`[{"url":"/v1"}]`, `{}`, "/v10/payments", "/v10/payments"},
		"a router mounted below":       {`[{"url":"/v1"}]`, `{}`, "/payments", "/payments"},
		"the path as a whole":          {`[{"url":"/payments"}]`, `{}`, "/payments", "/payments"},
		"no URLs":                      {`[{"url":"https://{host}/v1"},{"url":"%zz"},7]`, `{}`, "/v1/payments", "/v1/payments"},
	}, func(t *testing.T, test test) {
		text := fmt.Sprintf(`{"openapi":"3.1.0","info":{"title":"t","version":"1"},"servers":%s,"paths":%s}`, test.servers, test.paths)
		declared := rows(t, policy.Row("POST "+test.route))
		merged, err := openapi.Merge([]byte(text), declared)
		testkit.Must(t, err)
		if paths := namesOf(gjson.GetBytes(merged, "paths")); !slices.Equal(paths, strings.Fields(test.want)) {
			t.Errorf("%s is at %q, want %q", test.route, paths, test.want)
		}
	})
	_, err := openapi.Merge([]byte(`{"openapi":"3.1.0","servers":[{"url":"/v1"}],"paths":{}}`), rows(t, policy.Row("POST /v1/payments"), policy.Row("POST /payments")))
	if err == nil || !strings.Contains(err.Error(), "in OpenAPI the path equals POST /v1/payments") {
		t.Errorf("two routes of one path: %v", err)
	}
}
