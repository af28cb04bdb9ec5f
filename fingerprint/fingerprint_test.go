package fingerprint_test

import (
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/fingerprint"
	"github.com/oncekey/oncekey/internal/testkit"
)

func TestFormat(t *testing.T) {
	t.Parallel()
	if got := fingerprint.Of(fingerprint.Request{}, &fingerprint.Exclusion{}); !regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString(got) {
		t.Errorf("got %q", got)
	}
}

// pairTest has two texts and whether their fingerprints are equal.
type pairTest struct {
	name string
	a, b string
	same bool
}

func runPairs(t *testing.T, tests []pairTest, of func(text string) string) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := of(test.a) == of(test.b); got != test.same {
				t.Errorf("equal: %t, want %t\na: %q\nb: %q", got, test.same, test.a, test.b)
			}
		})
	}
}

// Cases 25 and 31
func TestJSON(t *testing.T) {
	t.Parallel()
	runPairs(t, []pairTest{
		{"white space", "{\"a\":[1,2]}", " {\r\n\t\"a\" : [ 1 , 2 ] } ", true},
		{"member order", `{"a":1,"b":{"c":2,"d":3}}`, `{"b":{"d":3,"c":2},"a":1}`, true},
		{"element order", `[1,2]`, `[2,1]`, false},
		{"order inside of ordered members", `{"a":{"d":1,"c":2},"b":[{"f":1,"e":2}]}`, `{"a":{"c":2,"d":1},"b":[{"e":2,"f":1}]}`, true},
		{"order by the decoded name", `{"\u0062":1,"a":2}`, `{"a":2,"b":1}`, true},
		{"names that begin alike", `{"ab":1,"a":2,"a!":3}`, `{"a!":3,"a":2,"ab":1}`, true},
		{"value moved to another member", `{"a":1,"b":2}`, `{"a":2,"b":1}`, false},
		{"value moved to another depth", `{"a":{"b":1}}`, `{"a":{},"b":1}`, false},
		{"duplicates in another order", `{"a":1,"a":2}`, `{"a":2,"a":1}`, false},
		{"duplicate dropped", `{"a":1,"a":1}`, `{"a":1}`, false},
		{"duplicate dropped, last one the same", `{"a":2,"a":1}`, `{"a":1}`, false},
		{"duplicates around another member", `{"a":1,"b":0,"a":2}`, `{"b":0,"a":1,"a":2}`, true},
		{"duplicate in another spelling", `{"b":0,"a":1,"\u0061":2}`, `{"a":1,"a":2,"b":0}`, true},
		{"case variants of a name", `{"a":1,"A":2}`, `{"a":2,"A":1}`, false},
		{"case of a name", `{"a":1}`, `{"A":1}`, false},
		{"a duplicate in a letter that folds", `{"sku":1,"ſku":2}`, `{"sku":1,"sku":2}`, false},
		{"empty name", `{"":1}`, `{}`, false},

		{"escaped letter", `"\u0041"`, `"A"`, true},
		{"escaped slash", `"\/"`, `"/"`, true},
		{"short escapes", `"\b\f\n\r\t\"\\"`, `"\u0008\u000C\u000a\u000d\u0009\u0022\u005c"`, true},
		{"surrogate pair", `"\ud83d\ude00"`, `"😀"`, true},
		{"escaped backslash before u", `"\\u0041"`, `"A"`, false},
		{"escaped backslash before a surrogate", `"\\ud800"`, `"\ud800"`, false},
		{"lone surrogate and U+FFFD", `"\ud800"`, `"\ufffd"`, false},
		{"two lone surrogates", `"\ud800"`, `"\ud801"`, false},
		{"a lone surrogate in upper case", `"\uD8AB"`, `"\ud8ab"`, true},
		{"lone surrogate and its three bytes", `"\ud800"`, "\"\xed\xa0\x80\"", false},
		{"surrogates in the wrong order", `"\ude00\ud83d"`, `"😀"`, false},
		{"surrogate before another escape", `"\ud83d\n"`, `"\ud83dn"`, false},
		{"surrogate before the end", `["\ud83d","\ude00"]`, `["😀",""]`, false},
		{"invalid byte and U+FFFD", "\"\xff\"", `"\ufffd"`, false},
		{"two invalid bytes", "\"\xff\"", "\"\xfe\"", false},
		{"invalid byte and its number", "\"\xff\"", `"\u00ff"`, false},
		{"U+FFFD spelled out", "\"\uFFFD\"", `"\ufffd"`, true},
		{"normalisation form", `"é"`, `"e\u0301"`, false},
		{"NUL", `"\u0000"`, `""`, false},

		{"1.0 and 1", `1.0`, `1`, true},
		{"exponents", `1e2`, `100`, true},
		{"minus zero", `-0`, `0`, true},
		{"the eighth digit", `[12345671,0]`, `[12345672,0]`, false},
		{"the ninth digit", `[123456781,0]`, `[123456782,0]`, false},
		{"past 2^53", `9007199254740993`, `9007199254740992`, false},
		{"number and string", `1`, `"1"`, false},
		{"null and string", `null`, `"null"`, false},
		{"null and absent", `{"a":null}`, `{}`, false},
		{"true and false", `true`, `false`, false},
		{"empty object and array", `{}`, `[]`, false},
		{"array in array", `[[1],[2]]`, `[[1,2]]`, false},
		{"scalar at the root", ` "a" `, `"a"`, true},
		{"a comma in a string", `["a,b"]`, `["a","b"]`, false},
		{"a quotation mark in a string", `["a\",\"b"]`, `["a","b"]`, false},

		{"not JSON: bytes", `{"a":1,}`, `{"a": 1,}`, false},
		{"not JSON: leading zero", `01`, ` 01`, false},
		{"not JSON: control character", "\"\x01\"", `"\u0001"`, false},
		{"not JSON: two documents", `1 2`, `1  2`, false},
		{"not JSON: empty", ``, ` `, false},
		{"bytes that look canonical", `{"a":1}x`, `{"a":1}`, false},
		{"512 deep", nested(512, ""), nested(512, " "), true},
		{"513 deep: bytes", nested(513, ""), nested(513, " "), false},
		{"many brackets, not deep", "[" + strings.Repeat("[],", 600) + "[]]", "[" + strings.Repeat("[] ,", 600) + "[]]", true},
		{"many brackets in strings", `["` + strings.Repeat(`\"[`, 600) + `"]`, `[ "` + strings.Repeat(`\"[`, 600) + `"]`, true},
		{"deep and unterminated", strings.Repeat("[", 513) + `"\`, strings.Repeat("[", 513) + `"`, false},
		{"many brackets and unterminated", strings.Repeat("[]", 513) + `"\`, strings.Repeat("[]", 513) + `"`, false},
	}, func(body string) string { return ofJSON([]byte(body), nil) })
}

func nested(depth int, inside string) string {
	return strings.Repeat("[", depth) + inside + strings.Repeat("]", depth)
}

// The rules of JSON hold for application/json and +json, with any parameters.
func TestKindOfBody(t *testing.T) {
	t.Parallel()
	const compact, spaced = `{"a":1,"b":2}`, `{ "b":2, "a":1 }`
	for contentType, canonical := range map[string]bool{
		"application/json":                       true,
		"Application/JSON":                       true,
		"application/json; charset=UTF-8":        true,
		`application/json; profile="x"`:          true,
		"application/merge-patch+json":           true,
		"application/vnd.api+JSON;v=1":           true,
		"":                                       false,
		"text/plain":                             false,
		"application/jsonx":                      false,
		"application/json+xml":                   false,
		"application/json; charset":              false,
		"application/json, application/json":     false,
		"application/x-www-form-urlencoded":      false,
		"multipart/form-data":                    false,
		"multipart/form-data; boundary=x":        false,
		"multipart/mixed; boundary=x":            false,
		"application/x-www-form-urlencoded; a=b": false,
	} {
		t.Run(contentType, func(t *testing.T) {
			t.Parallel()
			of := func(body string) string {
				return fingerprint.Of(fingerprint.Request{ContentType: contentType, Body: []byte(body)}, nil)
			}
			testkit.Equal(t, of(compact) == of(spaced), canonical, "read as JSON")
		})
	}
}

// Case 25
func TestEveryPartCounts(t *testing.T) {
	t.Parallel()
	requests := []fingerprint.Request{
		{},
		{Method: "POST"},
		{Path: "POST"},
		{RawQuery: "POST"},
		{ContentType: "POST"},
		{Body: []byte("POST")},
		{Method: "PO", Path: "ST"},
		{Method: "P", Path: "OST"},
		{Path: "/", RawQuery: "a"},
		{Path: "/?a"},
		{RawQuery: "a=1", ContentType: "application/x-www-form-urlencoded"},
		{Body: []byte("a=1"), ContentType: "application/x-www-form-urlencoded"},
		{Body: []byte("1"), ContentType: "text/plain"},
		{Body: []byte("1"), ContentType: "application/json"},
		{Body: []byte("1"), ContentType: "application/hal+json"},
		{Path: strings.Repeat("x", 9000)},
		{Path: strings.Repeat("x", 9001)},
		{Body: []byte(strings.Repeat("x", 9000))},
		{Body: []byte(strings.Repeat("x", 9001))},
	}
	seen := map[string]fingerprint.Request{}
	for _, r := range requests {
		sum := fingerprint.Of(r, nil)
		if other, found := seen[sum]; found {
			t.Errorf("one fingerprint for %+v and %+v", r, other)
		}
		seen[sum] = r
	}
}

// Case 25
func TestMediaType(t *testing.T) {
	t.Parallel()
	runPairs(t, []pairTest{
		{"case", "Text/Plain", "text/plain", true},
		{"space", " text/plain ", "text/plain", true},
		{"default charset", "text/plain; charset=utf-8", "text/plain", true},
		{"default charset in capitals", "text/plain;CHARSET=UTF-8", "text/plain", true},
		{"default charset in quotes", `text/plain; charset="utf-8"`, "text/plain", true},
		{"default charset among others", `text/plain; format=flowed; charset=utf-8`, "text/plain; format=flowed", true},
		{"other charset", "text/plain; charset=latin1", "text/plain", false},
		{"order of parameters", "text/plain; a=1; b=2", "text/plain;b=2;a=1", true},
		{"value of a parameter", "text/plain; a=1", "text/plain; a=2", false},
		{"case of a value", "text/plain; a=x", "text/plain; a=X", false},
		{"name of a parameter", "text/plain; a=1", "text/plain; b=1", false},
		{"quotes", `text/plain; a="1"`, "text/plain; a=1", true},
		{"closing semicolon", "text/plain;", "text/plain", true},
		{"none and malformed", "", "/", false},
		{"malformed, in another case", "text/", "Text/", false},
		{"malformed, with parameters", "text/; a=1", "text/;a=1", false},
		{"malformed parameters", "text/plain; a", "text/plain; b", false},
		{"malformed and well-formed", "text/plain; a", "text/plain", false},
		{"parameters that are decoded in vain", "text/plain; a*=x", "text/plain; a*=y", false},
		{"other boundary, no form", "multipart/mixed; boundary=a", "multipart/mixed; boundary=b", false},
	}, func(contentType string) string {
		return fingerprint.Of(fingerprint.Request{ContentType: contentType}, nil)
	})
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	x := exclude(t, "nonce", "meta.id")
	body, smaller := paymentOf(8<<10), []byte(`{"b":1,"nonce":2,"a":3}`)
	want, wantSmaller := ofJSON(body, x), ofJSON(smaller, x)
	testkit.Concurrently(8, func(int) {
		for range 50 {
			if ofJSON(body, x) != want || ofJSON(smaller, x) != wantSmaller {
				t.Error("the fingerprint of one request differs from call to call")
			}
			if _, err := fingerprint.Strip(smaller, []string{"nonce"}); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
