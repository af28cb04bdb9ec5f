package openapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
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
	slices.Reverse(declared)
	for n := range declared {
		again, err := openapi.Merge(text, declared[n:], openapi.ProblemWriter(byPath))
		if err != nil || !bytes.Equal(again, text) {
			t.Errorf("merging %d of the routes again changes the document (%v): %s", len(declared)-n, err, again)
		}
	}
}

// Two engines of a service describe their routes in one document, one after the other.
func TestTwoWriters(t *testing.T) {
	t.Parallel()
	a, b, c := rows(t, policy.Row("POST /a")), rows(t, policy.Row("POST /b")), rows(t, policy.Row("POST /c"))
	mergeBoth := func(text []byte, writeA, writeB problem.Writer) []byte {
		for _, one := range []struct {
			declared []policy.Declaration
			options  []openapi.Option
		}{{a, []openapi.Option{openapi.ProblemWriter(writeA)}}, {b, []openapi.Option{openapi.ProblemWriter(writeB)}}, {c, nil}} {
			merged, err := openapi.Merge(text, one.declared, one.options...)
			parsed(t, merged, err)
			text = merged
		}
		return text
	}
	text := mergeBoth([]byte(`{"openapi":"3.1.0","info":{"title":"a","version":"1"}}`), flat, conflicting)
	if again := mergeBoth(text, flat, conflicting); !bytes.Equal(again, text) {
		t.Errorf("merging again makes %s\nof %s", again, text)
	}
	changed := gjson.ParseBytes(mergeBoth(text, nested, conflicting))
	for path, want := range map[string]string{"/a": "Idempotency409", "/b": "Idempotency409-2", "/c": "IdempotencyConflict"} {
		testkit.Equal(t, operation(t, changed, "POST", path).Get("responses.409.$ref").Str, "#/components/responses/"+want, "the 409 of %s", path)
	}
	for path, want := range map[string]string{"/a": "error", "/b": "code,content", "/c": ""} {
		response := target(changed, operation(t, changed, "POST", path).Get("responses.409"))
		if got := strings.Join(strs(at(response, "content", "application/json", "schema", "required")), ","); got != want {
			t.Errorf("%s has the members %s, want %s", path, got, want)
		}
	}
	if got := operation(t, changed, "POST", "/a").Get("responses.@keys").Raw; got != `["2XX","400","401","409","413","422","500","429"]` {
		t.Errorf("the statuses of the changed writer are %s", got)
	}
}

func strs(array gjson.Result) (all []string) {
	for _, value := range array.Array() {
		all = append(all, value.Str)
	}
	return all
}

