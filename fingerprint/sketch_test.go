package fingerprint_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/fingerprint"
)

var sketchKey = [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

func jsonRequest(body string) fingerprint.Request {
	return fingerprint.Request{Method: "POST", Path: "/", ContentType: "application/json", Body: []byte(body)}
}

func formRequest(body string) fingerprint.Request {
	return fingerprint.Request{Method: "POST", Path: "/", ContentType: "application/x-www-form-urlencoded", Body: []byte(body)}
}

func multipartRequest(body string) fingerprint.Request {
	return fingerprint.Request{Method: "POST", Path: "/", ContentType: "multipart/form-data; boundary=b", Body: []byte(body + "--b--")}
}

// differences sketches the first request and compares the retry with it. If there
// are other members than those named, their count is the last name.
func differences(first, retry fingerprint.Request, x *fingerprint.Exclusion) (names []string, missing int) {
	return differencesFrom(sketchOf(first, x, sketchKey), retry, x, sketchKey)
}

// differencesFrom compares a request with a sketch.
func differencesFrom(sketch []byte, r fingerprint.Request, x *fingerprint.Exclusion, key [16]byte) (names []string, missing int) {
	reading := fingerprint.Read(r, x)
	defer reading.Close()
	names, others, missing := reading.Differences(sketch, key)
	switch others {
	case 0:
	case 1:
		names = append(names, "1 other")
	default:
		names = append(names, fmt.Sprintf("%d others", others))
	}
	return names, missing
}

type differenceTest struct {
	name         string
	first, retry fingerprint.Request
	names        []string
	missing      int
}

func runDifferences(t *testing.T, tests []differenceTest, x *fingerprint.Exclusion) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			names, missing := differences(test.first, test.retry, x)
			if !slices.Equal(names, test.names) || missing != test.missing {
				t.Errorf("got %q and %d missing, want %q and %d", names, missing, test.names, test.missing)
			}
		})
	}
}

