package openapi_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/oncekey/oncekey/adapters/openapi"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

type api struct {
	Pay    http.HandlerFunc `route:"POST /payments" idempotency:"TTLHours=48"`
	Update http.HandlerFunc `route:"PATCH /members/{id:[0-9]+}" idempotency:"Required=false OnAbandoned=Refuse"`
	Upload http.HandlerFunc `route:"PUT /files/{owner}/*" idempotency:""`
	List   http.HandlerFunc `route:"GET /members"`
	Plain  http.HandlerFunc `route:"POST /plain"`
}

// The document of an annotated struct, word by word.
func TestDocument(t *testing.T) {
	t.Parallel()
	declared, err := policy.Declarations(api{})
	testkit.Must(t, err)
	text, err := openapi.Document(declared)
	doc := parsed(t, text, err)
	golden(t, "document.json", string(text))
	if paths := namesOf(doc.Get("paths")); !slices.Equal(paths, []string{"/payments", "/members/{id}", "/files/{owner}/{wildcard}"}) {
		t.Errorf("paths are %v: only guarded routes are described, in the order of their declaration", paths)
	}
}

// Only problems that a policy can cause are described.
func TestPoliciesCauseTheirOwnProblems(t *testing.T) {
	t.Parallel()
	type row struct {
		options  []policy.Option
		required bool
		differs  map[string]string // from the defaults
		isEmpty  bool
	}
	testkit.Each(t, map[string]row{
		"the defaults": {required: true},
		"not required": {options: []policy.Option{policy.Required(false)}, differs: map[string]string{"400": "body_unreadable key_invalid"}},
		"refusing":     {options: []policy.Option{policy.OnAbandoned(policy.Refuse)}, required: true, differs: map[string]string{"409": "in_progress not_replayable outcome_unknown"}},
		"remembering":  {options: []policy.Option{policy.RememberHours(720)}, required: true, differs: map[string]string{"409": "in_progress key_expired not_replayable outcome_unknown"}},
		"aged":         {options: []policy.Option{policy.KeyAge(time.Hour)}, required: true, differs: map[string]string{"409": "in_progress key_expired not_replayable"}},
		"aged, refusing": {
			options:  []policy.Option{policy.KeyAge(time.Hour), policy.OnAbandoned(policy.Refuse)},
			required: true, differs: map[string]string{"409": "in_progress key_expired not_replayable outcome_unknown"},
		},
		"aged, remembering": {
			options:  []policy.Option{policy.KeyAge(time.Hour), policy.RememberHours(1)},
			required: true, differs: map[string]string{"409": "in_progress key_expired not_replayable outcome_unknown"},
		},
		"transactional":   {options: []policy.Option{policy.Transactional(true)}, required: true, differs: map[string]string{"500": "handler_failed rolled_back"}},
		"recovering":      {options: []policy.Option{policy.OnAbandoned(policy.Recover(func(context.Context, policy.Abandoned) (*policy.Response, error) { return nil, nil }))}, required: true, differs: map[string]string{"409": "in_progress not_replayable outcome_unknown"}},
		"fail-open":       {options: []policy.Option{policy.OnStoreError(policy.FailOpen)}, required: true},
		"only observing":  {options: []policy.Option{policy.ObserveOnly(true)}, isEmpty: true},
		"another timeout": {options: []policy.Option{policy.TTLHours(1)}, required: true},
	}, func(t *testing.T, c row) {
		doc := document(t, policy.Row("POST /a", c.options...))
		o := operation(t, doc, "POST", "/a")
		want := map[string]string{
			"400": "body_unreadable key_invalid key_missing", "401": "principal_missing", "409": "in_progress not_replayable",
			"413": "body_too_large", "422": "key_reused", "500": "handler_failed", "503": "handler_cancelled not_confirmed shutting_down store_unavailable",
		}
		maps.Copy(want, c.differs)
		if c.isEmpty {
			want = nil
		}
		got := make(map[string]string)
		for status, some := range codes(doc, o) {
			got[status] = strings.Join(some, " ")
		}
		if !maps.Equal(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
		if p := parameterOf(doc, o, "header", core.KeyHeader); !p.Exists() || p.Get("required").Bool() != c.required {
			t.Errorf("the key is %s, want required: %t", p, c.required)
		}
	})
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
		`/words/{w:\w+"<}`:             {"/words/{w}", []string{"w"}, ""}, // not plain
		"/words/{w:[a-z-]+}":           {"/words/{w}", []string{"w"}, `^[a-z\-]+$`},
		"/files/*":                     {"/files/{wildcard}", []string{"wildcard"}, ""},
		"/a/{year}-{month}.json":       {"/a/{year}-{month}.json", []string{"year", "month"}, ""},
		"/members/:id":                 {"/members/{id}", []string{"id"}, ""},
		"/members/:id/pets/:pet":       {"/members/{id}/pets/{pet}", []string{"id", "pet"}, ""},
		"/files/:owner/*rest":          {"/files/{owner}/{rest}", []string{"owner", "rest"}, ""},
		"/v1/payments:batch":           {"/v1/payments:batch", nil, ""},
		`/v1/\:batch`:                  {"/v1/:batch", nil, ""},
		"/v1/{tenant}/payments:cancel": {"/v1/{tenant}/payments:cancel", []string{"tenant"}, ""},
		"/v1.2/~me/a|b/@x/#/!/%7B":     {"/v1.2/~me/a|b/@x/#/!/%7B", nil, ""},
		`/"é"/0/-1`:                    {`/"é"/0/-1`, nil, ""},
		"/words/{w:[z-a]}":             {"/words/{w}", []string{"w"}, ""}, // no expression
	} {
		doc := document(t, policy.Row("POST "+pattern))
		if paths := namesOf(doc.Get("paths")); !slices.Equal(paths, []string{want.template}) {
			t.Errorf("%s makes the paths %q, want %q", pattern, paths, want.template)
			continue
		}
		var names []string
		expression := ""
		for _, p := range operation(t, doc, "POST", want.template).Get("parameters").Array() {
			if p.Get("in").Str == "path" {
				names = append(names, p.Get("name").Str)
				expression += p.Get("schema.pattern").Str
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
		"openapi: row 2: POST /things/{name}: in OpenAPI the path equals POST /things/{id:[0-9]+}",
		"openapi: row 4: BREW /coffee: OpenAPI describes no method BREW",
	}
	if got := strings.Split(fmt.Sprint(err), "\n"); doc != nil || !slices.Equal(got, want) {
		t.Errorf("got %s and %q\nwant %q", doc, got, want)
	}
}

// Case 65: in gin a brace is a character of the path, which OpenAPI cannot express.
func TestPatternsThatHaveNoTemplate(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"/a{", "/{", "/a{b", "/{a}/{b", "/{a:{2}"} {
		_, err := openapi.Document(rows(t, policy.Row("POST "+pattern)))
		testkit.Equal(t, fmt.Sprint(err), "openapi: row 1: POST "+pattern+": the pattern has a brace that is not closed", "the error")
	}
	_, err := openapi.Document(rows(t, policy.Row("POST /\xff")))
	testkit.Equal(t, fmt.Sprint(err), `openapi: row 1: "POST /\xff": the pattern is not UTF-8`, "the error")
}

// The parameter and the texts have the configured name of the key's header.
func TestKeyHeader(t *testing.T) {
	t.Parallel()
	text, err := openapi.Document(rows(t, policy.Row("POST /a")), openapi.KeyHeader("x-request-key"))
	doc := parsed(t, text, err)
	if p := parameterOf(doc, operation(t, doc, "POST", "/a"), "header", "X-Request-Key"); !p.Get("required").Bool() {
		t.Errorf("the key is %s, want a required X-Request-Key", p)
	}
	if strings.Contains(string(text), core.KeyHeader) {
		t.Errorf("the document names %s: %s", core.KeyHeader, text)
	}
}

// A key's format is the pattern of its parameter.
func TestKeyFormat(t *testing.T) {
	t.Parallel()
	const every, uuid = "#/components/schemas/IdempotencyKey", "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
	for format, want := range map[policy.KeySyntax]struct{ pattern, text string }{
		policy.UUIDKey:                    {`^(?:` + uuid + `|"(?:` + uuid + `)")$`, "retry, such as a random UUID."},
		policy.KeyPattern("ord_[0-9]{6}"): {`^(?:ord_[0-9]{6}|"(?:ord_[0-9]{6})")$`, "retry. It matches `ord_[0-9]{6}`."},
		policy.KeyPattern("(?i)ord_.+"):   {"", "retry. It matches `(?i)ord_.+`."}, // not plain
	} {
		declared := rows(t, policy.Row("POST /a", policy.KeyFormat(format)), policy.Row("POST /b"))
		text, err := openapi.Document(declared)
		doc := parsed(t, text, err)
		p := parameterOf(doc, operation(t, doc, "POST", "/a"), "header", core.KeyHeader)
		if p.Get("schema.pattern").Str != want.pattern || !strings.Contains(p.Raw, every) || !p.Get("required").Bool() {
			t.Errorf("the key is %s, want the pattern %s", p, want.pattern)
		}
		if key := at(doc, "components", "schemas", "IdempotencyKey"); key.Get("oneOf").Exists() || p.Get("schema.allOf").Exists() {
			t.Errorf("the key is %s and %s, for which ogen generates no operation", p, key)
		}
		if !strings.Contains(p.Get("description").Str, want.text) {
			t.Errorf("the key is described as %s, want %s", p.Get("description"), want.text)
		}
		testkit.Equal(t, p.Get("example").Exists(), format == policy.UUIDKey, "the example is %s", p.Get("example"))
		if p := parameterOf(doc, operation(t, doc, "POST", "/b"), "header", core.KeyHeader); p.Get("schema.$ref").Str != every {
			t.Errorf("without a format the key is %s", p)
		}
	}
}

// A key in the body is no parameter.
func TestKeyField(t *testing.T) {
	t.Parallel()
	declared := rows(t, policy.Row("POST /a", policy.KeyField("meta.request_id")))
	text, err := openapi.Document(declared)
	doc := parsed(t, text, err)
	o := operation(t, doc, "POST", "/a")
	if got := o.Get("x-idempotency-key-field").Str; got != "meta.request_id" || o.Get("parameters").Exists() || strings.Contains(string(text), "idempotency_key_missing") {
		t.Errorf("the field is %q in %s", got, o)
	}
}

// The responses of an operation have the header of replays, and those of the policy and the options. Problems have none of these,
// and neither have the responses of a route that observes.
func TestHeadersOfResponses(t *testing.T) {
	t.Parallel()
	type row struct {
		policy  []policy.Option
		options []openapi.Option
		want    []string
	}
	testkit.Each(t, map[string]row{
		"redacted fields":           {[]policy.Option{policy.RedactFields("secret")}, nil, []string{"X-Idempotent-Replay", "X-Idempotent-Redacted"}},
		"the expiry":                {nil, []openapi.Option{openapi.ExpiryHeader("idempotency-expires")}, []string{"X-Idempotent-Replay", "Idempotency-Expires"}},
		"another header of replays": {nil, []openapi.Option{openapi.ReplayHeader("idempotent-replayed")}, []string{"Idempotent-Replayed"}},
	}, func(t *testing.T, row row) {
		declared := rows(t, policy.Row("POST /a", row.policy...), policy.Row("POST /observed", append(row.policy, policy.ObserveOnly(true))...))
		text, err := openapi.Document(declared, row.options...)
		headers := at(operation(t, parsed(t, text, err), "POST", "/a"), "responses", "2XX", "headers")
		testkit.EqualSlices(t, namesOf(headers), row.want, "the headers")
		testkit.Equal(t, strings.Contains(string(text), "The header Idempotency-Expires has"), slices.Contains(row.want, "Idempotency-Expires"), "the text of the expiry")
		last := row.want[len(row.want)-1]
		testkit.Equal(t, strings.Count(string(text), `"`+last+`": {`), 1, "descriptions of %s", last)
	})
}

// A document without guarded routes has no components. Merge without guarded routes
// returns the same text.
func TestNothingToDescribe(t *testing.T) {
	t.Parallel()
	text, err := openapi.Document(nil)
	doc := parsed(t, text, err)
	if names := namesOf(doc); !slices.Equal(names, []string{"openapi", "info", "servers", "paths"}) || doc.Get("paths").Raw != "{}" {
		t.Errorf("got %s", text)
	}
	for _, before := range []string{theirs(t), " {\"openapi\":\"3.1.0\"}\n"} {
		if got, err := openapi.Merge([]byte(before), nil); string(got) != before {
			t.Errorf("got %q, %v, want %q", got, err, before)
		}
	}
}

// OpenAPI describes no tools of an MCP server.
func TestToolsAreLeftOut(t *testing.T) {
	t.Parallel()
	table, err := policy.NewTable(policy.Row("POST /payments"), policy.Row("TOOL charge"))
	testkit.Must(t, err)
	text, err := openapi.Document(table.Declarations())
	testkit.Equal(t, parsed(t, text, err).Get("paths.@keys").String(), `["/payments"]`, "the paths")
}

func ExampleDocument() {
	declared, err := policy.Declarations(api{})
	if err != nil {
		panic(err)
	}
	document, err := openapi.Document(declared)
	if err != nil {
		panic(err)
	}
	pay := gjson.GetBytes(document, "paths./payments.post")
	fmt.Println(pay.Get("operationId"), pay.Get("x-idempotency.ttlSeconds"))
	fmt.Println(pay.Get("responses.@keys"))
	fmt.Println(pay.Get("responses.409.$ref"))
	// Output:
	// postPayments 172800
	// ["2XX","400","401","409","413","422","500","503"]
	// #/components/responses/IdempotencyConflict
}
