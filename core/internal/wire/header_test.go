package wire

import (
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

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
	var before Outer
	before.Read(outer)
	changes := HeaderChanges(nil, &before, handled)
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
		"Link": {"<a>", "<b>"}, "Date": nil,
	}) {
		t.Errorf("applied: %v", got)
	}
}

// The comparison in place agrees with a comparison of all changes.
func TestHasChanges(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	edit := func(h http.Header) http.Header {
		h = h.Clone()
		for range random.IntN(4) {
			name := string(rune('A' + random.IntN(5)))
			switch value := string(rune('a' + random.IntN(3))); random.IntN(5) {
			case 0:
				h[name] = nil
			case 1:
				delete(h, name)
			case 2:
				h[name] = []string{value}
			default:
				h[name] = append(h[name], value)
			}
		}
		return h
	}
	settled := 0
	for range 50_000 {
		before := edit(edit(http.Header{}))
		handled := edit(before)
		var outer Outer
		outer.Read(before)
		changes := HeaderChanges(nil, &outer, handled)
		if len(changes) > 0 && random.IntN(4) == 0 { // the handler may not make each change
			changes = slices.Delete(changes, 0, 1)
		}
		for _, header := range []http.Header{handled, edit(handled), edit(before)} {
			got, want := HasChanges(header, &outer, changes), slices.Equal(HeaderChanges(nil, &outer, header), changes)
			if got != want {
				t.Fatalf("outer %v, changes %v, header %v: got %v", before, changes, header, got)
			}
			if got {
				settled++
			}
		}
		outer.Free()
	}
	if settled < 50_000 {
		t.Errorf("only %d headers are settled", settled)
	}
}

// A pooled buffer keeps no fields, and a long header has its own.
func TestOuterFree(t *testing.T) { //nolint:paralleltest // others would use the buffers
	for _, names := range []int{0, 1, len(fieldBuffer{}) - 1, len(fieldBuffer{}), 40} {
		header := make(http.Header)
		for i := range names {
			header[strconv.Itoa(i)] = []string{"a", "b"}
		}
		var outer Outer
		outer.Read(header)
		if changes := HeaderChanges(nil, &outer, http.Header{}); len(outer.fields) != 2*names || len(changes) != names {
			t.Errorf("%d names: %d fields and %d changes", names, len(outer.fields), len(changes))
		}
		buffer := outer.buffer
		if outer.Free(); outer.fields != nil || outer.buffer != nil || buffer != nil && *buffer != (fieldBuffer{}) {
			t.Errorf("%d names: freed to %v with %v", names, outer, buffer)
		}
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

// A proxied service may respond with any number of names: each is found at once.
func TestManyNames(t *testing.T) {
	t.Parallel()
	h := make(http.Header)
	for i := range 50_000 {
		h["X-"+strconv.Itoa(i)] = []string{"1"}
	}
	begin := time.Now()
	changes := HeaderChanges(nil, new(Outer), h)
	sorted := time.Since(begin)
	begin = time.Now()
	if !HasChanges(h, new(Outer), changes) {
		t.Error("the header has other changes")
	}
	if compared := time.Since(begin); compared > 20*sorted {
		t.Errorf("a comparison takes %s, and the list of changes %s", compared, sorted)
	}
}
