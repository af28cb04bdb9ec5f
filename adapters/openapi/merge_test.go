package openapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/adapters/openapi"
	"github.com/oncekey/oncekey/policy"
)

// theirs is a document that a team has written: of POST /payments it knows more
// than we do, of the rest less.
const theirs = `{
  "openapi": "3.1.0",
  "info": {"title": "Payments", "version": "7"},
  "components": {
    "responses": {"Unavailable": {"description": "ours, on every route"}},
    "schemas": {"Payment": {"type": "object"}}
  },
  "paths": {
    "/payments": {
      "post": {
        "operationId": "pay",
        "parameters": [{"name": "idempotency-key", "in": "header", "required": true, "description": "ours", "schema": {"type": "string", "maxLength": 36}}],
        "responses": {
          "201": {"description": "paid", "headers": {"x-idempotent-replay": {"description": "ours", "schema": {"type": "string"}}}},
          "402": {"description": "declined"},
          "409": {"description": "conflict, ours", "content": {"application/json": {"schema": {"type": "object"}}}},
          "422": {"description": "ours alone", "content": {"application/problem+json": {"schema": {"type": "object"}}}},
          "503": {"$ref": "#/components/responses/Unavailable"}
        }
      }
    },
    "/members/{memberId}": {
      "parameters": [{"name": "memberId", "in": "path", "required": true, "schema": {"type": "integer"}}],
      "get": {"responses": {"200": {"description": "a member"}}}
    },
    "/files/{path}": {
      "get": {"parameters": [{"name": "path", "in": "path", "required": true, "schema": {"type": "string"}}], "responses": {"200": {"description": "a file"}}}
    }
  }
}`

func TestMergeOverwritesNothing(t *testing.T) {
	t.Parallel()
	doc := load(t, theirs)
	declared := rows(t, policy.Row("POST /payments"), policy.Row("PATCH /members/:id"), policy.Row("PUT /files/*"), policy.Row("POST /refunds"))
	if err := openapi.Merge(doc, declared); err != nil {
		t.Fatal(err)
	}
	doc = valid(t, doc)
	if doc.Info.Title != "Payments" || doc.Components.Schemas["Payment"] == nil || doc.Components.Responses["Unavailable"] == nil {
		t.Error("what was there is gone")
	}

	pay := operation(t, doc, "POST", "/payments")
	if pay.OperationID != "pay" || len(pay.Parameters) != 1 || pay.Parameters[0].Value.Description != "ours" {
		t.Errorf("the parameter was there already: %s", asJSON(t, pay.Parameters))
	}
	paid := pay.Responses.Value("201").Value
	if len(paid.Headers) != 1 || paid.Headers["x-idempotent-replay"].Value.Description != "ours" {
		t.Errorf("the header was there already: %s", asJSON(t, paid))
	}
	if pay.Responses.Value("402").Value.Headers["X-Idempotent-Replay"] == nil {
		t.Error("a declined payment is replayed too")
	}
	conflict := pay.Responses.Value("409").Value
	if *conflict.Description != "conflict, ours" || conflict.Content["application/json"] == nil || conflict.Content["application/problem+json"] == nil || conflict.Headers["Retry-After"] == nil {
		t.Errorf("our problem stands beside theirs: %s", asJSON(t, conflict))
	}
	if problem := pay.Responses.Value("422").Value.Content["application/problem+json"]; len(problem.Schema.Value.AllOf) != 0 {
		t.Errorf("their schema is overwritten: %s", asJSON(t, problem))
	}
	if unavailable := pay.Responses.Value("503"); unavailable.Ref == "" || len(unavailable.Value.Content) != 0 {
		t.Errorf("a shared response is changed: %s", asJSON(t, unavailable))
	}
	if pay.Responses.Value("2XX") != nil || pay.Responses.Value("401") == nil {
		t.Errorf("responses are %v", pay.Responses.Keys())
	}

	// A path is the same by any names of its parameters, which are declared once.
	update := operation(t, doc, "PATCH", "/members/{memberId}")
	if update.Parameters.GetByInAndName("path", "memberId") != nil || len(update.Parameters) != 1 {
		t.Errorf("parameters are %s", asJSON(t, update.Parameters))
	}
	upload := operation(t, doc, "PUT", "/files/{path}")
	if p := upload.Parameters.GetByInAndName("path", "path"); p == nil || !strings.Contains(p.Description, "slashes included") {
		t.Errorf("parameters are %s", asJSON(t, upload.Parameters))
	}
	operation(t, doc, "POST", "/refunds")
	if doc.Paths.Len() != 4 {
		t.Errorf("paths are %v", doc.Paths.Keys())
	}
}

