package validation_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/adapters/openapi"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// everything is a policy that can cause every problem.
func everything(p *policy.Policy) {
	p.Transactional, p.OnAbandoned, p.Remember = true, policy.Refuse, time.Hour
}

func rows(t *testing.T, rows ...policy.TableRow) []policy.Declaration {
	t.Helper()
	table, err := policy.NewTable(rows...)
	testkit.Must(t, err)
	return table.Declarations()
}

func document(t *testing.T, declared ...policy.TableRow) *openapi3.T {
	t.Helper()
	text, err := openapi.Document(rows(t, declared...), openapi.ScopeLimit())
	return valid(t, text, err)
}

func merge(t *testing.T, text string, declared ...policy.TableRow) *openapi3.T {
	t.Helper()
	merged, err := openapi.Merge([]byte(text), rows(t, declared...))
	return valid(t, merged, err)
}

// valid reads the document and expects it to be OpenAPI.
func valid(t *testing.T, text []byte, err error) *openapi3.T {
	t.Helper()
	testkit.Must(t, err)
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if err := doc.Validate(t.Context(), openapi3.EnableMultiError(), openapi3.EnableSchemaPatternValidation()); err != nil {
		t.Errorf("%v in %s", err, text)
	}
	return doc
}

func operation(t *testing.T, doc *openapi3.T, method, template string) *openapi3.Operation {
	t.Helper()
	item := doc.Paths.Value(template)
	if item == nil || item.GetOperation(method) == nil {
		t.Fatalf("there is no %s %s; the paths are %v", method, template, doc.Paths.Keys())
	}
	return item.GetOperation(method)
}

// codes returns the problem codes that an operation describes, by status.
func codes(t *testing.T, o *openapi3.Operation) map[string][]string {
	t.Helper()
	all := make(map[string][]string)
	for status, response := range o.Responses.Map() {
		media := response.Value.Content["application/problem+json"]
		if media == nil {
			continue
		}
		for _, code := range media.Schema.Value.AllOf[1].Value.Properties["code"].Value.Enum {
			all[status] = append(all[status], code.(string))
		}
		slices.Sort(all[status])
	}
	return all
}

func created(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
