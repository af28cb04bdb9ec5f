package fingerprint_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/fingerprint"
)

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
