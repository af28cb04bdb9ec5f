package examples_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/oncekey/oncekey/adapters/openapi"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// A document has the responses that a server with the writer sends.
func TestDocumentOfStripesProblems(t *testing.T) {
	t.Parallel()
	table, err := policy.NewTable(policy.Row("POST /v1/charges"))
	testkit.Must(t, err)
	document, declared := []byte(`{"openapi":"3.1.0","info":{"title":"charges","version":"1"}}`), table.Declarations()
	describe := func() error {
		document, err = openapi.Merge(document, declared, openapi.ProblemWriter(writeStripeProblem))
		return err
	}
	testkit.Must(t, describe())
	responses := gjson.GetBytes(document, "components.responses")
	if got, want := responses.Get("@keys").Raw, `["Idempotency400KeyMissing","Idempotency401","Idempotency409","Idempotency413","Idempotency422","Idempotency429","Idempotency500"]`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	temporary := responses.Get("Idempotency429")
	if got := temporary.Get("content.application/json.schema.properties.error.properties.code.enum").Raw; got != `["lock_timeout"]` || !temporary.Get("headers.Retry-After").Exists() {
		t.Errorf("a temporary problem is %s", temporary)
	}

	var nested *httptest.ResponseRecorder
	var handler http.Handler
	send := func(key, body string) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/charges", strings.NewReader(body))
		r.Header.Set(core.KeyHeader, key)
		if key == "" {
			r.Header.Del(core.KeyHeader)
		}
		handler.ServeHTTP(w, r)
		return w
	}
	handler = guardForStripe(t, func(http.ResponseWriter, *http.Request) { nested = send("k", "a=1") })
	send("k", "a=1")
	for code, sent := range map[string]*httptest.ResponseRecorder{"key_missing": send("", ""), "key_invalid": send("é", ""), "key_reused": send("k", "a=2"), "in_progress": nested} {
		found := false
		for name, response := range responses.Map() {
			media := response.Get("content.application/json")
			example := media.Get("examples." + code + ".value")
			found = found || example.Exists()
			if example.Exists() && (example.Get("@ugly").Raw != strings.TrimSpace(sent.Body.String()) || !strings.Contains(name, strconv.Itoa(sent.Code))) {
				t.Errorf("%s is described by %s as %s\nand sent as %d %s", code, name, example, sent.Code, sent.Body)
			}
		}
		if !found {
			t.Errorf("%s has no example in %s", code, responses)
		}
	}
}
