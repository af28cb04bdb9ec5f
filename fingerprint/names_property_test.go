package fingerprint_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"

	"github.com/oncekey/oncekey/fingerprint"

	"github.com/oncekey/oncekey/internal/testkit"
)

// decodes reports whether encoding/json gives a document's only member to a field of
// that name.
func decodes(t *testing.T, field, document string) bool {
	t.Helper()
	into := reflect.New(reflect.StructOf([]reflect.StructField{{Name: "V", Type: reflect.TypeFor[*int](), Tag: reflect.StructTag(fmt.Sprintf("json:%q", field))}}))
	if err := json.Unmarshal([]byte(document), into.Interface()); err != nil {
		t.Fatalf("%q: %v", document, err)
	}
	return !into.Elem().Field(0).IsNil()
}

// variant returns a name that differs from the field in case, in the spelling of its
// characters, and sometimes in a character. It is in JSON's spelling.
func variant(g generator, field string) string {
	var spelled strings.Builder
	for _, char := range field {
		for range g.IntN(4) {
			char = unicode.SimpleFold(char)
		}
		switch g.IntN(24) {
		case 0:
			char = pick(g, 'x', 'ſ', '\u212A', 'İ', 'ı', 'ẞ', 'Σ', '\uFFFD', 'K')
		case 1:
			spelled.WriteString(pick(g, `\ud800`, "\xff", `\\`, `\"`, `\/`))
		}
		switch units := utf16.Encode([]rune{char}); {
		case g.IntN(4) > 0:
			spelled.WriteRune(char)
		default:
			for _, unit := range units {
				fmt.Fprintf(&spelled, `\u%04x`, unit)
			}
		}
	}
	return spelled.String()
}

// Case 90: a field matches exactly the members that encoding/json gives to it, in the
// spelling of a bare name, of a path, of a KeyField and of an included field.
func TestNamesMatchAsEncodingJSON(t *testing.T) {
	t.Parallel()
	testkit.NeedsNoRaceDetector(t)
	g := randomGenerator(t)
	matched := 0
	for range 3000 {
		field := pick(g, "sku", "kind", "KEY", "größe", "ſku", "\u212Aind", "ΣΑΣ", "ǆ", "straße", "İd", "a_b", "K", "s1")
		name := variant(g, field)
		document := `{"` + name + `":1}`
		want := decodes(t, field, document)
		if want {
			matched++
		}
		checkMatch(t, field, document, want)
	}
	if matched < 500 || matched > 2900 {
		t.Errorf("encoding/json matched %d of 3000 names: the test compares too little", matched)
	}
}

func checkMatch(t *testing.T, field, document string, want bool) {
	t.Helper()
	testkit.Equal(t, ofJSON([]byte(document), exclude(t, field)) == ofJSON([]byte("{}"), nil), want, "excluding %q from %q", field, document)
	inner := `{"meta":` + document + `}`
	if got := ofJSON([]byte(inner), exclude(t, "meta."+field)) == ofJSON([]byte(`{"meta":{}}`), nil); got != want {
		t.Errorf("excluding meta.%q from %q: %t, want %t", field, inner, got, want)
	}
	member, err := fingerprint.ParseMember(field)
	testkit.Must(t, err)
	if value, err := member.Find([]byte(document)); (err == nil && string(value) == "1") != want || err != nil && !errors.Is(err, fingerprint.ErrNoMember) {
		t.Errorf("%q in %q is %q, %v, want %t", field, document, value, err, want)
	}
	only := including(t, field)
	beside := strings.TrimSuffix(document, "}") + `,"beside":2}`
	testkit.Equal(t, ofJSON([]byte(beside), only) == ofJSON([]byte(document), nil), want, "including %q of %q", field, beside)
	stripped, err := fingerprint.Strip([]byte(document), []string{field})
	if got := string(stripped) == "{}"; err != nil || got != want {
		t.Errorf("%q without %q is %q, %v, want %t", document, field, stripped, err, want)
	}
}

// Case 90, in every form: the name of a field is matched in any case.
func TestNamesOfFormsMatchInAnyCase(t *testing.T) {
	t.Parallel()
	x := exclude(t, "sku", "kind")
	for _, name := range []string{"sku", "SKU", "ſku", "ſKU", "%C5%BFku", "kind", "\u212Aind", "%E2%84%AAIND"} {
		if got := fingerprint.Of(fingerprint.Request{RawQuery: "a=1&" + name + "=2"}, x); got != fingerprint.Of(fingerprint.Request{RawQuery: "a=1"}, nil) {
			t.Errorf("%q is not excluded from a query", name)
		}
		testkit.Equal(t, fingerprint.Of(formRequest(name+"=2&a=1"), x), fingerprint.Of(formRequest("a=1"), nil), "%q excluded from a form", name)
	}
	for _, name := range []string{"sku\\", "\\sku", "s\\ku", "sk", "skuu", "kın", "kınd", "\xffku"} {
		if got := fingerprint.Of(formRequest(name+"=2&a=1"), x); got == fingerprint.Of(formRequest("a=1"), nil) {
			t.Errorf("%q is excluded from a form", name)
		}
	}
}
