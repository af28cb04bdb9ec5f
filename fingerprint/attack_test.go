package fingerprint_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/fingerprint"

	"github.com/oncekey/oncekey/internal/testkit"
)

// reversed returns an object of 100,000 members, the last name first.
func reversed() []byte {
	var doc strings.Builder
	for i := 99_999; i >= 0; i-- {
		fmt.Fprintf(&doc, `,"%05d":1`, i)
	}
	return []byte("{" + doc.String()[1:] + "}")
}

// hill returns an object nested 500 deep whose members are out of order at each
// level, around a text of the given size.
func hill(size int) []byte {
	return []byte(strings.Repeat(`{"b":`, 500) + `"` + strings.Repeat("x", size) + `"` + strings.Repeat(`,"a":1}`, 500))
}

// Case 32. Not parallel, because it measures the allocations of the whole program.
func TestAttacksTakeFlatMemory(t *testing.T) { //nolint:paralleltest // others would allocate in between
	testkit.NeedsNoRaceDetector(t)
	duplicates := []byte("{" + strings.Repeat(`"nonce":1,`, 100_000) + `"a":1}`)
	pairs := []byte(strings.Repeat("b&a&", 250_000))
	for _, test := range []struct {
		name string
		body []byte
		run  func(body []byte)
	}{
		{"a megabyte of brackets", []byte(strings.Repeat("[", 1<<20)), func(body []byte) { ofJSON(body, nil) }},
		{"a megabyte of braces", []byte(strings.Repeat(`{"":`, 1<<18)), func(body []byte) { ofJSON(body, nil) }},
		{"100,000 members in reverse order", reversed(), func(body []byte) { ofJSON(body, nil) }},
		{"out of order at each level", hill(1 << 20), func(body []byte) { ofJSON(body, nil) }},
		{"a megabyte of quotation marks", []byte(`"` + strings.Repeat(`\"`, 1<<19) + `"`), func(body []byte) { ofJSON(body, nil) }},
		{"100,000 excluded duplicates", duplicates, func(body []byte) { ofJSON(body, exclude(t, "nonce")) }},
		{"100,000 excluded duplicates, stripped", duplicates, func(body []byte) {
			if stripped, err := fingerprint.Strip(body, []string{"nonce"}); err != nil || string(stripped) != `{"a":1}` {
				t.Errorf("Strip = %.40q, %v", stripped, err)
			}
		}},
		{"one excluded, after 150,000 strings", []byte(`["` + strings.Repeat(`\",","`, 150_000) + `",{"t":1}]`), func(body []byte) {
			if stripped, err := fingerprint.Strip(body, []string{"t"}); err != nil || !strings.HasSuffix(string(stripped), `",{}]`) {
				t.Errorf("Strip = %.40q, %v", stripped, err)
			}
		}},
		{"500,000 pairs", pairs, func(body []byte) {
			fingerprint.Of(fingerprint.Request{ContentType: "application/x-www-form-urlencoded", Body: body}, nil)
		}},
		{"a megabyte of parts", []byte(strings.Repeat("--b\r\n\r\n\r\n", 100_000)), func(body []byte) {
			fingerprint.Of(fingerprint.Request{ContentType: "multipart/form-data; boundary=b", Body: body}, nil)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			test.run(test.body)
			runtime.ReadMemStats(&after)
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 64<<20 {
				t.Errorf("%d MB allocated for %d KB", allocated>>20, len(test.body)>>10)
			} else {
				t.Logf("%d KB allocated for %d KB", allocated>>10, len(test.body)>>10)
			}
		})
	}
}

// Case 32: a search sorts nothing. Else one call of a tool, whose arguments are searched for each place of a key, took ten
// seconds.
func TestSearchSortsNothing(t *testing.T) { //nolint:paralleltest // others would take its time
	testkit.NeedsNoRaceDetector(t)
	body := []byte("{" + strings.Repeat(`"b":0,"a":0,`, 1<<16) + `"id":"k"}`)
	member, err := fingerprint.ParseMember("id")
	testkit.Must(t, err)
	search, sort := time.Hour, time.Hour
	for range 5 { // a busy machine may delay some
		begin := time.Now()
		found, err := member.Find(body)
		search = min(search, time.Since(begin))
		if string(found) != `"k"` || err != nil {
			t.Fatalf("Find = %s, %v", found, err)
		}
		begin = time.Now()
		ofJSON(body, nil)
		sort = min(sort, time.Since(begin))
	}
	if search > sort/2 {
		t.Errorf("a search takes %s, and a fingerprint %s", search, sort)
	}
}

// Case 32: the attacks get correct fingerprints, too.
func TestReversedMembers(t *testing.T) {
	t.Parallel()
	testkit.NeedsNoRaceDetector(t)
	var sorted strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&sorted, `,"%05d":1`, i)
	}
	testkit.Equal(t, ofJSON(reversed(), nil), ofJSON([]byte("{"+sorted.String()[1:]+"}"), nil), "100,000 members in reverse order")
	var mixed, first, second strings.Builder
	for i := range 100 {
		fmt.Fprintf(&mixed, `,"b":%d,"a":%d`, i, i)
		fmt.Fprintf(&first, `,"a":%d`, i)
		fmt.Fprintf(&second, `,"b":%d`, i)
	}
	if ofJSON([]byte("{"+mixed.String()[1:]+"}"), nil) != ofJSON([]byte("{"+first.String()[1:]+second.String()+"}"), nil) {
		t.Error("many duplicates do not keep their order")
	}
	inOrder := strings.Repeat(`{"a":1,"b":`, 500) + `"xx"` + strings.Repeat("}", 500)
	testkit.Equal(t, ofJSON(hill(2), nil), ofJSON([]byte(inOrder), nil), "members out of order at each level")
}

// A large request does not change the fingerprints of later small requests.
func TestAfterALargeRequest(t *testing.T) {
	t.Parallel()
	testkit.NeedsNoRaceDetector(t)
	want := ofJSON([]byte(`{"b":1,"a":2}`), nil)
	for range 3 {
		ofJSON(reversed(), nil)
		testkit.Equal(t, ofJSON([]byte(`{"a":2,"b":1}`), nil), want, "the fingerprint")
	}
}
