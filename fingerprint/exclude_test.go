package fingerprint_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/fingerprint"

	"github.com/oncekey/oncekey/internal/testkit"
)

var long = strings.Repeat("x", 2000)

// excludeTests has documents without their excluded fields. Of and Strip must agree
// with the table.
var excludeTests = []struct {
	name     string
	fields   []string
	document string
	left     string
}{
	{"no field", nil, `{"a":1}`, `{"a":1}`},
	{"a name", []string{"nonce"}, `{"a":1,"nonce":2}`, `{"a":1}`},
	{"a name at any depth", []string{"nonce"}, `{"a":{"nonce":1,"b":[{"nonce":2},[{"nonce":3,"c":4}]]}}`, `{"a":{"b":[{},[{"c":4}]]}}`},
	{"a name in another case", []string{"nonce"}, `{"NONCE":1,"Nonce":2,"a":3}`, `{"a":3}`},
	{"a field in another case", []string{"NONCE"}, `{"nonce":1,"a":3}`, `{"a":3}`},
	{"case beyond ASCII does not count either", []string{"é"}, `{"É":1,"é":2,"e":3}`, `{"e":3}`},
	{"letters that fold to ASCII", []string{"sku", "kind"}, `{"ſKU":1,"\u212Aind":2,"\u017fku":3,"sk":4}`, `{"sk":4}`},
	{"the Kelvin sign is a k", []string{"k"}, "{\"\u212A\":1,\"K\":2,\"c\":3}", `{"c":3}`},
	// Case 31
	{"every duplicate", []string{"nonce"}, `{"nonce":1,"a":2,"nonce":3,"nonce":4}`, `{"a":2}`},
	// Case 31
	{"every duplicate of a path", []string{"m.id"}, `{"m":{"id":1,"ID":2,"id":3,"a":4},"M":{"id":5}}`, `{"m":{"a":4},"M":{}}`},
	{"an escaped name", []string{"nonce"}, `{"\u006eonce":1,"a":2}`, `{"a":2}`},
	{"a whole subtree", []string{"nonce"}, `{"nonce":{"a":["}",{"b":"\"]"}]},"c":[]}`, `{"c":[]}`},
	{"scalars of all kinds", []string{"x"}, `{"x":"a","x":-1.5e3,"x":true,"x":null,"x":{},"x":[]}`, `{}`},
	{"a value is not a name", []string{"nonce"}, `["nonce",{"a":"nonce"}]`, `["nonce",{"a":"nonce"}]`},
	{"the first member", []string{"a"}, `{"a":1,"b":2,"c":3}`, `{"b":2,"c":3}`},
	{"the first two members", []string{"a", "b"}, `{ "a":1 , "b":2 , "c":3 }`, `{"c":3}`},
	{"the middle member", []string{"b"}, `{"a":1,"b":2,"c":3}`, `{"a":1,"c":3}`},
	{"all but the middle", []string{"a", "c"}, `{"a":1,"b":2,"c":3}`, `{"b":2}`},
	{"the last two members", []string{"b", "c"}, `{"a":1 , "b":2 , "c":3 }`, `{"a":1}`},
	{"all but the last, after one is kept", []string{"b"}, `{"a":1,"b":2,"b":3,"b":4,"c":5}`, `{"a":1,"c":5}`},
	{"a long name", []string{strings.Repeat("n", 70)}, `{"` + strings.Repeat("n", 70) + `":1,"` + strings.Repeat("n", 71) + `":2}`, `{"` + strings.Repeat("n", 71) + `":2}`},
	{"a name of the same length", []string{"abc"}, `{"abd":1}`, `{"abd":1}`},
	{"a name with a dot", []string{`a\.b`}, `{"a.b":1,"a":{"b":2}}`, `{"a":{"b":2}}`},
	{"a name with a star", []string{`\*`}, `{"*":1,"a":2}`, `{"a":2}`},
	{"a name with a backslash", []string{`a\\b`}, `{"a\\b":1,"ab":2}`, `{"ab":2}`},
	{"a name with a quotation mark", []string{`a"b`}, `{"a\"b":1,"ab":2}`, `{"ab":2}`},
	{"a name that looks like an escape", []string{`\\ud800`}, `{"\\ud800":1,"\ud800":2}`, `{"\ud800":2}`},
	{"a lone surrogate is U+FFFD, as for encoding/json", []string{"\uFFFD"}, `{"\ud800":1,"\ufffd":2,"a":3}`, `{"a":3}`},
	{
		"characters with a meaning to gjson and sjson",
		[]string{"@this", "#", "a|b", "a?", ":0", "!x", "-1", "~", "{a}"},
		`{"@this":1,"#":2,"a|b":3,"a?":4,":0":5,"!x":6,"-1":7,"~":8,"{a}":9,"b":[{"x":1},{"#":2}]}`, `{"b":[{"x":1},{}]}`,
	},
	{"a name that is a number is no index", []string{"0"}, `{"0":1,"a":[1,2]}`, `{"a":[1,2]}`},
	{"control characters", []string{"a\x00b"}, `{"a\u0000b":1}`, `{}`},

	{"a path", []string{"meta.trace.id"}, `{"meta":{"trace":{"id":1,"a":2},"id":3},"id":4}`, `{"meta":{"trace":{"a":2},"id":3},"id":4}`},
	{"a path begins at the root", []string{"b.c"}, `{"a":{"b":{"c":1}},"b":{"c":2}}`, `{"a":{"b":{"c":1}},"b":{}}`},
	{"a name at the root", []string{".id"}, `{"ID":1,"a":{"id":2,"b":[{"id":3}]},"b":4}`, `{"a":{"id":2,"b":[{"id":3}]},"b":4}`},
	{"a name at the root of an array", []string{".id", ".1"}, `[{"id":1},2,3]`, `[{"id":1},3]`},
	{"a name at the root and a longer path", []string{".id", "a.b"}, `{"id":1,"a":{"id":2,"b":3}}`, `{"a":{"id":2}}`},
	{"a path with a dot before it", []string{".a.b"}, `{"a":{"b":1,"c":2},"b":3}`, `{"a":{"c":2},"b":3}`},
	{"a path in another case", []string{"META.id"}, `{"meta":{"ID":1}}`, `{"meta":{}}`},
	{"a path into a scalar", []string{"a.b"}, `{"a":1}`, `{"a":1}`},
	{"a path with a dot in a name", []string{`m.a\.b`}, `{"m":{"a.b":1,"a":{"b":2}}}`, `{"m":{"a":{"b":2}}}`},
	{"a path with a star in a name", []string{`m.\*`}, `{"m":{"*":1,"a":2}}`, `{"m":{"a":2}}`},
	{"a path with a quotation mark", []string{`m.a"`}, `{"m":{"a\"":1}}`, `{"m":{}}`},
	{"any element", []string{"items.*.nonce"}, `{"items":[{"nonce":1,"a":2},{"nonce":3},4]}`, `{"items":[{"a":2},{},4]}`},
	{"any member", []string{"m.*"}, `{"m":{"a":1,"b":{}},"n":{"a":2}}`, `{"m":{},"n":{"a":2}}`},
	{"any at the root", []string{"*.id"}, `{"a":{"id":1},"b":[{"id":2}],"id":3}`, `{"a":{},"b":[{"id":2}],"id":3}`},
	{"an index", []string{"a.1"}, `{"a":[1,2,3]}`, `{"a":[1,3]}`},
	{"an index counts excluded elements", []string{"a.0", "a.1"}, `{"a":[1,2,3]}`, `{"a":[3]}`},
	{"the last element", []string{"a.2"}, `{"a":[1, 2 , 3 ]}`, `{"a":[1,2]}`},
	{"the only element", []string{"a.0"}, `{"a":[ 1 ]}`, `{"a":[]}`},
	{"all elements", []string{"a.*"}, `{"a":[1,[2],{"b":3}]}`, `{"a":[]}`},
	{"an index at the root", []string{"0.a"}, `[{"a":1,"b":2},{"a":3}]`, `[{"b":2},{"a":3}]`},
	{"a number is a member's name too", []string{"a.1"}, `{"a":{"0":1,"1":2}}`, `{"a":{"0":1}}`},
	{"a number with a leading zero is a name", []string{"a.01"}, `{"a":[1,2],"A":{"01":3,"1":4}}`, `{"a":[1,2],"A":{"1":4}}`},
	{"a negative number is a name", []string{"a.-2", "a.-1", "a.-3"}, `{"a":{"id":1,"-2":2,"-1":3,"xy":4},"b":{"-2":5}}`, `{"a":{"id":1,"xy":4},"b":{"-2":5}}`},
	{"a negative number is no element", []string{"a.-2", "a.-1", "a.-0"}, `{"a":[1,2,3]}`, `{"a":[1,2,3]}`},
	{"a sign, an exponent, a fraction and other digits are names", []string{"a.+1", "a.1e0", "a.1_0", `a.1\.0`, "a.0x1", "a.١", "a. 1"}, `{"a":[1,2,3],"A":{"+1":1,"1e0":2,"1_0":3,"1.0":4,"0x1":5,"١":6," 1":7,"1":8}}`, `{"a":[1,2,3],"A":{"1":8}}`},
	{"numbers past any index are names", []string{"a.9223372036854775807", "a.18446744073709551614", "a.4294967296", "a.340282366920938463463374607431768211456"}, `{"a":[1],"A":{"9223372036854775807":1,"18446744073709551614":2,"4294967296":3,"340282366920938463463374607431768211456":4,"0":5}}`, `{"a":[1],"A":{"0":5}}`},
	{"several paths", []string{"a.b.c", "a.b.d", "a.*.e", "a.x"}, `{"a":{"b":{"c":1,"d":2,"e":3,"f":4},"x":5,"y":{"e":6,"c":7}}}`, `{"a":{"b":{"f":4},"y":{"c":7}}}`},
	{"paths side by side", []string{"a.b.c", "d.e.f"}, `{"a":{"b":{"c":1}},"d":{"b":{"c":2},"e":{"f":3,"c":4}}}`, `{"a":{"b":{}},"d":{"b":{"c":2},"e":{"c":4}}}`},
	{"a path and a name", []string{"a.b", "c"}, `{"a":{"b":1,"c":2},"b":3,"c":4}`, `{"a":{},"b":3}`},
	{"first of two parents of one name", []string{"t"}, `{"m":{"x":1},"m":{"t":2}}`, `{"m":{"x":1},"m":{}}`},
	{"deep, with one to exclude", []string{"t"}, strings.Repeat(`{"a":`, 20) + `{"t":1}` + strings.Repeat("}", 20), strings.Repeat(`{"a":`, 20) + `{}` + strings.Repeat("}", 20)},
	{"a large value out of order", []string{"nonce"}, `{"nonce":{"b":"` + long + `","a":[{"z":"` + long + `","y":1}]},"d":{"b":"` + long + `","a":2},"c":3}`, `{"d":{"b":"` + long + `","a":2},"c":3}`},
	{"scalar at the root", []string{"a", "b.c"}, ` "a" `, `"a"`},
	{"white space around", []string{"a"}, " { \"a\" : 1 } \n", `{}`},
}

