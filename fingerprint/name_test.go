package fingerprint_test

import (
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