func TestDifferencesInJSON(t *testing.T) {
	t.Parallel()
	between := func(name, first, retry string, missing int, names ...string) differenceTest {
		return differenceTest{name, jsonRequest(first), jsonRequest(retry), names, missing}
	}
	long := strings.Repeat("n", 64)
	runDifferences(t, []differenceTest{
		between("no change", `{"a":1,"b":[2]}`, ` { "b":[ 2 ], "\u0061":1 } `, 0),
		between("the honest retry", `{"amount":1,"sentAt":"12:00:00"}`, `{"amount":1,"sentAt":"12:00:31"}`, 0, "sentAt"),
		between("deep", `{"meta":{"trace":{"id":1},"v":2}}`, `{"meta":{"v":2,"trace":{"id":3}}}`, 0, "meta.trace.id"),
		between("several", `{"a":1,"b":2,"c":3}`, `{"c":4,"b":2,"a":"1"}`, 0, "a", "c"),
		between("in the elements of an array", `{"items":[{"id":1,"t":1},{"id":2,"t":2}]}`, `{"items":[{"id":1,"t":3},{"id":2,"t":4}]}`, 0, "items.*.t"),
		between("an element", `{"tags":["a","b"]}`, `{"tags":["a","c"]}`, 0, "tags.*"),
		between("elements in another order", `{"tags":["a","b"]}`, `{"tags":["b","a"]}`, 0, "tags.*"),
		between("an array at the root", `[{"t":1}]`, `[{"t":2}]`, 0, "*.t"),
		between("elements at the root", `[1]`, `[2]`, 0, "1 other"),
		between("new", `{"a":1}`, `{"a":1,"b":{"c":2,"d":[]}}`, 0, "b.c", "b.d"),
		between("missing", `{"a":1,"b":{"c":2,"d":[]}}`, `{"a":1}`, 2),
		between("renamed", `{"a":1}`, `{"b":1}`, 1, "b"),
		between("case of a name", `{"a":1}`, `{"A":1}`, 1, "A"),
		between("moved", `{"a":{"b":1},"c":{}}`, `{"a":{},"c":{"b":1}}`, 2, "a", "c.b"),
		between("an array is no object", `{"a":[1]}`, `{"a":{"0":1}}`, 1, "a.*"),
		between("an array is no object of a member without a name", `{"a":[1]}`, `{"a":{"":1}}`, 1, "a.*"),
		between("an empty array is no object", `{"a":[]}`, `{"a":{}}`, 0, "a"),
		between("a name is no value", `{"a":"b"}`, `{"a":{"b":1}}`, 1, "a.b"),
		between("spelling of numbers", `{"a":1.50,"b":1000,"c":0.5,"d":1}`, `{"d":10e-1,"c":5e-1,"b":1e3,"a":1.51}`, 0, "a"),
		between("past 2^53", `{"a":9007199254740993}`, `{"a":9007199254740992}`, 0, "a"),
		between("lone surrogate and U+FFFD", `{"a":"\ud800"}`, `{"a":"\ufffd"}`, 0, "a"),
		between("duplicate added", `{"a":1}`, `{"a":1,"a":1}`, 0, "a"),
		between("duplicate dropped", `{"a":1,"a":1}`, `{"a":1}`, 1),
		between("last duplicate changed", `{"a":1,"a":2}`, `{"a":1,"a":3}`, 0, "a"),
		between("in one of two parents of one name", `{"m":{"t":1},"m":{"t":2}}`, `{"m":{"t":1},"m":{"t":3}}`, 0, "m.t"),
		between("excluded", `{"a":1,"nonce":1,"m":{"id":1}}`, `{"a":2,"nonce":2,"m":{"id":2}}`, 0, "a"),
		between("excluded element", `{"list":[1,2]}`, `{"list":[3,2]}`, 0),

		between("a dot in a name", `{"a.b":1}`, `{"a.b":2}`, 0, `a\.b`),
		between("a star in a name", `{"m":{"*":1}}`, `{"m":{"*":2}}`, 0, "m.*"),
		between("a backslash in a name", `{"a\\b":1}`, `{"a\\b":2}`, 0, "1 other"),
		between("a quotation mark in a name", `{"a\"b":1}`, `{"a\"b":2}`, 0, "1 other"),
		between("a control character in a name", `{"a\u0000":1}`, `{"a\u0000":2}`, 0, "1 other"),
		between("a byte that is not UTF-8 in a name", "{\"a\xff\":1}", "{\"a\xff\":2}", 0, "1 other"),
		between("a letter that is not ASCII in a name", `{"m":{"größe":1}}`, `{"m":{"größe":2}}`, 0, "m.*"),
		between("a map by card number", `{"cards":{"4242424242424242":{"cvv":1}}}`, `{"cards":{"4242424242424242":{"cvv":2}}}`, 0, "cards.*.cvv"),
		between("no name", `{"m":{"":1}}`, `{"m":{"":2}}`, 0, "m.*"),
		between("a name with a lone surrogate", `{"m":{"\\\ud800":1}}`, `{"m":{"\\\ud800":2}}`, 0, "m.*"),
		between("a name that looks like a surrogate", `{"m":{"\\ud800":1}}`, `{"m":{"\\ud800":2}}`, 0, "m.*"),
		between("a long name", `{"m":{"`+long+`":1}}`, `{"m":{"`+long+`":2}}`, 0, "m."+long),
		between("a path that is too long", `{"m":{"`+long+`":{"`+long+`":1}}}`, `{"m":{"`+long+`":{"`+long+`":2}}}`, 0, "m."+long),
		between("a name that is too long", `{"m":{"`+long+long+`":1}}`, `{"m":{"`+long+long+`":2}}`, 0, "m.*"),
		between("a name that is too long at the top", `{"`+long+long+`":1}`, `{"`+long+long+`":2}`, 0, "1 other"),
		between("another kind of body", `{"a":1,"b":2}`, `{"a":1,`, 2),
	}, exclude(t, "nonce", "m.id", "list.0"))
}

