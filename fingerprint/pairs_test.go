package fingerprint_test

import (
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/fingerprint"

	"github.com/oncekey/oncekey/internal/testkit"
)

// asForms are the two places of a form.
var asForms = map[string]func(form string, x *fingerprint.Exclusion) string{
	"query": func(form string, x *fingerprint.Exclusion) string {
		return fingerprint.Of(fingerprint.Request{RawQuery: form}, x)
	},
	"body": func(form string, x *fingerprint.Exclusion) string { return fingerprint.Of(formRequest(form), x) },
}

// pairsOf returns a form of n pairs, the last name first or the first.
func pairsOf(n int, reversed bool) string {
	var form strings.Builder
	for i := range n {
		if reversed {
			i = n - 1 - i
		}
		fmt.Fprintf(&form, "&%05d=1", i)
	}
	return form.String()[1:]
}

// Case 89: forms are sorted up to the number of pairs that net/url reads, and count byte
// by byte above it, excluded fields too.
func TestPairsThatAreRead(t *testing.T) {
	t.Parallel()
	const most = 10_000
	for place, of := range asForms {
		for _, n := range []int{most - 1, most, most + 1} {
			form := pairsOf(n, false)
			_, err := url.ParseQuery(form)
			reads := n <= most
			if (err == nil) != reads {
				t.Fatalf("net/url reads %d pairs: %v", n, err)
			}
			testkit.Equal(t, of(form, nil) == of(pairsOf(n, true), nil), reads, "%s: %d pairs in another order are equal", place, n)
			x := exclude(t, "00000")
			if got := of(form, x) == of("00000=2"+strings.TrimPrefix(form, "00000=1"), x); got != reads {
				t.Errorf("%s: %d pairs with another excluded value are equal: %t, want %t", place, n, got, reads)
			}
			if of(form, x) == of(strings.TrimSuffix(form, "1")+"2", x) {
				t.Errorf("%s: %d pairs with another value are equal", place, n)
			}
			if !reads && of(form, nil) != of(form, x) {
				t.Errorf("%s: %d pairs lose the excluded one", place, n)
			}
		}
		// Empty pairs count for the limit, as in net/url.
		if of("a=1"+strings.Repeat("&", most-1), nil) != of("a=1", nil) || of("a=1"+strings.Repeat("&", most), nil) == of("a=1", nil) {
			t.Errorf("%s: empty pairs do not count for the limit", place)
		}
	}
}

// Case 89: the same with included fields: a form of too many pairs counts as a whole.
func TestIncludedAmongTooManyPairs(t *testing.T) {
	t.Parallel()
	only := including(t, "amount")
	many := "&" + pairsOf(10_000, false)
	of := func(form string) string { return fingerprint.Of(formRequest(form), only) }
	if of("amount=1"+many) == of("amount=1") || of("amount=1"+many) == of("amount=1"+many+"&x") || of("amount=1"+many) == of("amount=2"+many) {
		t.Error("a form of too many pairs does not count as a whole")
	}
}

// Case 89: a form above the limit is hashed where it is: its sketch is empty, and it takes
// no memory of its own.
func TestTooManyPairsTakeNoMemory(t *testing.T) { //nolint:paralleltest // others would allocate in between
	testkit.NeedsNoRaceDetector(t)
	for _, pair := range []string{"b&a&", "&", "a=1&", "%61&"} {
		r := formRequest(strings.Repeat(pair, 1<<20/len(pair)))
		runtime.GC() // the pool is empty
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		reading := fingerprint.Read(r, nil)
		sketch := reading.AppendSketch(nil, sketchKey)
		reading.Close()
		runtime.ReadMemStats(&after)
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 64<<10 || len(sketch) > 0 {
			t.Errorf("%q: %d KiB allocated for 1 MiB, and a sketch of %d bytes", pair, allocated>>10, len(sketch))
		}
	}
}
