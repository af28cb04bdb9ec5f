package fingerprint_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/fingerprint"
	"github.com/oncekey/oncekey/internal/testkit"
)

// tree writes nested objects of ten members, with leaves of that length, in an order of
// names. Deep in the tree are arrays.
func tree(out *strings.Builder, depth, leaf int, order func(names []string)) {
	if depth == 0 {
		fmt.Fprintf(out, `[%q,{"y":2,"x":1}]`, strings.Repeat("v", leaf))
		return
	}
	names := strings.Fields("ada Bob ben cäsar dora \u017fku eve fay gus hal")
	order(names)
	for i, name := range names {
		out.WriteByte("{,"[min(i, 1)])
		fmt.Fprintf(out, `"%s":`, name)
		tree(out, depth-1, leaf, order)
	}
	out.WriteByte('}')
}

// Case 87: members of a large document are sorted without a copy of the document. The
// fingerprint and the sketch are those of the sorted document.
func TestLargeDocumentsOutOfOrder(t *testing.T) {
	t.Parallel()
	testkit.NeedsNoRaceDetector(t)
	g := newGenerator(87)
	for _, test := range []struct{ depth, leaf int }{
		{1, 20_000}, {2, 10}, {2, 1200}, {2, 1400}, {3, 100}, {3, 300}, {4, 20}, {4, 60},
	} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			write := func(order func(names []string)) fingerprint.Request {
				var text strings.Builder
				tree(&text, test.depth, test.leaf, order)
				return jsonRequest(text.String())
			}
			sorted := write(func([]string) {})
			want := fingerprint.Of(sorted, nil)
			for range 3 {
				shuffled := write(func(names []string) {
					g.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
				})
				testkit.Equal(t, fingerprint.Of(shuffled, nil), want, "%d bytes in another order are another request", len(shuffled.Body))
				for _, pair := range [][2]fingerprint.Request{{sorted, shuffled}, {shuffled, sorted}} {
					if names, missing := differences(pair[0], pair[1], nil); len(names) > 0 || missing > 0 {
						t.Errorf("the members %q differ, and %d are missing", names, missing)
					}
				}
				changed := shuffled
				changed.Body = slices.Clone(shuffled.Body)
				changed.Body[bytes.Index(changed.Body, []byte(`"x":1`))+4] = '2'
				if fingerprint.Of(changed, nil) == want {
					t.Error("a change has no effect")
				}
				if names, _ := differences(sorted, changed, nil); len(names) != 1 {
					t.Errorf("the members %q differ, want one", names)
				}
			}
		})
	}
}

// Case 87, for a form.
func TestLargeFormsOutOfOrder(t *testing.T) {
	t.Parallel()
	var pairs []string
	for i := range 300 {
		pairs = append(pairs, fmt.Sprintf("field%03d=%s", i/3, strings.Repeat(string(rune('a'+i%3)), 1000)))
	}
	slices.SortFunc(pairs, strings.Compare)
	first := formRequest(strings.Join(pairs, "&"))
	slices.SortStableFunc(pairs, func(a, b string) int { return strings.Compare(b[:8], a[:8]) })
	second := formRequest(strings.Join(pairs, "&"))
	testkit.Equal(t, fingerprint.Of(first, nil), fingerprint.Of(second, nil), "pairs in another order are another request")
	pairs[0], pairs[1] = pairs[1], pairs[0]
	if fingerprint.Of(first, nil) == fingerprint.Of(formRequest(strings.Join(pairs, "&")), nil) {
		t.Error("values of one name in another order are the same request")
	}
}

// A hash takes text in any pieces.
func TestLargeValuesInPieces(t *testing.T) {
	t.Parallel()
	testkit.NeedsNoRaceDetector(t)
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		// The member "big" has more leaves than a sketch, so that its text counts as one
		// value. Pieces of all lengths meet in it.
		var sorted, reversed []string
		for i := range 700 {
			member := fmt.Sprintf(`"m%04d":%q`, i, strings.Repeat("v", r.IntN(600)))
			sorted, reversed = append(sorted, member), slices.Insert(reversed, 0, member)
		}
		document := func(members []string) fingerprint.Request {
			return jsonRequest(`{"big":{` + strings.Join(members, ",") + `}}`)
		}
		if names, missing := differences(document(sorted), document(reversed), nil); len(names) > 0 || missing > 0 {
			t.Errorf("the members %q differ, and %d are missing", names, missing)
		}
	}
}

// The order of a long query counts beside no body, not even one that was first read as JSON.
func TestLongQueryBesideABrokenBody(t *testing.T) {
	t.Parallel()
	var pairs []string
	for i := range 200 {
		pairs = append(pairs, fmt.Sprintf("name%03d=%d", i, i))
	}
	of := func() string {
		r := jsonRequest(`{"b":1,"a":2`)
		r.RawQuery = strings.Join(pairs, "&")
		return fingerprint.Of(r, nil)
	}
	sorted := of()
	slices.Reverse(pairs)
	testkit.Equal(t, of(), sorted, "a query in another order is another request")
}
