package openapi_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/oncekey/oncekey/adapters/openapi"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// Responses of other paths, in other forms, have components of other names, which stay.
func TestFormsByPath(t *testing.T) {
	t.Parallel()
	declared := rows(t, policy.Row("POST /acp/a"), policy.Row("POST /ucp/a"), policy.Row("POST /ucp/b"), policy.Row("POST /acp/b"))
	text, err := openapi.Document(declared, openapi.ProblemWriter(byPath))
	doc := parsed(t, text, err)
	for path, want := range map[string]string{"/acp/a": "Idempotency409", "/ucp/a": "Idempotency409-2", "/ucp/b": "Idempotency409-2", "/acp/b": "Idempotency409"} {
		testkit.Equal(t, operation(t, doc, "POST", path).Get("responses.409.$ref").Str, "#/components/responses/"+want, "the 409 of %s", path)
	}
}

// Two engines of a service describe their routes in one document, one after the other.
func TestTwoWriters(t *testing.T) {
	t.Parallel()
	a, b, c := rows(t, policy.Row("POST /a")), rows(t, policy.Row("POST /b")), rows(t, policy.Row("POST /c"))
	text := []byte(`{"openapi":"3.1.0","info":{"title":"a","version":"1"}}`)
	for _, one := range []struct {
		declared []policy.Declaration
		options  []openapi.Option
	}{{a, []openapi.Option{openapi.ProblemWriter(nested)}}, {b, []openapi.Option{openapi.ProblemWriter(conflicting)}}, {c, nil}} {
		merged, err := openapi.Merge(text, one.declared, one.options...)
		parsed(t, merged, err)
		text = merged
	}
	doc := gjson.ParseBytes(text)
	for path, want := range map[string]string{"/a": "Idempotency409", "/b": "Idempotency409-2", "/c": "IdempotencyConflict"} {
		testkit.Equal(t, operation(t, doc, "POST", path).Get("responses.409.$ref").Str, "#/components/responses/"+want, "the 409 of %s", path)
	}
	for path, want := range map[string]string{"/a": "error", "/b": "code,content", "/c": ""} {
		response := target(doc, operation(t, doc, "POST", path).Get("responses.409"))
		if got := strings.Join(strs(at(response, "content", "application/json", "schema", "required")), ","); got != want {
			t.Errorf("%s has the members %s, want %s", path, got, want)
		}
	}
}

func strs(array gjson.Result) (all []string) {
	for _, value := range array.Array() {
		all = append(all, value.Str)
	}
	return all
}

// A media type of the team's own keeps its schema.
func TestWriterBesideOwnMedia(t *testing.T) {
	t.Parallel()
	const theirs = `{"openapi":"3.1.0","info":{"title":"a","version":"1"},"paths":{"/a":{"post":{"responses":{"409":{"description":"ours","content":{"Application/JSON":{"schema":{"type":"integer"}}}}}}}}}`
	for _, c := range []struct {
		write problem.Writer
		types []string
	}{{flat, []string{"Application/JSON"}}, {plain, []string{"Application/JSON", "text/plain"}}} {
		merged, err := openapi.Merge([]byte(theirs), rows(t, policy.Row("POST /a")), openapi.ProblemWriter(c.write))
		doc := parsed(t, merged, err)
		testkit.Equal(t, kept("", gjson.Parse(theirs), doc), "", "the difference")
		testkit.EqualSlices(t, namesOf(operation(t, doc, "POST", "/a").Get("responses.409.content")), c.types, "the media types")
	}
}

// A component of the team's own under the name of one of Merge's stays.
func TestNamesOfWrittenComponents(t *testing.T) {
	t.Parallel()
	const theirs = `{"openapi":"3.1.0","info":{"title":"a","version":"1"},"components":{"responses":{"Idempotency409":{"description":"ours"}}}}`
	text, err := openapi.Merge([]byte(theirs), rows(t, policy.Row("POST /a")), openapi.ProblemWriter(flat))
	doc := parsed(t, text, err)
	if fault := kept("", gjson.Parse(theirs), doc); fault != "" {
		t.Error(fault)
	}
	for n, status := range []int{400, 409} {
		want := []string{"Idempotency400KeyMissing", "Idempotency409-2"}[n]
		if got := operation(t, doc, "POST", "/a").Get("responses." + strconv.Itoa(status) + ".$ref").Str; got != "#/components/responses/"+want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func ExampleProblemWriter() {
	write := func(w http.ResponseWriter, _ *http.Request, p problem.Problem) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(p.Status)
		fmt.Fprintf(w, `{"code": %q, "message": %q}`, p.Code, p.Detail)
	}
	declared, err := policy.Declarations(api{})
	if err != nil {
		panic(err)
	}
	document, err := openapi.Document(declared, openapi.ProblemWriter(write))
	if err != nil {
		panic(err)
	}
	reused := gjson.GetBytes(document, "components.responses.Idempotency422.content.application/json")
	fmt.Println(reused.Get("schema.@ugly"))
	fmt.Println(reused.Get("examples.key_reused.value.@ugly"))
	// Output:
	// {"type":"object","required":["code","message"],"properties":{"code":{"type":"string","enum":["key_reused"]},"message":{"type":"string"}}}
	// {"code":"key_reused","message":"This Idempotency-Key was used with another payload: use a new key for a new operation."}
}
