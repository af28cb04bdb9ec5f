package fingerprint_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/oncekey/oncekey/fingerprint"

	"github.com/oncekey/oncekey/internal/testkit"
)

func ofJSON(body []byte, x *fingerprint.Exclusion) string {
	return fingerprint.Of(fingerprint.Request{Method: "POST", Path: "/", ContentType: "application/json", Body: body}, x)
}

func exclude(tb testing.TB, fields ...string) *fingerprint.Exclusion {
	tb.Helper()
	x, err := fingerprint.Exclude(fields...)
	testkit.Must(tb, err)
	return x
}

func including(tb testing.TB, fields ...string) *fingerprint.Exclusion {
	tb.Helper()
	only, err := fingerprint.Only(fields...)
	testkit.Must(tb, err)
	return only
}

// meaningOf returns the oracle's meaning of a JSON body, or its bytes.
func meaningOf(body []byte, chosen []rule) string {
	if n := parse(body); n != nil {
		return "json " + n.without(chosen).meaning()
	}
	return "raw " + string(body)
}

// checkPair checks that the fingerprints of a and b are equal if and only if the
// oracle finds that they mean the same.
func checkPair(t *testing.T, a, b []byte, chosen []rule) {
	t.Helper()
	x := exclude(t, fieldsOf(chosen)...)
	same := meaningOf(a, chosen) == meaningOf(b, chosen)
	if got := ofJSON(a, x) == ofJSON(b, x); got != same {
		t.Errorf("fingerprints equal: %t; the oracle has %t\na: %q\nb: %q\nexcluding %q", got, same, a, b, fieldsOf(chosen))
	}
}

// checkStrip checks that Strip agrees with Of, and with two other parsers about valid
// JSON.
func checkStrip(t *testing.T, body []byte, chosen []rule) {
	t.Helper()
	stripped, err := fingerprint.Strip(body, fieldsOf(chosen))
	testkit.Equal(t, err == nil, parse(body) != nil, "Strip(%q): %v; the oracle disagrees", body, err)
	if depth(body) <= 512 && (err == nil) != gjson.ValidBytes(body) {
		t.Errorf("Strip(%q): %v; gjson disagrees", body, err)
	}
	if err == nil && ofJSON(stripped, nil) != ofJSON(body, exclude(t, fieldsOf(chosen)...)) {
		t.Errorf("Strip and Of differ in the remaining fields\nbody: %q\nleft: %q\nexcluding %q", body, stripped, fieldsOf(chosen))
	}
}

// checkDocument checks every property on one document and its variations.
func checkDocument(t *testing.T, n *node, g generator) {
	t.Helper()
	chosen := g.rules()
	body := g.spell(n)
	other := g.spell(n)
	if a, b := ofJSON(body, nil), ofJSON(other, nil); a != b {
		t.Errorf("spelled another way, the fingerprint differs\na: %q\nb: %q", body, other)
	}
	checkPair(t, body, other, chosen)
	checkPair(t, body, g.spell(g.changed(n)), chosen)
	checkPair(t, body, g.spell(n.without(chosen)), chosen)
	checkStrip(t, body, chosen)
}

// TestRandomDocuments runs the checks of the fuzz targets on random documents.
func TestRandomDocuments(t *testing.T) {
	t.Parallel()
	testkit.NeedsNoRaceDetector(t)
	g := randomGenerator(t)
	for range 2000 {
		n := g.document(4)
		checkDocument(t, n, g)
		checkStrip(t, g.damaged(g.spell(n)), g.rules())
		checkPair(t, g.spell(g.document(2)), g.spell(g.document(2)), g.rules())
	}
}

