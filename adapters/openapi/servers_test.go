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
		"of two servers, the document": {`[{"url":"https://a.example"},{"url":"https://b.example/v1"}]`, `{"/payments":{}}`, "/v1/payments", "/payments"},
		"another path":                 {`[{"url":"/v1"}]`, `{}`, "/v10/payments", "/v10/payments"},
		"a router mounted below":       {`[{"url":"/v1"}]`, `{}`, "/payments", "/payments"},
		"the path as a whole":          {`[{"url":"/payments"}]`, `{}`, "/payments", "/payments"},
		"no URLs":                      {`[{"url":"https://{host}/v1"},{"url":"%zz"},7]`, `{}`, "/v1/payments", "/v1/payments"},
	}, func(t *testing.T, test test) {
		text := fmt.Sprintf(`{"openapi":"3.1.0","info":{"title":"t","version":"1"},"servers":%s,"paths":%s}`, test.servers, test.paths)
		declared := rows(t, policy.Row("POST "+test.route))
		merged, err := openapi.Merge([]byte(text), declared)
		testkit.Must(t, err)
		if paths := namesOf(gjson.GetBytes(merged, "paths")); !slices.Equal(paths, []string{test.want}) {
			t.Errorf("%s is at %q, want %q", test.route, paths, test.want)
		}
		mergesAgain(t, merged, declared)
	})
	_, err := openapi.Merge([]byte(`{"openapi":"3.1.0","servers":[{"url":"/v1"}],"paths":{}}`), rows(t, policy.Row("POST /v1/payments"), policy.Row("POST /payments")))
	if err == nil || !strings.Contains(err.Error(), "in OpenAPI the path equals POST /v1/payments") {
		t.Errorf("two routes of one path: %v", err)
	}
}
