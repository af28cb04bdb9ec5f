package fingerprint_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/fingerprint"
)

// Case 25: queries and form bodies follow the same rules.
func TestForm(t *testing.T) {
	t.Parallel()
	tests := []pairTest{
		{"order of names", "a=1&b=2", "b=2&a=1", true},
		{"order of one name's values", "a=1&a=2", "a=2&a=1", false},
		{"values around another name", "a=1&b=0&a=2", "b=0&a=1&a=2", true},
		{"duplicate", "a=1&a=1", "a=1", false},
		{"percent-spelling", "%61=%31", "a=1", true},
		{"case of the digits", "a=%2f", "a=%2F", true},
		{"plus", "a=+", "a=%20", true},
		{"escaped plus", "a=%2B", "a=+", false},
		{"escaped ampersand", "a=1%26b=2", "a=1&b=2", false},
		{"escaped equals sign", "a%3D1", "a=1", false},
		{"second equals sign", "a=1=2", "a=1%3D2", true},
		{"no value", "a", "a=", true},
		{"no name", "=a", "a", false},
		{"empty pairs", "&&a=1&", "a=1", true},
		{"none", "", "&", true},
		{"case", "a=1", "A=1", false},
		{"semicolon", "a=1;b=2", "a=1&b=2", false},
		{"escaped semicolon", "a=1;b", "a=1%3Bb", false},
		{"escaped semicolon in a name", "a;b=1", "a%3Bb=1", false},
		{"malformed value", "a=%zz", "a=%25zz", false},
		{"malformed name", "%zz=1", "%25zz=1", false},
		{"two malformed values", "a=%zz", "a=%zy", false},
		{"cut short", "a=%4", "a=%", false},
		{"malformed, beside another", "a=%zz&b=1", "b=1&a=%zz", true},
		{"not UTF-8", "a=%ff", "a=%fe", false},
		{"one pair and two", "a=1", "a=1&b", false},
		{"JSON with a plus", `{"a":"1+1"}`, `{"a":"1 1"}`, false},
		{"JSON with an escape", ` ["%31"]`, ` ["1"]`, false},
		{"JSON with ampersands", `"b&a&&="`, `"b&a&="`, false},
		{"XML with a plus", `<a b="+"/>`, `<a b=" "/>`, false},
		{"JSON with an end", "{}", "{}=", false},

		{"excluded name", "a=1&nonce=2", "a=1", true},
		{"excluded name, in another case", "a=1&NONCE=2&nOnce=3", "a=1", true},
		{"excluded name, escaped", "a=1&%6eonce=2", "a=1", true},
		{"excluded name, malformed value", "a=1&nonce=%zz", "a=1", true},
		{"excluded name in a malformed one", "a=1&nonce%zz=2", "a=1", false},
		{"excluded name as a value", "a=nonce", "a=", false},
		{"excluded name with a dot", "a.b=1", "", true},
		{"a path excludes no field", "meta.id=1", "", false},
		{"excluded name with a quotation mark", "q%22=1", "", true},
		{"all excluded", "nonce=1", "", true},
	}
	x := exclude(t, "nonce", `a\.b`, "meta.id", `q"`)
	t.Run("query", func(t *testing.T) {
		t.Parallel()
		runPairs(t, tests, func(raw string) string { return fingerprint.Of(fingerprint.Request{RawQuery: raw}, x) })
	})
	t.Run("body", func(t *testing.T) {
		t.Parallel()
		runPairs(t, tests, func(raw string) string {
			return fingerprint.Of(fingerprint.Request{ContentType: "Application/x-www-form-urlencoded", Body: []byte(raw)}, x)
		})
	})
}

func part(boundary, headers, content string) string {
	return "--" + boundary + "\r\n" + headers + "\r\n\r\n" + content + "\r\n"
}

func field(name string) string { return fmt.Sprintf("Content-Disposition: form-data; name=%q", name) }

func file(name, fileName, contentType string) string {
	return field(name) + fmt.Sprintf("; filename=%q\r\nContent-Type: %s", fileName, contentType)
}

func upload(boundary string) string {
	return part(boundary, field("title"), "A title") + part(boundary, file("scan", "a.png", "image/png"), "\x89PNG") + "--" + boundary + "--\r\n"
}

