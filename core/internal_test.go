package core

import (
	"net/http"
	"net/url"
	"reflect"
	"testing"
	"time"
)

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
	changes := headerChanges(nil, headerChanges(nil, nil, outer), handled)
	want := Header{
		{Set, "Content-Type", "application/json"},
		{Delete, "Date", ""},
		{Set, "Link", "<a>"},
		{Set, "Link", "<b>"},
		{Add, "Vary", "Accept"},
		{Add, "Vary", "Cookie"},
		{Delete, "X-Frame", ""},
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

// Case 26: a store is not trusted to have kept names and values whole.
func TestInvalidStoredHeadersAreDropped(t *testing.T) {
	t.Parallel()
	target := http.Header{}
	applyHeader(Header{
		{Set, "Good", "value\twith tab"},
		{Set, "", "empty name"},
		{Set, "Bad Name", "x"},
		{Set, "Bad:Name", "x"},
		{Set, "Split", "a\r\nSet-Cookie: b"},
		{Set, "Nul", "\x00"},
		{Set, http.TrailerPrefix + "Sum", "1"},
		{Set, http.TrailerPrefix, "1"},
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