// A document of a team's own keeps its responses. After a change of the writer, only that
// writer's responses are described.
func TestMergeAfterChangeOfTheWriter(t *testing.T) {
	t.Parallel()
	const own = `{
  "openapi": "3.1.0",
  "info": {"title": "a", "version": "1"},
  "paths": {
    "/a": {
      "post": {
        "responses": {
          "201": {"description": "ours"},
          "409": {"description": "ours", "content": {"text/html": {"schema": {"type": "string"}}}},
          "422": {"description": "ours", "headers": {"Retry-After": {"schema": {"type": "string"}}}},
          "425": {"description": "ours", "headers": {"Retry-After": {"$ref": "#/components/headers/IdempotencyRetryAfter"}}},
          "503": {"description": "ours", "content": {"text/html": {}}}
        }
      }
    }
  }
}`
	declared := rows(t, policy.Row("POST /a"))
	forms := map[string][]openapi.Option{"the engine's own": nil}
	for name, write := range map[string]problem.Writer{"flat": flat, "conflicting": conflicting, "nested": nested, "plain": plain, "handled": handled} {
		forms[name] = []openapi.Option{openapi.ProblemWriter(write)}
	}
	for was, before := range forms {
		for is, now := range forms {
			first, err := openapi.Merge([]byte(own), declared, before...)
			testkit.Equal(t, kept("", gjson.Parse(own), parsed(t, first, err)), "", "%s", was)
			second, err := openapi.Merge(first, declared, now...)
			changed := parsed(t, second, err)
			testkit.Equal(t, kept("", gjson.Parse(own), changed), "", "%s, then %s", was, is)
			fresh, err := openapi.Merge([]byte(own), declared, now...)
			want := operation(t, parsed(t, fresh, err), "POST", "/a").Get("responses").Map()
			got := operation(t, changed, "POST", "/a").Get("responses").Map()
			for status := range want {
				if !equalIgnoringOrder(got[status].Raw, want[status].Raw) {
					t.Errorf("%s, then %s: %s is %s\nand would be %s in a new merge", was, is, status, got[status], want[status])
				}
			}
			if len(got) != len(want) {
				t.Errorf("%s, then %s: the statuses are %v, want %v", was, is, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
			}
			mergesAgain(t, second, declared, now...)
		}
	}
}

func equalIgnoringOrder(a, b string) bool {
	return gjson.Get(a, "@pretty:{\"sortKeys\":true}").Raw == gjson.Get(b, "@pretty:{\"sortKeys\":true}").Raw
}

// A policy has changed: the responses of its new codes replace those of the old ones.
func TestWriterAfterChangeOfThePolicy(t *testing.T) {
	t.Parallel()
	text, err := openapi.Document(rows(t, policy.Row("POST /a"), policy.Row("POST /b")), openapi.ProblemWriter(conflicting))
	parsed(t, text, err)
	text, err = openapi.Merge(text, rows(t, policy.Row("POST /a", policy.RememberHours(1), policy.Required(false))), openapi.ProblemWriter(conflicting))
	doc := parsed(t, text, err)
	for path, want := range map[string][]string{
		"/a": {"Idempotency400", "Idempotency409KeyExpiredOutcomeUnknown"}, "/b": {"Idempotency400KeyMissing", "Idempotency409"},
	} {
		for _, name := range want {
			status := name[len("Idempotency"):][:3]
			if got := operation(t, doc, "POST", path).Get("responses." + status + ".$ref").Str; got != "#/components/responses/"+name {
				t.Errorf("%s has %s, want %s", path, got, name)
			}
		}
	}
}

// A media type of the team's own keeps its schema, and a second Merge changes nothing there.
func TestWriterBesideOwnMedia(t *testing.T) {
	t.Parallel()
	const theirs = `{"openapi":"3.1.0","info":{"title":"a","version":"1"},"paths":{"/a":{"post":{"responses":{"409":{"description":"ours","content":{"Application/JSON":{"schema":{"type":"integer"}}}}}}}}}`
	text := []byte(theirs)
	for _, write := range []problem.Writer{flat, flat, plain, plain} {
		merged, err := openapi.Merge(text, rows(t, policy.Row("POST /a")), openapi.ProblemWriter(write))
		if fault := kept("", gjson.Parse(theirs), parsed(t, merged, err)); fault != "" {
			t.Error(fault)
		}
		mergesAgain(t, merged, rows(t, policy.Row("POST /a")), openapi.ProblemWriter(write))
		text = merged
	}
	response := operation(t, gjson.ParseBytes(text), "POST", "/a").Get("responses.409")
	testkit.Equal(t, response.Get("headers.Retry-After.$ref").Str, "#/components/headers/IdempotencyRetryAfterTime", "the header")
	testkit.EqualSlices(t, namesOf(response.Get("content")), []string{"Application/JSON", "text/plain"}, "the media types")
}

// What stays keeps its layout when the last of several statuses goes.
func TestLayoutWithoutStaleProblems(t *testing.T) {
	t.Parallel()
	const before = "{\n  \"openapi\": \"3.1.0\",\n  \"paths\": {\n    \"/a\": {\n      \"post\": {\n        \"responses\": {\n%s        }\n      }\n    }\n  }\n}\n"
	own := `          "2XX": {` + "\n            \"description\": \"ours\"\n          },\n"
	later := fmt.Sprintf(before, own+"          \"429\": {\n            \"description\": \"ours\"\n          }\n")
	declared := rows(t, policy.Row("POST /a"))
	for _, text := range []string{later, fmt.Sprintf(before, strings.TrimSuffix(own, ",\n")+"\n")} {
		merged := []byte(text)
		for _, write := range []problem.Writer{flat, nested, plain, handled, flat} {
			var err error
			merged, err = openapi.Merge(merged, declared, openapi.ProblemWriter(write))
			parsed(t, merged, err)
			var indented bytes.Buffer
			if err := json.Indent(&indented, merged, "", "  "); err != nil || indented.String() != string(merged) {
				t.Errorf("got  %s\nwant %s", merged, indented.Bytes())
			}
		}
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