func TestDifferencesElsewhere(t *testing.T) {
	t.Parallel()
	query := func(raw string) fingerprint.Request { return fingerprint.Request{RawQuery: raw} }
	withQuery := func(r fingerprint.Request, raw string) fingerprint.Request { r.RawQuery = raw; return r }
	a, b := part("b", field("a"), "1"), part("b", field("b.c"), "2")
	runDifferences(t, []differenceTest{
		{"query", query("a=1&b=2"), query("b=3&a=1"), []string{"b"}, 0},
		{"query: new and missing", query("a=1"), query("b=1"), []string{"b"}, 1},
		{"query: excluded", query("nonce=1&a=1"), query("nonce=2&a=2"), []string{"a"}, 0},
		{"form", formRequest("a=1&b=2"), formRequest("b=3&a=%31"), []string{"b"}, 0},
		{"form: one of two values", formRequest("a=1&a=2"), formRequest("a=1&a=3"), []string{"a"}, 0},
		{"form: a name with a dot and a star", formRequest("a.b=1&%2A=1"), formRequest("a.b=2&%2A=2"), []string{`a\.b`, "1 other"}, 0},
		{"form: a backslash is no escape", formRequest(`a\b=1`), formRequest(`a\b=2`), []string{"1 other"}, 0},
		{"form: a malformed name", formRequest("%zz=1"), formRequest("%zz=2"), []string{"1 other"}, 0},
		{"form: a malformed value", formRequest("a=%zz"), formRequest("a=%25zz"), []string{"a"}, 0},
		{"form: no name", formRequest("=1"), formRequest("=2"), []string{"1 other"}, 0},
		{"form: a name without a value may be a value", formRequest("hunter1"), formRequest("hunter2&hunter3=&c2VjcmV0=="), []string{"3 others"}, 1},
		{"form: names with brackets", formRequest("card[number]=1&items[0][id]=1"), formRequest("card[number]=2&items[0][id]=2"), []string{"card[number]", "items[0][id]"}, 0},
		{"query and form apart", withQuery(formRequest("a=1"), "a=2"), withQuery(formRequest("a=2"), "a=1"), []string{"a"}, 0},
		{"query and JSON", withQuery(jsonRequest(`{"a":1}`), "c=2"), withQuery(jsonRequest(`{"b":1}`), "c=3"), []string{"b", "c"}, 1},
		{"query and a raw body", withQuery(jsonRequest("{"), "a=1"), withQuery(jsonRequest("["), "a=2"), []string{"a"}, 0},
		{"multipart: content", multipartRequest(a + b), multipartRequest(a + part("b", field("b.c"), "3")), []string{`b\.c`}, 0},
		{"multipart: content type", multipartRequest(part("b", file("a", "x", "text/plain"), "1")), multipartRequest(part("b", file("a", "x", "text/html"), "1")), []string{"a"}, 0},
		{"multipart: file name", multipartRequest(part("b", file("a", "x", "text/plain"), "1")), multipartRequest(part("b", file("a", "y", "text/plain"), "1")), []string{"a"}, 0},
		{"multipart: new", multipartRequest(a), multipartRequest(a + b), []string{`b\.c`}, 0},
		{"multipart: missing", multipartRequest(a + b), multipartRequest(b), nil, 1},
		{"multipart: excluded", multipartRequest(a + part("b", field("nonce"), "1")), multipartRequest(a + part("b", field("nonce"), "2")), nil, 0},
		{"multipart and JSON", multipartRequest(a), jsonRequest(`{"a":1}`), []string{"a"}, 1},
		{"media type", jsonRequest(`{"a":1}`), fingerprint.Request{ContentType: "application/merge-patch+json", Body: []byte(`{"a":1}`)}, nil, 0},
	}, exclude(t, "nonce"))
}

