package fingerprint_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/fingerprint"

	"github.com/oncekey/oncekey/internal/testkit"
)

// The names of a mismatch can be pasted into ExcludeFields: then the retry matches.
func TestNamesCanBeExcluded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ first, retry fingerprint.Request }{
		{jsonRequest(`{"sentAt":1,"a":1}`), jsonRequest(`{"a":1,"sentAt":2}`)},
		{jsonRequest(`{"meta":{"trace":{"id":1}}}`), jsonRequest(`{"meta":{"trace":{"id":2}}}`)},
		{jsonRequest(`{"items":[{"nonce":1},{"nonce":2}]}`), jsonRequest(`{"items":[{"nonce":3},{"nonce":4}]}`)},
		{jsonRequest(`{"tags":[[1,2]]}`), jsonRequest(`{"tags":[[1,3]]}`)},
		{jsonRequest(`[{"t":1}]`), jsonRequest(`[{"t":2}]`)},
		{jsonRequest(`{"a.b":1,"m":{"*":1,"\\":1,"\"":1,".":1,"\\ud800":1}}`), jsonRequest(`{"a.b":2,"m":{"*":2,"\\":2,"\"":2,".":2,"\\ud800":2}}`)},
		{jsonRequest(`{"m":{"":1},"n":{"\ud800":1}}`), jsonRequest(`{"m":{"":2},"n":{"\ud800":2}}`)},
		{jsonRequest("{\"m\":{\"\xff\":1,\"\\u0000\":1}}"), jsonRequest("{\"m\":{\"\xff\":2,\"\\u0000\":2}}")},
		{jsonRequest(`{"m":{"` + strings.Repeat("n.", 100) + `":1}}`), jsonRequest(`{"m":{"` + strings.Repeat("n.", 100) + `":2}}`)},
		{jsonRequest(`{"list":[` + strings.Repeat("1,", 99) + `1]}`), jsonRequest(`{"list":[` + strings.Repeat("1,", 99) + `2]}`)},
		{jsonRequest(`{"A":{"Id":1}}`), jsonRequest(`{"A":{"Id":2}}`)},
		{formRequest(`a.b=1&c[d]=1&e=%zz`), formRequest(`a.b=2&c[d]=2&e=%25`)},
		{fingerprint.Request{RawQuery: "a=1"}, fingerprint.Request{RawQuery: "a=2"}},
		{multipartRequest(part("b", field("a.b"), "1")), multipartRequest(part("b", field("a.b"), "2"))},
	} {
		t.Run(string(test.first.Body)+test.first.RawQuery, func(t *testing.T) {
			t.Parallel()
			names, missing := differences(test.first, test.retry, nil)
			if len(names) == 0 || missing > 0 {
				t.Fatalf("got %q and %d missing", names, missing)
			}
			x := exclude(t, names...)
			testkit.Equal(t, fingerprint.Of(test.first, x), fingerprint.Of(test.retry, x), "the fingerprints without %q", names)
		})
	}
}

func TestNoSketch(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]fingerprint.Request{
		"empty request": {},
		"a scalar":      jsonRequest(`"a"`),
		"an object":     jsonRequest(`{}`),
		"an array":      jsonRequest(`[]`),
		"not JSON":      jsonRequest(`{"a":1`),
		"too deep":      jsonRequest(nested(513, "")),
		"raw":           {ContentType: "text/plain", Body: []byte("a=1")},
		"an empty form": formRequest("&&"),
		"no parts":      multipartRequest(""),
	}, func(t *testing.T, r fingerprint.Request) {
		if sketch := sketchOf(r, nil, sketchKey); sketch != nil {
			t.Errorf("got %x, want nil", sketch)
		}
	})
}

// A sketch is useless without its key, to a reader and to a program with another key.
func TestSketchOfAnotherKey(t *testing.T) {
	t.Parallel()
	r := jsonRequest(`{"a":1,"b":{"c":2}}`)
	sketch := sketchOf(r, nil, sketchKey)
	for i := range sketchKey {
		other := sketchKey
		other[i] ^= 0x10
		if names, missing := differencesFrom(sketch, r, nil, other); len(names) != 2 || missing != 2 {
			t.Errorf("with another byte %d of the key: %q and %d missing", i, names, missing)
		}
	}
	changed := func(at int, to byte) []byte { s := bytes.Clone(sketch); s[at] = to; return s }
	testkit.Each(t, map[string][]byte{
		"nil":                 nil,
		"a header alone":      sketch[:2],
		"cut short":           sketch[:len(sketch)-1],
		"another version":     changed(0, 2),
		"another depth":       changed(1, 7),
		"longer than allowed": append(sketch[:2:2], make([]byte, 43*6)...),
	}, func(t *testing.T, unknown []byte) {
		if names, missing := differencesFrom(unknown, jsonRequest(`{"a":2}`), nil, sketchKey); names != nil || missing != 0 {
			t.Errorf("got %q and %d missing, want none", names, missing)
		}
	})
}

