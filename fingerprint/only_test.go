package fingerprint_test

import (
	"strings"
	"testing"

	"github.com/oncekey/oncekey/fingerprint"
)

// Only the included fields count, and a body without any counts as a whole.
func TestOnly(t *testing.T) {
	t.Parallel()
	const form, multi = "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"
	part := func(name, value string) string { return part("b", field(name), value) }
	for _, row := range []struct {
		name, fields, media, a, b string
		same                      bool
	}{
		{"another member", "amount", "", `{"amount":1,"at":1}`, `{"at":2,"amount":1,"x":[{}]}`, true},
		{"the member", "amount", "", `{"amount":1}`, `{"amount":2}`, false},
		{"its spelling", "amount", "", `{"amount":1}`, `{"amount":1.0}`, true},
		{"the name's case", "amount", "", `{"Amount":1}`, `{"Amount":2}`, false},
		{"two fields in another order", "amount,currency", "", `{"amount":1,"currency":"EUR"}`, `{"currency":"EUR","x":1,"amount":1}`, true},
		{"one of two fields", "amount,currency", "", `{"amount":1,"currency":"EUR"}`, `{"amount":1}`, false},
		{"values exchanged", "amount,currency", "", `{"amount":1,"currency":2}`, `{"amount":2,"currency":1}`, false},
		{"at any depth", "amount", "", `{"a":{"amount":1,"x":1}}`, `{"a":{"x":2,"amount":1},"b":{}}`, true},
		{"at another depth", "amount", "", `{"a":{"amount":1}}`, `{"b":{"amount":1}}`, false},
		{"at any depth, the value", "amount", "", `{"a":[{"amount":1}]}`, `{"a":[{"amount":2}]}`, false},
		{"in elements", "amount", "", `[{"amount":1,"x":1},{"amount":2}]`, `[{"amount":1},{"amount":2,"x":2}]`, true},
		{"elements in another order", "amount", "", `[{"amount":1},{"amount":2}]`, `[{"amount":2},{"amount":1}]`, false},
		{"the whole value of a field", "order", "", `{"order":{"x":1}}`, `{"order":{"x":2}}`, false},
		{"the name within the field", "order", "", `{"order":{"order":1,"x":1}}`, `{"order":{"order":1,"x":2}}`, false},
		{"a field's members in order", "order", "", `{"order":{"y":2,"x":1}}`, `{"order":{"x":1,"y":2}}`, true},
		{"a path", "meta.id", "", `{"id":1,"meta":{"id":7,"x":1}}`, `{"id":2,"meta":{"x":2,"id":7}}`, true},
		{"the path's value", "meta.id", "", `{"meta":{"id":7}}`, `{"meta":{"id":8}}`, false},
		{"a path and a name below", "meta.id,x", "", `{"a":{"b":{"x":1}},"meta":{"id":7}}`, `{"a":{"b":{"x":2}},"meta":{"id":7}}`, false},
		{"a star", "items.*.sku", "", `{"items":[{"sku":1,"n":1},{"sku":2}]}`, `{"items":[{"sku":1},{"n":3,"sku":2}]}`, true},
		{"a star's value", "items.*.sku", "", `{"items":[{"sku":1},{"sku":2}]}`, `{"items":[{"sku":1},{"sku":3}]}`, false},
		{"duplicates", "amount", "", `{"amount":1,"amount":2}`, `{"amount":2,"amount":1}`, false},
		{"none present: the whole body", "amount", "", `{"x":1}`, `{"x":2}`, false},
		{"none present: its content", "amount", "", `{"x":1,"y":2}`, ` {"y":2, "x":1}`, true},
		{"no JSON: the whole body", "amount", "", `{"amount":1,"x":1`, `{"amount":1,"x":2`, false},
		{"a sorted large group that does not count", "amount", "", `{"amount":1,"z":{"b":"` + strings.Repeat("b", 2000) + `","a":1}}`, `{"amount":1}`, true},
		{"a large element that does not count", "amount", "", `[{"amount":1},{"b":"` + strings.Repeat("b", 2000) + `","a":1}]`, `[{"amount":1}]`, true},
		{"a form", "amount", form, "amount=1&x=1", "x=2&amount=1", true},
		{"a form's value", "amount", form, "amount=1&x=1", "amount=2&x=1", false},
		{"a form without them", "amount", form, "x=1", "x=2", false},
		{"parts", "amount", multi, part("amount", "1") + part("x", "1") + "--b--", part("amount", "1") + part("x", "2") + "--b--", true},
		{"a part's value", "amount", multi, part("amount", "1") + "--b--", part("amount", "2") + "--b--", false},
		{"parts without them", "amount", multi, part("x", "1") + "--b--", part("x", "2") + "--b--", false},
		{"other bytes", "amount", "text/plain", "amount=1&x=1", "amount=1&x=2", false},
	} {
		only := including(t, strings.Split(row.fields, ",")...)
		if row.media == "" {
			row.media = "application/json"
		}
		of := func(body string) string {
			return fingerprint.Of(fingerprint.Request{ContentType: row.media, Body: []byte(body)}, only)
		}
		if same := of(row.a) == of(row.b); same != row.same {
			t.Errorf("%s: equal is %t, want %t:\n%s\n%s", row.name, same, row.same, row.a, row.b)
		}
		query := func(query string) string {
			return fingerprint.Of(fingerprint.Request{RawQuery: query, ContentType: row.media, Body: []byte(row.a)}, only)
		}
		if query("x=1&amount=1") == query("x=2&amount=1") {
			t.Errorf("%s: the query does not count", row.name)
		}
	}
	if _, err := fingerprint.Only("a..b"); err == nil {
		t.Error("a malformed path is compiled")
	}
}

// A changed member that counts is named, and no other.
func TestDifferencesOfOnly(t *testing.T) {
	t.Parallel()
	names, missing := differences(jsonRequest(`{"amount":1,"at":1}`), jsonRequest(`{"amount":2,"at":2}`), including(t, "amount"))
	if len(names) != 1 || names[0] != "amount" || missing != 0 {
		t.Errorf("got %q and %d missing, want amount", names, missing)
	}
}

// Header fields count in the fingerprint and in the digest.
func TestHeadersCount(t *testing.T) {
	t.Parallel()
	field := func(name, value string) fingerprint.HeaderField {
		return fingerprint.HeaderField{Name: name, Value: value}
	}
	seen := make(map[string]int)
	for i, headers := range [][]fingerprint.HeaderField{
		nil,
		{field("A", "1")},
		{field("A", "2")},
		{field("B", "1")},
		{field("A", "")},
		{field("A1", "")},
		{field("A", "1"), field("A", "2")},
		{field("A", "2"), field("A", "1")},
		{field("A", "1"), field("B", "2")},
	} {
		r := fingerprint.Request{Method: "POST", Body: []byte("x"), Headers: headers}
		digest := fingerprint.Digest(r)
		for _, sum := range []string{fingerprint.Of(r, nil), string(digest[:])} {
			if other, taken := seen[sum]; taken {
				t.Errorf("headers %d and %d are the same request", other, i)
			}
			seen[sum] = i
		}
	}
	plain := fingerprint.Request{Method: "POST", Body: []byte("x")}
	empty := plain
	empty.Headers = []fingerprint.HeaderField{}
	if fingerprint.Of(plain, nil) != fingerprint.Of(empty, nil) || fingerprint.Digest(plain) != fingerprint.Digest(empty) {
		t.Error("no headers count")
	}
}