func TestMultipart(t *testing.T) {
	t.Parallel()
	one := func(headers, content string) string { return part("b", headers, content) + "--b--" }
	two := func(a, b string) string { return part("b", field(a), "1") + part("b", field(b), "2") + "--b--" }
	runPairs(t, []pairTest{
		{"preamble and epilogue", one(field("a"), "1"), "before\r\n" + one(field("a"), "1") + "\r\nafter", true},
		{"name", one(field("a"), "1"), one(field("b"), "1"), false},
		{"case of a name", one(field("a"), "1"), one(field("A"), "1"), false},
		{"content", one(field("a"), "1"), one(field("a"), "2"), false},
		{"long content", one(field("a"), strings.Repeat("x", 9999)+"1"), one(field("a"), strings.Repeat("x", 9999)+"2"), false},
		{"order of parts", two("a", "b"), part("b", field("b"), "2") + part("b", field("a"), "1") + "--b--", false},
		{"file and field", one(field("a"), "1"), one(file("a", "", "text/plain"), "1"), false},
		{"file name", one(file("a", "x", "text/plain"), "1"), one(file("a", "y", "text/plain"), "1"), false},
		{"folder of a file", one(file("a", "p/x", "text/plain"), "1"), one(file("a", "q/x", "text/plain"), "1"), false},
		{"content type", one(file("a", "x", "text/plain"), "1"), one(file("a", "x", "text/html"), "1"), false},
		{"spelling of a content type", one(file("a", "x", "Text/Plain;charset=UTF-8"), "1"), one(file("a", "x", "text/plain"), "1"), true},
		{"transfer encoding", one(field("a")+"\r\nContent-Transfer-Encoding: quoted-printable", "=41"), one(field("a"), "=41"), false},
		{"case of header names", one("content-disposition: form-data; name=a", "1"), one(field("a"), "1"), true},
		{"other headers", one(field("a")+"\r\nX-Client: 1", "1"), one(field("a"), "1"), true},
		{"no part and an empty one", "--b--", one(field(""), ""), false},

		{"excluded part", two("a", "nonce"), one(field("a"), "1"), true},
		{"excluded part, in another case", two("a", "NONCE"), one(field("a"), "1"), true},
		{"excluded file", one(file("nonce", "x", "text/plain"), "1"), "--b--", true},

		{"malformed: cut short", part("b", field("a"), "1"), "x" + part("b", field("a"), "1"), false},
		{"malformed: cut short in an excluded part", part("b", field("nonce"), "1"), part("b", field("nonce"), "2"), false},
		{"malformed: headers", one("x", "1"), "x" + one("x", "1"), false},
		{"malformed: no part", "1", "2", false},
		{"malformed: cut short in the content", "--b\r\n" + field("a") + "\r\n\r\n1", "--b\r\n" + field("a") + "\r\n\r\n2", false},
		{"as many parts as net/http reads", strings.Repeat(part("b", field("a"), ""), 1000) + "--b--", "x\r\n" + strings.Repeat(part("b", field("a"), ""), 1000) + "--b--", true},
		{"more parts", strings.Repeat(part("b", field("a"), ""), 1001) + "--b--", "x\r\n" + strings.Repeat(part("b", field("a"), ""), 1001) + "--b--", false},
	}, func(body string) string {
		return fingerprint.Of(fingerprint.Request{ContentType: "multipart/form-data; boundary=b", Body: []byte(body)}, exclude(t, "nonce"))
	})
}

// The boundary is new in each attempt. It counts only if the parts cannot be parsed.
func TestBoundary(t *testing.T) {
	t.Parallel()
	runPairs(t, []pairTest{
		{"form", "a", "bcd", true},
		{"form, quoted", "a", `"a"`, true},
		{"no boundary", "a", "", false},
	}, func(boundary string) string {
		return fingerprint.Of(fingerprint.Request{
			ContentType: "multipart/form-data; boundary=" + boundary,
			Body:        []byte(upload(strings.Trim(boundary, `"`))),
		}, nil)
	})
	malformed := func(boundary string) string {
		return fingerprint.Of(fingerprint.Request{ContentType: "multipart/form-data; boundary=" + boundary, Body: []byte("--a\r\n--b\r\n")}, nil)
	}
	if malformed("a") == malformed("b") {
		t.Error("a malformed form has one fingerprint under two boundaries")
	}
}