// Equal values in two places, and equal places with two values, look different.
func TestSketchIsHashed(t *testing.T) {
	t.Parallel()
	sketch := sketchOf(jsonRequest(`{"a":"secret","b":"secret","c":["secret","secret"],"d":7,"e":7}`), nil, sketchKey)
	if len(sketch) != 2+6*6 {
		t.Fatalf("%d bytes for six members", len(sketch))
	}
	seen := map[string]bool{}
	for tag := range slices.Chunk(sketch[2:], 3) {
		seen[string(tag)] = true
	}
	testkit.Equal(t, len(seen), 12, "hashes for six places and their values: %x", sketch)
}

// Case 32
func TestSketchIsBounded(t *testing.T) {
	t.Parallel()
	testkit.NeedsNoRaceDetector(t)
	var long strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&long, `,"%s%c%c%c%c":[{"%s":%d}]`, strings.Repeat("n", 60), 'a'+i%26, 'a'+i/26%26, 'a'+i/26/26%26, 'a'+i/26/26/26, strings.Repeat("o", 59), i)
	}
	first, retry := jsonRequest(`{"a":1}`), jsonRequest("{"+long.String()[1:]+"}")
	names, missing := differences(first, retry, nil)
	if len(names) != 17 || names[16] != "99984 others" || missing != 1 {
		t.Errorf("names %q and %d missing, want 16, 99984 others and 1", names, missing)
	}
	for _, name := range names {
		if len(name) > 128 {
			t.Errorf("a name of %d bytes: %s", len(name), name)
		}
	}
	for _, size := range []int{100, 300, 1000, 10_000, 100_000} {
		if sketch := sketchOf(jsonRequest(string(paymentOf(size))), nil, sketchKey); len(sketch) == 0 || len(sketch) > fingerprint.MaxSketch {
			t.Errorf("%d bytes for a document of %d", len(sketch), size)
		}
	}
	for _, body := range []string{
		strings.Repeat(`{"a":`, 512) + "1" + strings.Repeat("}", 512),
		string(hill(1 << 20)),
		string(reversed()),
		`{"a":[` + strings.Repeat(`{"":1},`, 150_000) + `{"":1}]}`,
		`{"` + strings.Repeat("n", 1<<20) + `":1}`,
	} {
		sketch := sketchOf(jsonRequest(body), nil, sketchKey)
		if names, missing := differencesFrom(sketch, jsonRequest(body), nil, sketchKey); len(names) > 0 || missing > 0 {
			t.Errorf("%.20s differs from itself in %q and %d missing", body, names, missing)
		}
	}
}

// checkSketch checks the properties of any two documents.
func checkSketch(t *testing.T, a, b fingerprint.Request, fields []string) {
	t.Helper()
	x, only := exclude(t, fields...), including(t, fields...)
	for _, r := range []fingerprint.Request{a, b} {
		checkReadForSketch(t, r, x)
		checkReadForSketch(t, r, only)
		if names, missing := differences(r, r, x); len(names) > 0 || missing > 0 {
			t.Errorf("%q differs from itself in %q and %d missing", r.Body, names, missing)
		}
	}
	names, missing := differences(a, b, x)
	if fingerprint.Of(a, x) == fingerprint.Of(b, x) && (len(names) > 0 || missing > 0) {
		t.Errorf("equal fingerprints, different in %q and %d missing\na: %q\nb: %q\nexcluding %q", names, missing, a.Body, b.Body, fields)
	}
	if len(names) > 17 || missing > 42 || slices.Contains(names, "") {
		t.Errorf("%d names %q, %d missing", len(names), names, missing)
	}
}

// checkReadForSketch checks that the walk makes the sketch of the survey. The walk has the
// members in the order of the input.
func checkReadForSketch(t *testing.T, r fingerprint.Request, x *fingerprint.Exclusion) {
	t.Helper()
	read, other := fingerprint.ReadForSketch(r, x, sketchKey), sketchKey
	defer read.Close()
	other[0]++
	testkit.Equal(t, string(read.AppendFingerprint(nil)), fingerprint.Of(r, x), "%q has the fingerprint", r.Body)
	for _, key := range [][16]byte{sketchKey, other, sketchKey} {
		if got, want := read.AppendSketch(nil, key), sketchOf(r, x, key); !slices.Equal(membersOf(got), membersOf(want)) {
			t.Errorf("%q has the sketch %x on the walk, and %x by a survey", r.Body, got, want)
		}
	}
}

