package validation_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/oncekey/oncekey/adapters/openapi"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// withNull is the writer of bodies with null. In 3.0 kin-openapi refuses null where a schema
// is {}, which stands for any value in both versions.
const withNull = "with null"

// writers write problems in other forms.
var writers = map[string]problem.Writer{
	// a flat object, as in the Agentic Commerce Protocol
	"flat": func(w http.ResponseWriter, _ *http.Request, p problem.Problem) {
		respond(w, p.Status, map[string]any{"type": "invalid_request", "code": "idempotency_" + p.Code, "message": p.Detail})
	},
	// 409 for a reused key, as in the Universal Commerce Protocol
	"conflicting": func(w http.ResponseWriter, _ *http.Request, p problem.Problem) {
		if p.Code == problem.KeyReused {
			p.Status = http.StatusConflict
		}
		respond(w, p.Status, map[string]any{"code": p.Code, "content": p.Detail})
	},
	"plain": func(w http.ResponseWriter, _ *http.Request, p problem.Problem) {
		http.Error(w, p.Error, p.Status)
	},
	// a member that only some responses of a status have
	"nested": func(w http.ResponseWriter, _ *http.Request, p problem.Problem) {
		body := map[string]any{"code": p.Code, "message": p.Detail, "status": p.Status}
		if p.RetryAfter > 0 {
			p.Status = http.StatusConflict
			body["after"] = p.RetryAfter.Seconds() / 4
		}
		respond(w, p.Status, map[string]any{"errors": []any{body}})
	},
	withNull: func(w http.ResponseWriter, _ *http.Request, p problem.Problem) {
		body := map[string]any{"code": p.Code, "also": nil, "page": nil}
		if p.RetryAfter > 0 {
			body["page"] = p.Type
		}
		respond(w, p.Status, body)
	},
	"without a body": func(w http.ResponseWriter, _ *http.Request, p problem.Problem) {
		w.WriteHeader(p.Status)
	},
}

func respond(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		panic(err)
	}
}

// Documents in the form of a writer are valid, with every example, in 3.1 and 3.0.
func TestWrittenDocuments(t *testing.T) {
	t.Parallel()
	policies := map[string]policy.Option{
		"defaults": policy.TTLHours(24), "not required": policy.Required(false), "remembering": policy.RememberHours(1), "aged": policy.KeyAge(time.Hour),
		"refusing": policy.OnAbandoned(policy.Refuse), "key field": policy.KeyField("meta.id"), "transactional": policy.Transactional(true),
		"everything": everything,
	}
	for writer, write := range writers {
		for name, option := range policies {
			t.Run(writer+"/"+name, func(t *testing.T) {
				t.Parallel()
				declared := rows(t, policy.Row("POST /payments", option), policy.Row("PUT /a/{id}", option))
				text, err := openapi.Document(declared, openapi.ProblemWriter(write), openapi.KeyEcho())
				doc := valid(t, text, err)
				matchExamples(t, operation(t, doc, "POST", "/payments"))
				for _, version := range []string{"3.1.0", "3.0.3"} {
					if writer == withNull && version == "3.0.3" {
						continue
					}
					text, err := openapi.Merge([]byte(strings.Replace(theirs(t), "3.1.0", version, 1)), declared, openapi.ProblemWriter(write))
					valid(t, text, err)
				}
			})
		}
	}
}

// matchExamples expects that each example of an operation's problems matches its schema.
func matchExamples(t *testing.T, o *openapi3.Operation) {
	t.Helper()
	for status, response := range o.Responses.Map() {
		for mediaType, media := range response.Value.Content {
			for code, example := range media.Examples {
				if err := media.Schema.Value.VisitJSON(example.Value.Value, openapi3.EnableJSONSchema2020()); err != nil {
					t.Errorf("%s %s: the example %s: %v", status, mediaType, code, err)
				}
			}
			if len(media.Examples) == 0 {
				t.Errorf("%s %s has no example", status, mediaType)
			}
		}
	}
}

// The real responses of an engine with a writer, code by code, match the document.
func TestRealProblemsAreAsWritten(t *testing.T) {
	t.Parallel()
	for writer, write := range writers {
		text, err := openapi.Document(rows(t, policy.Row("POST /payments", everything)), openapi.ProblemWriter(write), openapi.KeyEcho(), openapi.ScopeLimit())
		described := operation(t, valid(t, text, err), "POST", "/payments")
		for code, provoke := range provocations {
			t.Run(writer+"/"+code, func(t *testing.T) {
				t.Parallel()
				var recorded *httptest.ResponseRecorder
				options := []core.Option{core.WithProblemWriter(write), core.WithKeyEcho()}
				synctest.Test(t, func(t *testing.T) { recorded = provoke(setup{t, options}) }) // leaves the bubble: a response
				if fault := undescribed(described, code, recorded); fault != "" {
					t.Errorf("%s: %d %v %s", fault, recorded.Code, recorded.Header(), recorded.Body)
				}
			})
		}
	}
}

// undescribed names the first part of a response that an operation does not describe.
func undescribed(o *openapi3.Operation, code string, recorded *httptest.ResponseRecorder) string {
	response := o.Responses.Status(recorded.Code)
	if response == nil || !strings.Contains(*response.Value.Description, "`"+code+"`") {
		return "the status is not described with this code"
	}
	if retry := recorded.Header().Get("Retry-After"); retry != "" {
		header := response.Value.Headers["Retry-After"]
		seconds, err := strconv.ParseFloat(retry, 64)
		if header == nil || err != nil || header.Value.Schema.Value.VisitJSON(seconds) != nil {
			return "Retry-After is described otherwise"
		}
	}
	if echo := response.Value.Headers[core.KeyHeader]; echo == nil || recorded.Header().Get(core.KeyHeader) == "" != (code == problem.KeyMissing || code == problem.KeyInvalid) {
		return "the echo of the key is described otherwise"
	}
	if recorded.Body.Len() == 0 {
		if len(response.Value.Content) > 0 {
			return "a body is described"
		}
		return ""
	}
	media := response.Value.Content.Get(recorded.Header().Get("Content-Type"))
	if media == nil {
		return "the media type is not described"
	}
	var body any = recorded.Body.String()
	if strings.HasPrefix(recorded.Header().Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(recorded.Body.Bytes(), &body); err != nil {
			return err.Error()
		}
	}
	if err := media.Schema.Value.VisitJSON(body, openapi3.EnableJSONSchema2020()); err != nil {
		return err.Error()
	}
	if example := media.Examples[code]; example == nil || fmt.Sprint(example.Value.Value) != fmt.Sprint(body) {
		return "the example is another body"
	}
	return ""
}

// Redocly's recommended rules find no error in a document of each form.
func TestRedoclyOnWriters(t *testing.T) {
	t.Parallel()
	var files []string
	for writer, write := range writers {
		text, err := openapi.Document(rows(t, policy.Row("POST /a", everything), policy.Row("POST /b", policy.KeyField("id"))), openapi.ProblemWriter(write))
		testkit.Must(t, err)
		file := filepath.Join(t.TempDir(), writer+".json")
		testkit.Must(t, os.WriteFile(file, text, 0o600))
		files = append(files, file)
	}
	lint(t, []string{"security-defined"}, files...)
}