// With many members the names are coarser and still correct.
func TestSketchOfManyMembers(t *testing.T) {
	t.Parallel()
	list := func(count, value int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(fmt.Sprintf(`{"a":{"b":[0,%d,{"c":{},"d":[[]]}]}},`, value), count), ",") + "]"
	}
	object := func(count, value int) string {
		var members strings.Builder
		for i := range count {
			fmt.Fprintf(&members, `,"m%d":{"a":%d}`, i, value)
		}
		return "{" + members.String()[1:] + "}"
	}
	runDifferences(t, []differenceTest{
		{"42 leaves", jsonRequest(object(42, 1)), jsonRequest(strings.Replace(object(42, 1), `"m7":{"a":1}`, `"m7":{"a":2}`, 1)), []string{"m7.a"}, 0},
		{"43 members", jsonRequest(object(43, 1)), jsonRequest(object(43, 2)), nil, 0},
		{"43 leaves of 42 members", jsonRequest(object(41, 1)[:len(object(41, 1))-1] + `,"x":[1,2]}`), jsonRequest(object(41, 1)[:len(object(41, 1))-1] + `,"x":[1,3]}`), []string{"x"}, 0},
		{"three levels", jsonRequest(`{"i":` + list(15, 1) + `}`), jsonRequest(`{"i":` + list(15, 2) + `}`), []string{"i.*.a"}, 0},
		{"two levels", jsonRequest(`{"x":0,"i":[` + strings.Repeat(`{"a":1,"b":2},`, 40) + `{"a":1}]}`), jsonRequest(`{"x":0,"i":[` + strings.Repeat(`{"a":1,"b":2},`, 40) + `{"a":2}]}`), []string{"i.*"}, 0},
		{"a level", jsonRequest(`{"x":0,"i":` + list(100, 1) + `}`), jsonRequest(`{"x":0,"i":` + list(100, 2) + `}`), []string{"i"}, 0},
		{"a level, in another order of members", jsonRequest(`{"i":` + list(100, 1) + `,"x":0}`), jsonRequest(`{"x":1,"i":` + strings.ReplaceAll(list(100, 1), `"c":{},"d":[[]]`, `"d":[[]],"c":{}`) + `}`), []string{"x"}, 0},
		{"a level, one more element", jsonRequest(`{"i":` + list(100, 1) + `}`), jsonRequest(`{"i":` + list(101, 1) + `}`), []string{"i"}, 0},
		{"a level, values swapped", jsonRequest(`{"x":{"a":1,"b":2},"i":[` + strings.Repeat("1,", 100) + `1]}`), jsonRequest(`{"x":{"a":2,"b":1},"i":[` + strings.Repeat("1,", 100) + `1]}`), []string{"x"}, 0},
		{"scalars in a row", jsonRequest(`{"x":0,"i":[` + strings.Repeat("1,", 100) + `{},"a",{"b":1},2]}`), jsonRequest(`{"x":0,"i":[` + strings.Repeat("1,", 100) + `{},"a",{"b":1},3]}`), []string{"i"}, 0},
		{"too many members", jsonRequest("[" + strings.Repeat("1,", 50) + "1]"), jsonRequest("[" + strings.Repeat("1,", 50) + "2]"), nil, 0},
		{"too many parameters", fingerprint.Request{RawQuery: strings.Repeat("a&", 43)}, fingerprint.Request{RawQuery: "b"}, nil, 0},
		{"parameters take space", fingerprint.Request{RawQuery: strings.Repeat("a&", 41), ContentType: "application/json", Body: []byte(`{"a":{"b":1,"c":2}}`)}, fingerprint.Request{RawQuery: strings.Repeat("a&", 41), ContentType: "application/json", Body: []byte(`{"a":{"b":1,"c":3}}`)}, []string{"a"}, 0},
	}, nil)
}