// membersOf returns the header and the sorted members of a sketch.
func membersOf(sketch []byte) (members []string) {
	if len(sketch) == 0 {
		return nil
	}
	for member := range slices.Chunk(sketch[2:], 6) {
		members = append(members, string(member))
	}
	slices.Sort(members)
	return append(members, string(sketch[:2]))
}

// checkChange checks that Differences names exactly the one changed leaf, by a name
// that excludes the leaf.
func checkChange(t *testing.T, n *node, g generator, fields []string) {
	t.Helper()
	leaves, changed := n.withLeafChanged(g)
	if leaves == 0 || leaves > 42 {
		return
	}
	a, b := jsonRequest(string(g.spell(n))), jsonRequest(string(g.spell(changed)))
	x := exclude(t, fields...)
	names, missing := differences(a, b, x)
	if same := fingerprint.Of(a, x) == fingerprint.Of(b, x); len(names) > 1 || len(names) == 0 != same || missing > 0 {
		t.Errorf("fingerprints equal: %t, but named %q and %d missing\na: %q\nb: %q\nexcluding %q", same, names, missing, a.Body, b.Body, fields)
	}
	if len(names) == 0 || strings.Contains(names[0], "other") { // which are not shown
		return
	}
	if x = exclude(t, append(names, fields...)...); fingerprint.Of(a, x) != fingerprint.Of(b, x) {
		t.Errorf("without %q the fingerprints still differ\na: %q\nb: %q\nexcluding %q", names, a.Body, b.Body, fields)
	}
}

// withLeafChanged returns the number of leaves in n, without n, and a copy in which
// one leaf has a new value.
func (n *node) withLeafChanged(g generator) (leaves int, changed *node) {
	var count func(n *node) int
	count = func(n *node) (leaves int) {
		for _, child := range n.children {
			leaves += max(1, count(child))
		}
		return leaves
	}
	if leaves = count(n); leaves == 0 {
		return 0, n
	}
	target := g.IntN(leaves)
	var copied func(n *node) *node
	copied = func(n *node) *node {
		c := *n
		c.children = nil
		for _, child := range n.children {
			inner := copied(child)
			if len(child.children) == 0 {
				if target == 0 {
					inner = &node{literal: "424242"}
				}
				target--
			}
			c.children = append(c.children, inner)
		}
		return &c
	}
	return leaves, copied(n)
}

func TestSketchOfRandomDocuments(t *testing.T) {
	t.Parallel()
	testkit.NeedsNoRaceDetector(t)
	g := randomGenerator(t)
	for range 2000 {
		n, fields := g.document(4), fieldsOf(g.rules())
		body := jsonRequest(string(g.spell(n)))
		checkSketch(t, body, jsonRequest(string(g.spell(n))), fields)
		checkSketch(t, body, jsonRequest(string(g.spell(g.changed(n)))), fields)
		checkChange(t, n, g, fields)
	}
}

func FuzzSketch(f *testing.F) {
	for _, seed := range []struct{ a, b string }{
		{`{"a":1,"b":[{"c":"x"},2]}`, `{"b":[{"c":"y"},2],"a":1}`},
		{`{"a":1,"a":2}`, `{"a":2,"a":1}`},
		{`a=1&b=%zz&%zz=1`, `b=2&a`},
		{part("b", field("a"), "1") + "--b--", part("b", file("a", "x", "text/plain"), "1") + "--b--"},
		{`{"a":[` + strings.Repeat("[],", 50) + `{}]}`, `{"a":{}}`},
		{`{"":{"\ud800":"\\","*":1}}`, `[`},
	} {
		f.Add([]byte(seed.a), []byte(seed.b), uint64(0), []byte(nil))
		f.Add([]byte(seed.b), []byte(seed.a), ^uint64(0), []byte("\x01\xff123456"))
	}
	types := []string{"application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b", "text/plain"}
	f.Fuzz(func(t *testing.T, a, b []byte, chosen uint64, sketch []byte) {
		fields := fieldsOf(chosenRules(chosen))
		for _, contentType := range types {
			x, y := fingerprint.Request{ContentType: contentType, Body: a}, fingerprint.Request{ContentType: contentType, Body: b, RawQuery: string(a)}
			checkSketch(t, x, y, fields)
			differencesFrom(sketch, y, nil, sketchKey) // whatever the store holds
		}
		if n := parse(a); n != nil {
			checkChange(t, n, newGenerator(chosen), fields)
		}
	})
}
