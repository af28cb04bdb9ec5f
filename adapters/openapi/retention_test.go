package openapi_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/adapters/openapi"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// A client author reads for how long a key lives, and what may change between attempts.
func TestLifetime(t *testing.T) {
	t.Parallel()
	type row struct {
		options   []policy.Option
		text      []string // parts of the description
		extension string
	}
	testkit.Each(t, map[string]row{
		"the defaults": {
			nil,
			[]string{"kept for 24 hours,", "After that the key is new", "repeats the path, the query and the body;"},
			`{"required":true,"ttlSeconds":86400,"lockTTLSeconds":30,"maxRequestBytes":1048576}`,
		},
		"all of it": {
			[]policy.Option{
				policy.TTLHours(48), policy.RememberHours(720), policy.LockTTL(time.Minute), policy.Wait(1500 * time.Millisecond),
				policy.ExcludeFields("clientTimestamp", "meta.nonce"), policy.IncludeHeaders("X-Api-Version"),
				policy.KeyFormat(policy.UUIDKey), policy.MaxRequestBytes(100), policy.Required(false),
			},
			[]string{"kept for 48 hours,", "For another 30 days a retry gets 409 `key_expired`.", "repeats the path, the query, the body except `clientTimestamp`, `meta.nonce` and the headers `X-Api-Version`;"},
			`{"required":false,"ttlSeconds":172800,"rememberSeconds":2592000,"lockTTLSeconds":60,"waitSeconds":1.5,"maxRequestBytes":100,` +
				`"excludeFields":["clientTimestamp","meta.nonce"],"includeHeaders":["X-Api-Version"],"keyFormat":"UUID"}`,
		},
		"an age": {
			[]policy.Option{policy.KeyAge(23 * time.Hour)},
			[]string{
				"such as a UUID of version 7.", "A key that is older than 23 hours and has no response gets 409 `key_expired`, and the operation does not run. " +
					"The key is a UUID of version 7 or a ULID; any other key needs the header `Repeatability-First-Sent`, an HTTP date. A retry repeats",
			},
			`{"required":true,"ttlSeconds":86400,"keyAgeSeconds":82800,"lockTTLSeconds":30,"maxRequestBytes":1048576}`,
		},
		"an age of UUIDs": {
			[]policy.Option{policy.KeyAge(23 * time.Hour), policy.KeyFormat(policy.UUIDKey)},
			[]string{"The key is a UUID of version 7; any other key needs the header `Repeatability-First-Sent`"},
			`{"required":true,"ttlSeconds":86400,"keyAgeSeconds":82800,"lockTTLSeconds":30,"maxRequestBytes":1048576,"keyFormat":"UUID"}`,
		},
		"an age after a tombstone": {
			[]policy.Option{policy.RememberHours(24), policy.KeyAge(47 * time.Hour)},
			[]string{"For another 24 hours a retry gets 409 `key_expired`. A key that is older than 47 hours and has"},
			`{"required":true,"ttlSeconds":86400,"rememberSeconds":86400,"keyAgeSeconds":169200,"lockTTLSeconds":30,"maxRequestBytes":1048576}`,
		},
		"exact bytes": {
			[]policy.Option{policy.TTL(time.Hour), policy.ExactBytes(true)},
			[]string{"repeats the path, the query and the body;", "Every byte counts."},
			`{"required":true,"ttlSeconds":3600,"lockTTLSeconds":30,"maxRequestBytes":1048576,"exactBytes":true}`,
		},
		"some fields": {
			[]policy.Option{policy.TTL(time.Hour), policy.IncludeFields("amount", "currency")},
			[]string{"kept for 1 hour,", "the query and the members `amount`, `currency` of the body;"},
			`{"required":true,"ttlSeconds":3600,"lockTTLSeconds":30,"maxRequestBytes":1048576,"includeFields":["amount","currency"]}`,
		},
	}, func(t *testing.T, c row) {
		doc := document(t, policy.Row("POST /a", c.options...))
		o := operation(t, doc, "POST", "/a")
		description := parameterOf(doc, o, "header", core.KeyHeader).Get("description").Str
		for _, part := range c.text {
			if !strings.Contains(description, part) {
				t.Errorf("the description is %q\nwant %q in it", description, part)
			}
		}
		_, isTimed := core.KeyTime(parameterOf(doc, o, "header", core.KeyHeader).Get("example").Str)
		testkit.Equal(t, isTimed, strings.Contains(c.extension, "keyAgeSeconds"), "the example has a time")
		if strings.Contains(description, "key is new") == strings.Contains(c.extension, "keyAgeSeconds") {
			t.Errorf("the description is %q, want the key new again without a KeyAge alone", description)
		}
		testkit.Equal(t, o.Get("x-idempotency.@ugly").Raw, c.extension, "the extension")
	})
}

func TestTimesInWords(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		24 * time.Hour: "24 hours", 71 * time.Hour: "71 hours", 72 * time.Hour: "3 days", 73 * time.Hour: "73 hours", time.Hour: "1 hour",
		90 * time.Minute: "90 minutes", time.Minute: "1 minute", time.Second: "1 second", 90 * time.Second: "90 seconds", 1500 * time.Millisecond: "1.5s",
	} {
		doc := document(t, policy.Row("POST /a", policy.TTL(d), policy.LockTTL(time.Second)))
		description := parameterOf(doc, operation(t, doc, "POST", "/a"), "header", core.KeyHeader).Get("description").Str
		if !strings.Contains(description, "is kept for "+want+", and") {
			t.Errorf("%v: the description is %q, want %s in it", d, description, want)
		}
	}
}

