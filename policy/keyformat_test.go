package policy_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/policy"
)

func TestKeyFormats(t *testing.T) {
	t.Parallel()
	const uuid = "8e03978e-40d5-43dd-bc93-6894a57f9324"
	for _, row := range []struct {
		format  policy.KeySyntax
		allowed []string
		refused []string
	}{
		{policy.KeySyntax{}, []string{"k", uuid}, nil},
		{
			policy.UUIDKey,
			[]string{uuid, strings.ToUpper(uuid), "00000000-0000-0000-0000-000000000000"},
			[]string{"", "k", "{" + uuid + "}", uuid + "0", uuid[1:], strings.ReplaceAll(uuid, "-", ""), strings.Replace(uuid, "8", "g", 1), strings.Replace(uuid, "-", "8", 1), strings.Replace(uuid, "8", "-", 1)},
		},
		{policy.KeyPattern("ord_[0-9]{6}"), []string{"ord_000017"}, []string{"ord_17", "xord_000017", "ord_0000171", ""}},
		{policy.KeyPattern("a|ab"), []string{"a", "ab"}, []string{"abb", "b"}},
		{policy.KeyPattern("(?m)^a$|b"), []string{"a", "b"}, []string{"a\n"}},
		{policy.KeyPattern(`\Qa.b`), []string{"a.b"}, []string{"aXb", "a.b)$"}},
	} {
		for _, key := range row.allowed {
			if !row.format.Allows(key) {
				t.Errorf("%s refuses %q", row.format, key)
			}
		}
		for _, key := range row.refused {
			if row.format.Allows(key) {
				t.Errorf("%s allows %q", row.format, key)
			}
		}
	}
	if expression := regexp.MustCompile("^(?:" + policy.UUIDKey.Expression() + ")$"); !expression.MatchString(uuid) || expression.MatchString(uuid+"0") {
		t.Error("the expression of UUIDKey is another format")
	}
}

func TestKeyFormatThatCannotBe(t *testing.T) {
	t.Parallel()
	for want, opt := range map[string]policy.Option{
		`policy: KeyFormat is "ord_[0-9": it must be UUIDKey, or KeyPattern with a regular expression: missing closing ]`: policy.KeyFormat(policy.KeyPattern("ord_[0-9")),
		`policy: KeyFormat is "a)|(b": it must be UUIDKey, or KeyPattern with a regular expression: unexpected )`:         policy.KeyFormat(policy.KeyPattern("a)|(b")),
		`policy: KeyFormat is "": it must be UUIDKey, or KeyPattern with a regular expression: empty expression`:          policy.KeyFormat(policy.KeyPattern("")),
	} {
		if _, err := policy.New(opt); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	for _, text := range []string{"KeyFormat=uuid", "KeyFormat=", "KeyFormat=ord_[0-9]{6}"} {
		want := fmt.Sprintf("policy: KeyFormat is %q: it must be UUID, or policy.KeyPattern in Go", strings.TrimPrefix(text, "KeyFormat="))
		if _, err := policy.Parse(text); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	if p, err := policy.Parse("KeyFormat=UUID"); err != nil || p.KeyFormat != policy.UUIDKey {
		t.Errorf("got %v, %v", p.KeyFormat, err)
	}
}

func ExampleKeyFormat() {
	p, err := policy.New(policy.KeyFormat(policy.KeyPattern("ord_[0-9]{6}")))
	fmt.Println(p.KeyFormat, p.KeyFormat.Allows("ord_000017"), p.KeyFormat.Allows("ord_17"), err)

	_, err = policy.Parse("KeyFormat=ULID")
	fmt.Println(err)
	// Output:
	// ord_[0-9]{6} true false <nil>
	// policy: KeyFormat is "ULID": it must be UUID, or policy.KeyPattern in Go
}