func TestExclude(t *testing.T) {
	t.Parallel()
	for _, test := range excludeTests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if ofJSON([]byte(test.document), exclude(t, test.fields...)) != ofJSON([]byte(test.left), nil) {
				t.Errorf("%s without %q is not as %s", test.document, test.fields, test.left)
			}
		})
	}
}

// Excluding a field does not hide other changes.
func TestExcludeNoMore(t *testing.T) {
	t.Parallel()
	x := exclude(t, "nonce", "meta.id")
	runPairs(t, []pairTest{
		{"excluded value", `{"a":1,"nonce":2}`, `{"a":1,"nonce":3}`, true},
		{"other value", `{"a":1,"nonce":2}`, `{"a":2,"nonce":2}`, false},
		{"excluded value moved", `{"a":{"nonce":2},"b":{}}`, `{"a":{},"b":{"nonce":2}}`, true},
		{"value moved out", `{"a":1,"nonce":{"b":2}}`, `{"a":1,"b":2}`, false},
		{"beside the path", `{"meta":{"id":1},"id":2}`, `{"meta":{"id":1},"id":3}`, false},
	}, func(body string) string { return ofJSON([]byte(body), x) })
}

func TestExcludeErrors(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]string{
		"":         "the field is empty",
		"a..b":     "both sides of every dot",
		"..a":      "both sides of every dot",
		".a..b":    "both sides of every dot",
		".*":       "exclude all members",
		"a.":       "both sides of every dot",
		".":        "the field is empty",
		`a\`:       `write \\`,
		`a.b\`:     `write \\`,
		`a\b`:      `may only stand before`,
		"*":        "exclude all members",
		"item*":    `write \*`,
		"**":       `write \*`,
		`items.a*`: `write \*`,
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			x, err := fingerprint.Exclude("fine", field)
			if err == nil || x != nil {
				t.Fatalf("Exclude(%q) = %v, %v; want an error", field, x, err)
			}
			if !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "fingerprint: ") {
				t.Errorf("the error %q does not contain %q", err, want)
			}
			if _, stripErr := fingerprint.Strip([]byte("{}"), []string{field}); stripErr == nil || stripErr.Error() != err.Error() {
				t.Errorf("Strip: %v; want %v", stripErr, err)
			}
		})
	}
}

// Each of many similar names excludes only the members of that name, in any case.
func TestManyNames(t *testing.T) {
	t.Parallel()
	testkit.NeedsNoRaceDetector(t)
	var fields []string
	for i := range 500 {
		fields = append(fields, fmt.Sprintf("Name%d", i), fmt.Sprintf("AVeryLongName%d", i), fmt.Sprintf("%cName%d", 'a'+i%26, i))
	}
	x := exclude(t, fields...)
	empty := ofJSON([]byte("{}"), x)
	for _, field := range fields {
		for _, name := range []string{field, strings.ToUpper(field), strings.ToLower(field)} {
			testkit.Equal(t, ofJSON([]byte(`{"`+name+`":1}`), x), empty, "%q is not excluded", name)
		}
		for _, name := range []string{field + "x", "x" + field, field[1:], field[:len(field)/2] + "_" + field[len(field)/2+1:], ""} {
			if !slices.Contains(fields, name) && ofJSON([]byte(`{"`+name+`":1}`), x) == empty {
				t.Errorf("%q is excluded", name)
			}
		}
	}
}