// The text stands in the extension where the key has no parameter of ours.
func TestLifetimeWithoutParameter(t *testing.T) {
	t.Parallel()
	doc := document(t, policy.Row("POST /a", policy.KeyField("request_id")), policy.Row("POST /b"), policy.Row("POST /c", policy.ObserveOnly(true)))
	if text := operation(t, doc, "POST", "/a").Get("x-idempotency.description").Str; !strings.Contains(text, "kept for 24 hours") {
		t.Errorf("the extension's description is %q", text)
	}
	if operation(t, doc, "POST", "/b").Get("x-idempotency.description").Exists() {
		t.Error("the text stands twice")
	}
	observed := operation(t, doc, "POST", "/c")
	if text := parameterOf(doc, observed, "header", core.KeyHeader).Get("description").Str; observed.Get("x-idempotency").Exists() || strings.Contains(text, "kept") {
		t.Errorf("an observing policy keeps nothing: %s", observed)
	}
}

// Each code has its text and its example: the text promises another attempt with Retry-After
// where the problem has Retry-After.
func TestActions(t *testing.T) {
	t.Parallel()
	doc := document(t, policy.Row("POST /a", policy.RememberHours(1), policy.Transactional(true)))
	o := operation(t, doc, "POST", "/a")
	for status, some := range codes(doc, o) {
		response := target(doc, at(o, "responses", status))
		examples := at(response, "content", "application/problem+json", "examples")
		for _, code := range some {
			_, rest, found := strings.Cut(response.Get("description").Str, "\n- `"+code+"`: ")
			action, _, _ := strings.Cut(rest, "\n")
			if retries := strings.HasPrefix(action, "Retry"); !found || problem.New(code, "").RetryAfter > 0 && !retries {
				t.Errorf("%s: the text is %q in %s", code, action, response.Get("description"))
			}
			example := target(doc, examples.Get(code))
			if example.Get("value.code").Str != code || strconv.FormatInt(example.Get("value.status").Int(), 10) != status || example.Get("summary").Str != action {
				t.Errorf("%s: the example is %s", code, example)
			}
		}
		testkit.Equal(t, len(some), len(namesOf(examples)), "%s has the codes %v and the examples %v", status, some, namesOf(examples))
	}
}

// A hundred routes share their components.
func TestSharedComponents(t *testing.T) {
	t.Parallel()
	size := func(routes int) int {
		var all []policy.TableRow
		for n := range routes {
			all = append(all, policy.Row(fmt.Sprintf("POST /route-%03d", n)))
		}
		text, err := openapi.Document(rows(t, all...))
		return len(parsed(t, text, err).Get("@ugly").Raw)
	}
	if each := (size(101) - size(1)) / 100; each > 1700 {
		t.Errorf("each route takes %d bytes", each)
	}
	doc := document(t, policy.Row("POST /a"), policy.Row("POST /b"))
	for kind, components := range doc.Get("components").Map() {
		for name := range components.Map() {
			if path := `"#/components/` + kind + "/" + name + `"`; !strings.Contains(doc.Raw, path) {
				t.Errorf("no part of the document uses %s", path)
			}
		}
	}
}

// A new operation gets an id that no other has, and existing operations keep theirs.
func TestOperationIDs(t *testing.T) {
	t.Parallel()
	doc := merge(t, `{"openapi":"3.1.0","info":{"title":"a","version":"1"},"paths":{"/w":{"put":{}},"/x":{"put":{},"get":{"operationId":"postPaymentsId",
		"callbacks":{"none":{},"paid":{"{$request.body#/url}":{"post":{"operationId":"postPaid"}}}}}},"/y":{"post":{}},"/z":[7],"/v":7},
		"webhooks":{"shipped":{"post":{"operationId":"postShipped"}}},"components":{"pathItems":{"a":{"put":{"operationId":"postShared"}}}}}`, rows(t,
		policy.Row("POST /payments/{id}"), policy.Row("POST /payments-id"), policy.Row("POST /payments/Id/é"), policy.Row("POST /"), policy.Row("POST /y"),
		policy.Row("POST /paid"), policy.Row("POST /shipped"), policy.Row("POST /shared"), policy.Row("POST /v2/x"),
	))
	for path, want := range map[string]string{
		"/payments/{id}": "postPaymentsId2", "/payments-id": "postPaymentsId3", "/payments/Id/é": "postPaymentsId4", "/": "post", "/y": "",
		"/paid": "postPaid2", "/shipped": "postShipped2", "/shared": "postShared2", "/v2/x": "postV2X",
	} {
		if o := operation(t, doc, http.MethodPost, path); o.Get("operationId").Str != want || o.Get("summary").Exists() != (want != "") {
			t.Errorf("%s has the id %s and the summary %s, want %q", path, o.Get("operationId"), o.Get("summary"), want)
		}
	}
}
