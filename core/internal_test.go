package core

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/oncekey/oncekey/core/storage"
)

// The state of a run is the largest allocation of a first-time request. Above this size,
// the runtime takes 256 bytes more for it.
func TestExecutionFits(t *testing.T) {
	t.Parallel()
	const class, header = 2048, 8
	if size := unsafe.Sizeof(execution{}); size > class-header {
		t.Errorf("an execution has %d bytes, want at most %d", size, class-header)
	}
}

func TestCanonicalPath(t *testing.T) {
	t.Parallel()
	same := [][]string{
		{"/members/A", "/members/%41"},
		{"/caf%C3%A9", "/café", "/caf%c3%a9"},
		{"/a%2Fb", "/a%2fb"},
		{"/100%25", "/%3100%25"},
	}
	var all []string
	for _, spellings := range same {
		first := pathOf(t, spellings[0])
		for _, spelling := range spellings {
			if got := pathOf(t, spelling); got != first {
				t.Errorf("%s is %s, but %s is %s", spelling, got, spellings[0], first)
			}
		}
		all = append(all, first)
	}
	all = append(all, pathOf(t, "/a/b"), pathOf(t, "/a%252Fb"), pathOf(t, "/"), pathOf(t, "/a//b"))
	seen := map[string]bool{}
	for _, path := range all {
		if seen[path] {
			t.Errorf("two resources are both %s", path)
		}
		seen[path] = true
	}
}

// Case 89: a path costs a few allocations, whatever its segments are.
func TestLongPathIsCheap(t *testing.T) { //nolint:paralleltest // others would allocate in between
	for _, segment := range []string{"/", "/a", "/%2F", "/%25"} {
		u, err := url.ParseRequestURI(strings.Repeat(segment, 10_000) + "%2F")
		if err != nil {
			t.Fatal(err)
		}
		most := 10.0
		if strings.Contains(segment, "%") {
			most += 2 * 10_000 // each such segment is unescaped, and escaped again
		}
		if got := testing.AllocsPerRun(10, func() { canonicalPath(u) }); got > most {
			t.Errorf("10,000 segments %s take %v allocations, want at most %v", segment, got, most)
		}
	}
}

func pathOf(t *testing.T, spelling string) string {
	t.Helper()
	u, err := url.ParseRequestURI(spelling)
	if err != nil {
		t.Fatal(err)
	}
	return canonicalPath(u)
}

func TestHeaderChanges(t *testing.T) {
	t.Parallel()
	outer := http.Header{"Vary": {"Origin"}, "X-Frame": {"DENY"}, "Content-Type": {"text/plain"}, "Cache": {"no-store"}}
	handled := http.Header{
		"Vary":         {"Origin", "Accept", "Cookie"},
		"Content-Type": {"application/json"},
		"Cache":        {"no-store"},
		"Link":         {"<a>", "<b>"},
		"Date":         nil,
	}
	changes := headerChanges(nil, headerFields(nil, outer), handled)
	want := storage.Header{
		{Op: storage.Set, Name: "Content-Type", Value: "application/json"},
		{Op: storage.Delete, Name: "Date", Value: ""},
		{Op: storage.Set, Name: "Link", Value: "<a>"},
		{Op: storage.Set, Name: "Link", Value: "<b>"},
		{Op: storage.Add, Name: "Vary", Value: "Accept"},
		{Op: storage.Add, Name: "Vary", Value: "Cookie"},
		{Op: storage.Delete, Name: "X-Frame", Value: ""},
	}
	if !reflect.DeepEqual(changes, want) {
		t.Errorf("got  %v\nwant %v", changes, want)
	}
	next := http.Header{"Vary": {"Origin"}, "X-Frame": {"DENY"}, "X-Request-Id": {"2"}}
	applyHeader(changes, next, nil)
	if got := next; !reflect.DeepEqual(got, http.Header{
		"Vary": {"Origin", "Accept", "Cookie"}, "X-Request-Id": {"2"}, "Content-Type": {"application/json"},
		"Link": {"<a>", "<b>"}, "X-Frame": nil, "Date": nil,
	}) {
		t.Errorf("applied: %v", got)
	}
}

// Case 26: a store may have damaged names and values.
func TestInvalidStoredHeadersAreDropped(t *testing.T) {
	t.Parallel()
	target := http.Header{}
	applyHeader(storage.Header{
		{Op: storage.Set, Name: "Good", Value: "value\twith tab"},
		{Op: storage.Set, Name: "", Value: "empty name"},
		{Op: storage.Set, Name: "Bad Name", Value: "x"},
		{Op: storage.Set, Name: "Bad:Name", Value: "x"},
		{Op: storage.Set, Name: "Split", Value: "a\r\nSet-Cookie: b"},
		{Op: storage.Set, Name: "Nul", Value: "\x00"},
		{Op: storage.Set, Name: http.TrailerPrefix + "Sum", Value: "1"},
		{Op: storage.Set, Name: http.TrailerPrefix, Value: "1"},
	}, target, nil)
	if want := (http.Header{"Good": {"value\twith tab"}, http.TrailerPrefix + "Sum": {"1"}}); !reflect.DeepEqual(target, want) {
		t.Errorf("got %v", target)
	}
}

func TestBackoffIsBounded(t *testing.T) {
	t.Parallel()
	for try := range 100 {
		if d := backoff(try, time.Millisecond, time.Second); d < time.Millisecond/2 || d > time.Second {
			t.Errorf("try %d waits %v", try, d)
		}
	}
}

// A search begins anywhere, and finds all fields of a name.
func TestFieldsOf(t *testing.T) {
	t.Parallel()
	fields := storage.Header{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}, {Name: "B", Value: "3"}, {Name: "C", Value: "4"}}
	for _, row := range []struct {
		name     string
		from, to int
	}{{"A", 0, 1}, {"B", 1, 3}, {"C", 3, 4}} {
		for _, next := range []int{0, 1, 3, 4} {
			if got := fieldsOf(fields, row.name, &next); !reflect.DeepEqual(got, fields[row.from:row.to]) || next != row.to {
				t.Errorf("%s: got %v and place %d", row.name, got, next)
			}
		}
	}
	if next := 3; fieldsOf(fields, "D", &next) != nil || next != 3 || fieldsOf(nil, "A", new(int)) != nil {
		t.Errorf("an unknown name is found, or moves the place to %d", next)
	}
}
