package openapi_test

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/oncekey/oncekey/adapters/openapi"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/policy"
)

var update = flag.Bool("update", false, "write the golden files anew")

type api struct {
	Pay    http.HandlerFunc `route:"POST /payments" idempotency:"TTLHours=48"`
	Update http.HandlerFunc `route:"PATCH /members/{id:[0-9]+}" idempotency:"Required=false OnAbandoned=Refuse"`
	Upload http.HandlerFunc `route:"PUT /files/{owner}/*" idempotency:""`
	List   http.HandlerFunc `route:"GET /members"`
	Plain  http.HandlerFunc `route:"POST /plain"`
}

// The document of an annotated struct, word by word. To accept a change:
// go test ./adapters/openapi -update.
func TestDocument(t *testing.T) {
	t.Parallel()
	declared, err := policy.Declarations(api{})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi.Document(declared)
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/document.json"
	got := asJSON(t, valid(t, doc)) + "\n"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not what is made now: look at the difference, then run with -update\n%s", golden, got)
	}
	if paths := slices.Sorted(maps.Keys(doc.Paths.Map())); !slices.Equal(paths, []string{"/files/{owner}/{wildcard}", "/members/{id}", "/payments"}) {
		t.Errorf("paths are %v: only what is guarded is described", paths)
	}
}

// The schema of the key takes the keys that core takes, raw ones at least.
func TestKeySchema(t *testing.T) {
	t.Parallel()
	o := operation(t, document(t, policy.Row("POST /a")), "POST", "/a")
	parameter := o.Parameters.GetByInAndName("header", core.KeyHeader)
	if parameter == nil || !parameter.Required {
		t.Fatalf("got %+v", parameter)
	}
	for _, key := range []string{"k", "8e03978e-40d5-43e8-bc93-6894a57f9324", strings.Repeat("a", 255), "~!#", `"quoted"`, "", "a b", "ключ", "a\tb", strings.Repeat("a", 256), "\x7f"} {
		_, err := core.ParseKey(key)
		if schema := parameter.Schema.Value.VisitJSON(key); (schema == nil) != (err == nil) {
			t.Errorf("%q: core says %v, the schema %v", key, err, schema)
		}
	}
}

// Only what a policy can cause is described.
func TestPoliciesCauseTheirOwnProblems(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options  []policy.Option
		required bool
		differs  map[string]string // from the defaults
		nothing  bool
	}{
		"the defaults":    {required: true},
		"not required":    {options: []policy.Option{policy.Required(false)}, differs: map[string]string{"400": "body_unreadable key_invalid"}},
		"refusing":        {options: []policy.Option{policy.OnAbandoned(policy.Refuse)}, required: true, differs: map[string]string{"409": "in_progress not_replayable outcome_unknown"}},
		"transactional":   {options: []policy.Option{policy.Transactional(true)}, required: true, differs: map[string]string{"500": "handler_failed rolled_back"}},
		"fail-open":       {options: []policy.Option{policy.OnStoreError(policy.FailOpen)}, required: true},
		"only observing":  {options: []policy.Option{policy.Observe(true)}, nothing: true},
		"another timeout": {options: []policy.Option{policy.TTLHours(1)}, required: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := operation(t, document(t, policy.Row("POST /a", c.options...)), "POST", "/a")
			want := map[string]string{
				"400": "body_unreadable key_invalid key_missing", "401": "principal_missing", "409": "in_progress not_replayable",
				"413": "body_too_large", "422": "key_reused", "500": "handler_failed", "503": "handler_cancelled not_confirmed shutting_down store_unavailable",
			}
			maps.Copy(want, c.differs)
			if c.nothing {
				want = nil
			}
			got := make(map[string]string)
			for status, some := range codes(t, o) {
				got[status] = strings.Join(some, " ")
			}
			if !maps.Equal(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
			if p := o.Parameters.GetByInAndName("header", core.KeyHeader); p == nil || p.Required != c.required {
				t.Errorf("the key is %+v, want required: %t", p, c.required)
			}
		})
	}
}