// Case 31
func FuzzOf(f *testing.F) {
	for _, seed := range []struct{ a, b string }{
		{`{"a":1,"b":2}`, ` { "b" : 2 , "a" : 1 } `},
		{`{"a":1,"a":2}`, `{"a":2,"a":1}`},
		{`{"a":1,"A":1}`, `{"a":1,"a":1}`},
		{`"\u0041\/"`, `"A/"`},
		{`"\ud800"`, "\"\xed\xa0\x80\""},
		{`"\ud800\udc00"`, `"𐀀"`},
		{`"\\ud800"`, `"\ud800"`},
		{"\"\xff\"", `"\ufffd"`},
		{`[1.0,1e0,-0]`, `[1,1,0]`},
		{`{"b":{"d":1,"c":[{"z":1,"y":2}]},"a":3}`, `{"a":3,"b":{"c":[{"y":2,"z":1}],"d":1}}`},
		{`{"nonce":1,"items":[{"id":1,"NONCE":2}]}`, `{"items":[{}]}`},
		{`{"meta":{"id":1,"ID":2,"trace":{"id":3}}}`, `{"meta":{"trace":{}}}`},
		{"", " "},
		{`{"a":01}`, `{"a":1}`},
		{"\"\x01\"", `"\u0001"`},
		{strings.Repeat("[", 513) + strings.Repeat("]", 513), strings.Repeat("[", 512) + strings.Repeat("]", 512)},
	} {
		f.Add([]byte(seed.a), []byte(seed.b), uint64(0))
		f.Add([]byte(seed.a), []byte(seed.b), ^uint64(0))
	}
	f.Fuzz(func(t *testing.T, a, b []byte, chosen uint64) {
		excluded := chosenRules(chosen)
		checkPair(t, a, b, excluded)
		checkStrip(t, a, excluded)
		if n := parse(a); n != nil {
			checkDocument(t, n, newGenerator(chosen))
		}
	})
}

// chosenRules returns the rules whose bit is set.
func chosenRules(chosen uint64) (all []rule) {
	for i, r := range rules {
		if chosen>>i&1 == 1 {
			all = append(all, r)
		}
	}
	return all
}

// formMeaning is the oracle for forms: names in order of the alphabet with their
// values, decoded by net/url one by one.
func formMeaning(form string) (meaning []string) {
	for pair := range strings.SplitSeq(form, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name, value = formComponent(name), formComponent(value)
		if !strings.EqualFold(name, "good nonce") {
			meaning = append(meaning, name, value)
		}
	}
	pairs := slices.Collect(slices.Chunk(meaning, 2))
	slices.SortStableFunc(pairs, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	return slices.Concat(pairs...)
}

func formComponent(spelled string) string {
	decoded, err := url.QueryUnescape(spelled)
	if err != nil {
		return "malformed " + spelled
	}
	return "good " + decoded
}

func FuzzForm(f *testing.F) {
	for _, seed := range []struct{ a, b string }{
		{"a=1&b=2", "b=2&a=1"},
		{"a=1&a=2", "a=2&a=1"},
		{"a=%41+%20", "a=A%20+"},
		{"a=%zz", "a=%25zz"},
		{"a", "a="},
		{"&&a=1&", "a=1"},
		{"nonce=1&%6eONCE=%zz&b", "b"},
		{"%zz=1", "%25zz=1"},
		{"a=%4", "a=%2"},
		{"a=1%26b=2", "a=1&b=2"},
	} {
		f.Add(seed.a, seed.b)
	}
	f.Fuzz(checkForms)
}

// TestRandomForms runs the checks of FuzzForm on random forms.
func TestRandomForms(t *testing.T) {
	t.Parallel()
	testkit.NeedsNoRaceDetector(t)
	g := randomGenerator(t)
	form := func() string {
		var spelled strings.Builder
		for range g.IntN(8) {
			spelled.WriteString(pick(g, "a", "A", "b", "%61", "%", "%6", "%zz", "+", "%20", "=", "=", "&", "&", "nonce", "%4Eonce", "\\", "ſ"))
		}
		return spelled.String()
	}
	for range 5000 {
		checkForms(t, form(), form())
	}
}

// checkForms checks that the fingerprints of two forms are equal if and only if
// the oracle finds that they mean the same, as queries and as bodies.
func checkForms(t *testing.T, a, b string) {
	same := slices.Equal(formMeaning(a), formMeaning(b))
	x := exclude(t, "nonce")
	inQuery := func(raw string) string { return fingerprint.Of(fingerprint.Request{RawQuery: raw}, x) }
	inBody := func(raw string) string { return fingerprint.Of(formRequest(raw), x) }
	if got := inQuery(a) == inQuery(b); got != same {
		t.Errorf("as queries equal: %t; the oracle has %t\na: %q\nb: %q", got, same, a, b)
	}
	if got := inBody(a) == inBody(b); got != same {
		t.Errorf("as bodies equal: %t; the oracle has %t\na: %q\nb: %q", got, same, a, b)
	}
}
