package fingerprint_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/fingerprint"
)

// Case 43
func TestLooksLikeName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"a", "A", "_", "_id", "id", "sentAt", "client_timestamp", "request-nonce", "toId", "payeeUserId", "userID", "iPhone", "URL2ID",
		"sha256Sum", "SHA256", "X-Request-ID", "xRequestID", "line_1", "address2", "a.b", "card[number]", "items[0][id]", "$ref", "@type", "destinationAccountHolderIdentifier",
		strings.Repeat("n", 64),
	} {
		if !fingerprint.LooksLikeName(name) {
			t.Errorf("%q does not look like a name", name)
		}
	}
	for _, value := range []string{
		"", "$", "@", "$$a", "1", "0", "123", "4242424242424242", "4242-4242-4242-4242", "card4242424242", "items[4242424242424242]",
		"bob@example.com", "+491715550123", "2026-01-01", "DE89370400440532013000", "550e8400-e29b-41d4-a716-446655440000",
		"a550e8400-e29b", "key b", "a*", `a\b`, `a"b`, "a'b", "a:b", "a/b", "a=b", "a%20b", "größe", "a\x00", "a\n", "a\xff", "-a", ".a", "[0]", "{a}",
		"Tr0ub4dor", "x509Sha256", "card4242", "sk_live_51H8xyzAb9QqW2eRtY", strings.Repeat("n", 65),
	} {
		if fingerprint.LooksLikeName(value) {
			t.Errorf("%q looks like a name", value)
		}
	}
}

// Case 43: nearly no random token passes. No rule can separate all tokens from names.
func TestTokensDoNotLookLikeNames(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	for name, alphabet := range map[string]string{
		"hexadecimal": "0123456789abcdef",
		"base36":      "0123456789abcdefghijklmnopqrstuvwxyz",
		"base62":      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
		"base64":      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_",
	} {
		passed := 0
		for range 10_000 {
			token := make([]byte, 20)
			for i := range token {
				token[i] = alphabet[random.IntN(len(alphabet))]
			}
			if fingerprint.LooksLikeName(string(token)) {
				passed++
			}
		}
		if passed > 300 {
			t.Errorf("%s: %d of 10,000 tokens look like names, want at most 300", name, passed)
		}
		t.Logf("%s: %d of 10,000", name, passed)
	}
}

func TestMember(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		path, document, value string
		err                   error
	}{
		{"id", `{"id":"k"}`, `"k"`, nil},
		{"id", ` { "a" : [1] , "id" : 10.50 } `, `10.50`, nil},
		{"id", `{"ID":"k"}`, `"k"`, nil},
		{"id", `{"\u0069d":"k"}`, `"k"`, nil},
		{"id", `{"id":{"a":1}}`, `{"a":1}`, nil},
		{"meta.id", `{"id":1,"meta":{"x":{"id":2},"id":3}}`, `3`, nil},
		{"items.1.id", `{"items":[{"id":1},{"id":2}]}`, `2`, nil},
		{`meta\.id`, `{"meta.id":"k","meta":{"id":1}}`, `"k"`, nil},
		{`\*`, `{"a":1,"*":2}`, `2`, nil},
		{"0", `["k"]`, `"k"`, nil},
		{"id", `{"meta":{"id":"k"}}`, "", fingerprint.ErrNoMember},
		{"id", `{}`, "", fingerprint.ErrNoMember},
		{"id", ``, "", fingerprint.ErrNoMember},
		{"id", `"id"`, "", fingerprint.ErrNoMember},
		{"id", `{"id":"k"`, "", fingerprint.ErrNoMember},
		{"id", `{"id":"k"} x`, "", fingerprint.ErrNoMember},
		{"id", `id=k`, "", fingerprint.ErrNoMember},
		{"id", `{"id":1,"a":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`, "", fingerprint.ErrNoMember},
		{"id", `{"id":"k","id":"k"}`, "", fingerprint.ErrRepeatedMember},
		{"id", `{"id":"k","a":1,"Id":"j"}`, "", fingerprint.ErrRepeatedMember},
		{"meta.id", `{"meta":{"id":1},"meta":{"id":1}}`, "", fingerprint.ErrRepeatedMember},
		{"meta.id", `{"meta":{"id":1},"META":null}`, "", fingerprint.ErrRepeatedMember},
		{"a.b.id", `{"a":{"b":{"id":1},"b":2}}`, "", fingerprint.ErrRepeatedMember},
		{"a.b.id", `{"a":{"b":{"id":1}},"b":2}`, `1`, nil},
		{"sku", `{"ſKU":"k"}`, `"k"`, nil},
		{"ſku", `{"sku":"k"}`, `"k"`, nil},
		{"kind.id", `{"\u212aind":{"id":1}}`, `1`, nil},
		{"sku", `{"sku":"k","ſku":"j"}`, "", fingerprint.ErrRepeatedMember},
	} {
		member, err := fingerprint.ParseMember(row.path)
		if err != nil {
			t.Errorf("%s: %v", row.path, err)
			continue
		}
		if value, err := member.Find([]byte(row.document)); string(value) != row.value || !errors.Is(err, row.err) {
			t.Errorf("%s in %s is %q, %v, want %q, %v", row.path, row.document, value, err, row.value, row.err)
		}
	}
}

func TestMemberThatCannotBe(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"":        `fingerprint: no member is at "": the field is empty`,
		"a..b":    `fingerprint: no member is at "a..b": a path needs a name on both sides of every dot`,
		"items.*": `fingerprint: no member is at "items.*": a star would match several members`,
		`a\`:      `fingerprint: no member is at "a\\": the field ends in a backslash`,
	} {
		if _, err := fingerprint.ParseMember(path); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}