func TestMergeTwiceIsMergeOnce(t *testing.T) {
	t.Parallel()
	doc := load(t, theirs)
	declared := rows(t, policy.Row("POST /payments"), policy.Row("PATCH /members/{id}"))
	if err := openapi.Merge(doc, declared); err != nil {
		t.Fatal(err)
	}
	once := asJSON(t, valid(t, doc))
	doc = load(t, once)
	if err := openapi.Merge(doc, declared); err != nil {
		t.Fatal(err)
	}
	if twice := asJSON(t, valid(t, doc)); twice != once {
		t.Errorf("got %s\nwant %s", twice, once)
	}
}

// What is added is OpenAPI 3.0 as well.
func TestMergeIntoAnOlderDocument(t *testing.T) {
	t.Parallel()
	doc := load(t, strings.Replace(theirs, "3.1.0", "3.0.3", 1))
	if err := openapi.Merge(doc, rows(t, policy.Row("POST /payments", everything), policy.Row("PUT /a/{id:[a-z]+}"))); err != nil {
		t.Fatal(err)
	}
	if doc = valid(t, doc); doc.OpenAPI != "3.0.3" {
		t.Errorf("the document is %s now", doc.OpenAPI)
	}
}

// A document without paths, and an operation without responses or with a header
// that the whole path has.
func TestMergeIntoLittle(t *testing.T) {
	t.Parallel()
	doc := load(t, `{"openapi":"3.1.0","info":{"title":"a","version":"1"},"components":{}}`)
	if err := openapi.Merge(doc, rows(t, policy.Row("POST /a"))); err != nil {
		t.Fatal(err)
	}
	valid(t, doc)

	doc = load(t, `{"openapi":"3.1.0","info":{"title":"a","version":"1"},"paths":{"/a":{
		"parameters":[{"name":"Idempotency-Key","in":"header","schema":{"type":"string"}}],
		"post":{}}}}`)
	if err := openapi.Merge(doc, rows(t, policy.Row("POST /a"))); err != nil {
		t.Fatal(err)
	}
	if o := operation(t, valid(t, doc), "POST", "/a"); len(o.Parameters) != 0 || o.Responses.Value("2XX") == nil {
		t.Errorf("got %s", asJSON(t, o))
	}
}

func TestMergeThatCannotBeChangesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		components string
		want       []string
	}{
		"other components": {
			`"schemas":{"IdempotencyProblem":{"type":"string"}},"parameters":{"IdempotencyKey":{"name":"k","in":"query","schema":{"type":"string"}}},"headers":{"IdempotentReplay":{"schema":{"type":"boolean"}}}`,
			[]string{
				"openapi: the document has another components.schemas.IdempotencyProblem: rename it",
				"openapi: the document has another components.parameters.IdempotencyKey: rename it",
				"openapi: the document has another components.headers.IdempotentReplay: rename it",
			},
		},
		"another method": {"", []string{"openapi: row 2: BREW /coffee: OpenAPI describes no method BREW"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doc := load(t, `{"openapi":"3.1.0","info":{"title":"a","version":"1"},"paths":{},"components":{`+c.components+`}}`)
			before := asJSON(t, doc)
			declared := rows(t, policy.Row("POST /a"), policy.Row("BREW /coffee"))
			if name == "other components" {
				declared = declared[:1]
			}
			err := openapi.Merge(doc, declared)
			if got := strings.Split(fmt.Sprint(err), "\n"); !slices.Equal(got, c.want) {
				t.Errorf("got %q\nwant %q", got, c.want)
			}
			if after := asJSON(t, doc); after != before {
				t.Errorf("the document is changed: %s", after)
			}
		})
	}
}

func ExampleMerge() {
	doc := exampleDocument()
	declared, err := policy.Declarations(api{})
	if err != nil {
		panic(err)
	}
	if err := openapi.Merge(doc, declared); err != nil {
		panic(err)
	}
	pay := doc.Paths.Value("/payments").Post
	fmt.Println(*pay.Responses.Value("201").Value.Description, pay.Parameters[0].Ref)
	fmt.Println(slices.Sorted(slices.Values(pay.Responses.Keys())))
	// Output:
	// paid #/components/parameters/IdempotencyKey
	// [201 400 401 409 413 422 500 503]
}
