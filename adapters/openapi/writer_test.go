package openapi_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/oncekey/oncekey/adapters/openapi"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// writtenCodes returns the codes that an operation describes, by status and media type.
func writtenCodes(doc, operation gjson.Result) map[string]string {
	all := make(map[string]string)
	operation.Get("responses").ForEach(func(status, response gjson.Result) bool {
		target(doc, response).Get("content").ForEach(func(mediaType, media gjson.Result) bool {
			for _, code := range media.Get("x-idempotency-codes").Array() {
				all[status.Str+" "+mediaType.Str] += code.Str + " "
			}
			return true
		})
		return true
	})
	return all
}

// A document has the statuses and the media types that the program's writer writes.
func TestProblemWriter(t *testing.T) {
	t.Parallel()
	const asJSON, asText, asProblem = " application/json", " text/plain", " application/problem+json"
	const temporary = "store_unavailable shutting_down handler_cancelled not_confirmed "
	defaults := map[string]string{
		"400": "key_missing key_invalid body_unreadable ", "401": "principal_missing ", "409": "in_progress not_replayable ",
		"413": "body_too_large ", "422": "key_reused ", "500": "handler_failed ", "503": temporary,
	}
	type row struct {
		write     problem.Writer
		mediaType string
		differs   map[string]string // from defaults; "" for none
		options   []policy.Option
	}
	testkit.Each(t, map[string]row{
		"flat":          {write: flat, mediaType: asJSON},
		"not required":  {flat, asJSON, map[string]string{"400": "key_invalid body_unreadable "}, []policy.Option{policy.Required(false)}},
		"aged":          {flat, asJSON, map[string]string{"409": "in_progress not_replayable key_expired "}, []policy.Option{policy.KeyAge(time.Hour)}},
		"remembering":   {flat, asJSON, map[string]string{"409": "in_progress not_replayable key_expired outcome_unknown "}, []policy.Option{policy.RememberHours(72)}},
		"refusing":      {flat, asJSON, map[string]string{"409": "in_progress not_replayable outcome_unknown "}, []policy.Option{policy.OnAbandoned(policy.Refuse)}},
		"transactional": {flat, asJSON, map[string]string{"500": "handler_failed rolled_back "}, []policy.Option{policy.Transactional(true)}},
		"a key field":   {flat, asJSON, nil, []policy.Option{policy.KeyField("meta.id")}},
		"conflicting":   {conflicting, asJSON, map[string]string{"409": "in_progress not_replayable key_reused ", "422": ""}, nil},
		"conflicting and remembering": {
			conflicting, asJSON, map[string]string{"409": "in_progress not_replayable key_expired outcome_unknown key_reused ", "422": ""}, []policy.Option{policy.RememberHours(1)},
		},
		"nested": {nested, asJSON, map[string]string{"409": "not_replayable ", "429": "in_progress " + temporary, "503": ""}, nil},
		"plain":  {write: plain, mediaType: asText},
		"handled": {handled, asProblem, map[string]string{
			"200" + asText: "not_replayable handler_failed ", "401": "", "409": "in_progress ", "500": "",
		}, nil},
		"the engine's own": {write: problem.Write, mediaType: asProblem},
	}, func(t *testing.T, c row) {
		declared := rows(t, policy.TableRow{Route: "POST /a", Options: c.options})
		text, err := openapi.Document(declared, openapi.ProblemWriter(c.write))
		doc := parsed(t, text, err)
		want := make(map[string]string)
		both := maps.Clone(defaults)
		maps.Copy(both, c.differs)
		for status, codes := range both {
			if !strings.Contains(status, " ") {
				status += c.mediaType
			}
			want[status] = codes
		}
		maps.DeleteFunc(want, func(_, codes string) bool { return codes == "" })
		if got := writtenCodes(doc, operation(t, doc, "POST", "/a")); !maps.Equal(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
	})
}

// Policies that expire keys in different ways have components of their own.
func TestWrittenResponsesOfExpiredKeys(t *testing.T) {
	t.Parallel()
	text, err := openapi.Document(rows(t, policy.Row("POST /a", policy.KeyAge(time.Hour)), policy.Row("POST /b", policy.RememberHours(1))), openapi.ProblemWriter(flat))
	doc := parsed(t, text, err)
	for path, want := range map[string]string{"/a": "Idempotency409KeyAge", "/b": "Idempotency409KeyExpiredOutcomeUnknown"} {
		testkit.Equal(t, operation(t, doc, "POST", path).Get("responses.409.$ref").Str, "#/components/responses/"+want, "the 409 of %s", path)
	}
}

// The component of a status, word by word.
func TestWrittenResponse(t *testing.T) {
	t.Parallel()
	text, err := openapi.Document(rows(t, policy.Row("POST /a")), openapi.ProblemWriter(conflicting), openapi.KeyHeader("Request-Id"))
	doc := parsed(t, text, err)
	testkit.Equal(t, operation(t, doc, "POST", "/a").Get("responses.409.$ref").Str, "#/components/responses/Idempotency409", "the 409")
	const wait, final, other = "Retry with the same Request-Id, after the time in Retry-After.",
		"Do not retry: the operation was handled, and its response was not kept. Look up the result.",
		"Do not retry: use a new Request-Id for a new operation. For a retry, send the first request's payload."
	detail := func(code string) string {
		return strings.ReplaceAll(problem.New(code, "").Detail, core.KeyHeader, "Request-Id")
	}
	want := `{"description":"The operation was not started again. Only a response with Retry-After is temporary.\n\n- ` +
		"`in_progress`: " + wait + `\n- ` + "`not_replayable`: " + final + `\n\nThe Request-Id belongs to a request with another payload.\n\n- ` + "`key_reused`: " + other + `",` +
		`"headers":{"Retry-After":{"$ref":"#/components/headers/IdempotencyRetryAfter"}},"content":{"application/json":{"schema":` +
		`{"type":"object","required":["code","content"],"properties":{"code":{"type":"string","enum":["in_progress","not_replayable","key_reused"]},"content":{"type":"string"}}},"examples":{` +
		`"in_progress":{"summary":"` + wait + `","value":{"code":"in_progress","content":"` + detail(problem.InProgress) + `"}},` +
		`"not_replayable":{"summary":"` + final + `","value":{"code":"not_replayable","content":"` + detail(problem.NotReplayable) + `"}},` +
		`"key_reused":{"summary":"` + other + `","value":{"code":"key_reused","content":"` + detail(problem.KeyReused) + `"}}},` +
		`"x-idempotency-codes":["in_progress","not_replayable","key_reused"]}},"x-idempotency-codes":["in_progress","not_replayable","key_reused"]}`
	testkit.Equal(t, doc.Get("components.responses.Idempotency409.@ugly").Raw, want, "the component")
	description := parameterOf(doc, operation(t, doc, "POST", "/a"), "header", "Request-Id").Get("description").Str
	if !strings.Contains(description, "otherwise it gets 409.") || strings.Contains(string(text), core.KeyHeader) {
		t.Errorf("the parameter says %q, want the status that the writer writes and the header's name", description)
	}
}

// The text for a late retry has the status that the writer writes, and a key's field has no
// example: its text depends on the policy.
func TestWrittenTexts(t *testing.T) {
	t.Parallel()
	declared := rows(t, policy.Row("POST /a", policy.RememberHours(1)), policy.Row("POST /b", policy.KeyField("id")))
	text, err := openapi.Document(declared, openapi.ProblemWriter(handled))
	doc := parsed(t, text, err)
	description := parameterOf(doc, operation(t, doc, "POST", "/a"), "header", core.KeyHeader).Get("description").Str
	if !strings.Contains(description, "gets 200 `key_expired`.") || !strings.Contains(description, "gets 422.") {
		t.Errorf("the parameter says %q", description)
	}
	examples := at(doc.Get("components.responses.Idempotency400KeyField"), "content", "application/problem+json", "examples")
	testkit.EqualSlices(t, namesOf(examples), []string{problem.KeyInvalid, problem.BodyUnreadable}, "the examples")
}

// A Retry-After is described where it is written, and in the form in which it is written.
func TestWrittenRetryAfter(t *testing.T) {
	t.Parallel()
	without := func(w http.ResponseWriter, r *http.Request, p problem.Problem) {
		w.Header().Del("Retry-After")
		flat(w, r, p)
	}
	added := func(w http.ResponseWriter, r *http.Request, p problem.Problem) {
		w.Header().Set("Retry-After", "7")
		flat(w, r, p)
	}
	for name, c := range map[string]struct {
		write problem.Writer
		want  map[string]string // the header's component, by status
	}{
		"the engine's": {flat, map[string]string{"409": "IdempotencyRetryAfter", "503": "IdempotencyRetryAfter"}},
		"dates":        {plain, map[string]string{"409": "IdempotencyRetryAfterTime", "503": "IdempotencyRetryAfterTime"}},
		"none":         {without, map[string]string{}},
		"everywhere": {added, map[string]string{
			"400": "IdempotencyRetryAfter", "401": "IdempotencyRetryAfter", "409": "IdempotencyRetryAfter", "413": "IdempotencyRetryAfter",
			"422": "IdempotencyRetryAfter", "500": "IdempotencyRetryAfter", "503": "IdempotencyRetryAfter",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := openapi.Document(rows(t, policy.Row("POST /a")), openapi.ProblemWriter(c.write))
			doc := parsed(t, text, err)
			got := make(map[string]string)
			for status, response := range operation(t, doc, "POST", "/a").Get("responses").Map() {
				header := at(target(doc, response), "headers", "Retry-After")
				if name, has := strings.CutPrefix(header.Get("$ref").Str, "#/components/headers/"); has {
					got[status] = name
				}
			}
			if !maps.Equal(got, c.want) {
				t.Errorf("got  %v\nwant %v", got, c.want)
			}
			if strings.Contains(string(text), "Retry-After") != (len(c.want) > 0) {
				t.Errorf("a text mentions a header that is not there: %s", text)
			}
		})
	}
}

// A writer gets the problem as from the engine, with a request of the route.
func TestCallsOfAProblemWriter(t *testing.T) {
	t.Parallel()
	type call struct{ code, method, path, pattern, retryAfter, control, text string }
	var calls []call
	write := func(w http.ResponseWriter, r *http.Request, p problem.Problem) {
		if body, err := io.ReadAll(r.Body); err != nil || len(body) > 0 || r.Context().Err() != nil {
			t.Errorf("the request has the body %q, %v", body, err)
		}
		if want := problem.New(p.Code, ""); p.Status != want.Status || p.RetryAfter != want.RetryAfter {
			t.Errorf("got  %+v\nwant %+v", p, want)
		}
		calls = append(calls, call{p.Code, r.Method, r.URL.Path, r.Pattern, w.Header().Get("Retry-After"), w.Header().Get("Cache-Control"), p.Error})
		flat(w, r, p)
	}
	_, err := openapi.Document(rows(t, policy.Row("PUT /a/{id:[0-9]+}"), policy.Row("POST /b", policy.KeyField("k")), policy.Row("POST /c", policy.ObserveOnly(true))),
		openapi.ProblemWriter(write), openapi.KeyHeader("Request-Id"))
	testkit.Must(t, err)
	for _, want := range []call{
		{problem.KeyMissing, "PUT", "/a/{id}", "PUT /a/{id:[0-9]+}", "", "no-store", "Request-Id header is required"},
		{problem.InProgress, "PUT", "/a/{id}", "PUT /a/{id:[0-9]+}", "1", "no-store", "Request in progress"},
		{problem.KeyMissing, "POST", "/b", "POST /b", "", "no-store", "k is required in the JSON body"},
	} {
		if !slices.Contains(calls, want) {
			t.Errorf("there is no call %q", want)
		}
	}
	testkit.Equal(t, len(calls), 2*13, "calls")
}

// Case 65: a writer without a usable response is an error that names the code.
func TestWriterThatCannotBe(t *testing.T) {
	t.Parallel()
	only := func(code string, do problem.Writer) problem.Writer {
		return func(w http.ResponseWriter, r *http.Request, p problem.Problem) {
			if p.Code == code {
				do(w, r, p)
				return
			}
			flat(w, r, p)
		}
	}
	body := func(contentType, body string) problem.Writer {
		return func(w http.ResponseWriter, _ *http.Request, _ problem.Problem) {
			w.Header().Set("Content-Type", contentType)
			fmt.Fprint(w, body)
		}
	}
	for want, write := range map[string]problem.Writer{
		"panics: who?": func(http.ResponseWriter, *http.Request, problem.Problem) { panic("who?") },
		"writes no status and no body: it must write a response":                                         func(http.ResponseWriter, *http.Request, problem.Problem) {},
		"writes the status 42: it must be from 200 to 599":                                               func(w http.ResponseWriter, _ *http.Request, _ problem.Problem) { w.WriteHeader(42) },
		"writes the status 600: it must be from 200 to 599":                                              func(w http.ResponseWriter, _ *http.Request, _ problem.Problem) { w.WriteHeader(600) },
		`writes the Content-Type "json": it must be a media type, such as application/json`:              body("json", "{}"),
		`writes application/json that is not JSON: invalid character 'x' looking for beginning of value`: body("application/json", "x"),
		"writes application/problem+json that is not UTF-8":                                              body("application/problem+json", "\"\xff\""),
		"writes more than 65536 bytes: a problem must be shorter":                                        body("text/plain", strings.Repeat("a", 65537)),
	} {
		// Two routes have the same fault, which is named once.
		declared := rows(t, policy.Row("POST /a"), policy.Row("POST /b"))
		doc, err := openapi.Document(declared, openapi.ProblemWriter(only(problem.KeyReused, write)))
		if want := "openapi: the ProblemWriter, given key_reused, " + want; doc != nil || fmt.Sprint(err) != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	endless := func(w http.ResponseWriter, _ *http.Request, _ problem.Problem) {
		for err := error(nil); err == nil; {
			_, err = w.Write(make([]byte, 1000))
		}
	}
	if _, err := openapi.Document(rows(t, policy.Row("POST /a")), openapi.ProblemWriter(endless)); strings.Count(fmt.Sprint(err), "writes more than") != 13 {
		t.Errorf("got %v, want an error for each code", err)
	}
	if _, err := openapi.Document(rows(t, policy.Row("POST /a")), openapi.ProblemWriter(only(problem.KeyReused, body("text/plain", strings.Repeat("a", 65536))))); err != nil {
		t.Errorf("65536 bytes are too long: %v", err)
	}
}