func TestPathTemplates(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]struct {
		template string
		names    []string
		regexp   string
	}{
		"/":                            {"/", nil, ""},
		"/payments":                    {"/payments", nil, ""},
		"/members/{id}":                {"/members/{id}", []string{"id"}, ""},
		"/members/{id:[0-9]{1,3}}/x":   {"/members/{id}/x", []string{"id"}, "^[0-9]{1,3}$"},
		"/members/{id:^[0-9]+$}":       {"/members/{id}", []string{"id"}, "^[0-9]+$"},
		"/files/*":                     {"/files/{wildcard}", []string{"wildcard"}, ""},
		"/a/{year}-{month}.json":       {"/a/{year}-{month}.json", []string{"year", "month"}, ""},
		"/members/:id":                 {"/members/{id}", []string{"id"}, ""},
		"/members/:id/pets/:pet":       {"/members/{id}/pets/{pet}", []string{"id", "pet"}, ""},
		"/files/:owner/*rest":          {"/files/{owner}/{rest}", []string{"owner", "rest"}, ""},
		"/v1/payments:batch":           {"/v1/payments:batch", nil, ""},
		`/v1/\:batch`:                  {"/v1/:batch", nil, ""},
		"/v1/{tenant}/payments:cancel": {"/v1/{tenant}/payments:cancel", []string{"tenant"}, ""},
	} {
		doc := document(t, policy.Row("POST "+pattern))
		o := operation(t, doc, "POST", want.template)
		var names []string
		expression := ""
		for _, p := range o.Parameters {
			if p.Value.In == "path" {
				names = append(names, p.Value.Name)
				expression += p.Value.Schema.Value.Pattern
			}
		}
		if !slices.Equal(names, want.names) || expression != want.regexp {
			t.Errorf("%s has the parameters %v with %q, want %v with %q", pattern, names, expression, want.names, want.regexp)
		}
	}
}

func TestDocumentThatCannotBe(t *testing.T) {
	t.Parallel()
	doc, err := openapi.Document(rows(t,
		policy.Row("POST /things/{id:[0-9]+}"), policy.Row("POST /things/{name}"), policy.Row("PUT /things/{name}"), policy.Row("BREW /coffee"),
	))
	want := []string{
		"openapi: row 2: POST /things/{name}: OpenAPI cannot tell it from POST /things/{id:[0-9]+}",
		"openapi: row 4: BREW /coffee: OpenAPI describes no method BREW",
	}
	if got := strings.Split(fmt.Sprint(err), "\n"); doc != nil || !slices.Equal(got, want) {
		t.Errorf("got %v and %q\nwant %q", doc, got, want)
	}
}

func TestReplayHeader(t *testing.T) {
	t.Parallel()
	doc, err := openapi.Document(rows(t, policy.Row("POST /a")), openapi.ReplayHeader("idempotent-replayed"))
	if err != nil {
		t.Fatal(err)
	}
	headers := operation(t, valid(t, doc), "POST", "/a").Responses.Value("2XX").Value.Headers
	if headers["Idempotent-Replayed"] == nil || len(headers) != 1 {
		t.Errorf("headers are %v", headers)
	}
}

// Nothing guarded, nothing said.
func TestNothingToDescribe(t *testing.T) {
	t.Parallel()
	doc, err := openapi.Document(nil)
	if err != nil || doc.Components != nil || doc.Paths.Len() != 0 {
		t.Errorf("got %+v, %v", doc, err)
	}
	valid(t, doc)
}

// The validation that the other tests rely on finds what is wrong.
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

func ExampleDocument() {
	declared, err := policy.Declarations(api{})
	if err != nil {
		panic(err)
	}
	doc, err := openapi.Document(declared)
	if err != nil {
		panic(err)
	}
	pay := doc.Paths.Value("/payments").Post
	fmt.Println(pay.Parameters[0].Value.Name, pay.Parameters[0].Value.Required)
	fmt.Println(slices.Sorted(slices.Values(pay.Responses.Keys())))
	// Output:
	// Idempotency-Key true
	// [2XX 400 401 409 413 422 500 503]
}
