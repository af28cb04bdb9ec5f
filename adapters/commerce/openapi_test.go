package commerce_test

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/oncekey/oncekey/adapters/commerce"
	"github.com/oncekey/oncekey/adapters/openapi"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// An OpenAPI document describes the errors of a profile: their statuses, codes and bodies, and
// the headers of replays and of the key.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	type row struct {
		profile commerce.Profile
		want    map[string]string // the statuses, and a code of each
	}
	testkit.Each(t, map[string]row{
		"ACP":  {commerce.ACP(), map[string]string{"400": "idempotency_key_required", "409": "idempotency_in_flight", "422": "idempotency_conflict", "503": "store_unavailable"}},
		"UCP":  {commerce.UCP(), map[string]string{"400": "key_missing", "409": "key_reused", "503": "store_unavailable"}},
		"AdCP": {commerce.AdCP(), map[string]string{"400": "INVALID_REQUEST", "409": "IDEMPOTENCY_EXPIRED", "422": "IDEMPOTENCY_CONFLICT", "503": "SERVICE_UNAVAILABLE"}},
	}, func(t *testing.T, row row) {
		table, err := policy.NewTable(policy.Row("POST /checkouts", policy.From(row.profile.Policy)), policy.Row("TOOL checkout", policy.From(row.profile.Policy)))
		testkit.Must(t, err)
		options := []openapi.Option{openapi.ProblemWriter(row.profile.WriteProblem)}
		if row.profile.ReplayHeader != "" {
			options = append(options, openapi.ReplayHeader(row.profile.ReplayHeader))
		}
		if row.profile.EchoKey {
			options = append(options, openapi.KeyEcho())
		}
		document, err := openapi.Document(table.Declarations(), options...)
		testkit.Must(t, err)
		responses := gjson.GetBytes(document, "paths./checkouts.post.responses")
		for status, code := range row.want {
			ref := responses.Get(status + ".$ref").Str
			component := gjson.GetBytes(document, "components.responses."+ref[len("#/components/responses/"):])
			if media := component.Get("content.application/json").Raw; !strings.Contains(media, `"`+code+`"`) {
				t.Errorf("the %s has no %s: %s", status, code, component.Raw)
			}
		}
		if row.profile.ReplayHeader != "" && !strings.Contains(string(document), row.profile.ReplayHeader) {
			t.Error("the document has no header of replays")
		}
		if responses.Get("422").Exists() != (row.want["422"] != "") {
			t.Errorf("422 is described wrongly: %s", responses.Raw)
		}
	})
}
