package openapi_test

import (
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// A 5xx response that the policy keeps is replayed, as others are.
func TestKeptServerErrorsAreReplayed(t *testing.T) {
	t.Parallel()
	const text = `{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{"/p":{"post":{"responses":{
		"201":{"description":"done"},"502":{"description":"a"},"504":{"description":"b"},"5XX":{"description":"c"}}}}}}`
	for _, row := range []struct {
		options []policy.Option
		want    []string
	}{
		{nil, []string{"201"}},
		{[]policy.Option{policy.Keep("422")}, []string{"201"}},
		{[]policy.Option{policy.Keep("5xx")}, []string{"201", "502", "504", "5XX"}},
		{[]policy.Option{policy.Keep("504")}, []string{"201", "504", "5XX"}},
		{[]policy.Option{policy.Keep("5xx"), policy.Uncertain("502"), policy.Release("504")}, []string{"201", "5XX"}},
	} {
		doc := merge(t, text, rows(t, policy.TableRow{Route: "POST /p", Options: row.options}))
		var got []string
		responses := operation(t, doc, "POST", "/p").Get("responses")
		for _, status := range []string{"201", "502", "504", "5XX"} {
			if at(responses, status, "headers", "X-Idempotent-Replay").Exists() {
				got = append(got, status)
			}
		}
		testkit.EqualSlices(t, got, row.want, "the replay header is on")
	}
}
