package wire

import (
	"net/http"
	"reflect"
	"testing"

	"github.com/oncekey/oncekey/core/storage"
)

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
	changes := HeaderChanges(nil, HeaderFields(nil, outer), handled)
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
	ApplyHeader(changes, next, nil)
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
	ApplyHeader(storage.Header{
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
