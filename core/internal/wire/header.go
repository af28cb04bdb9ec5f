package wire

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"

	"github.com/oncekey/oncekey/core/storage"
)

// Outer is the header of outer middleware as it was when a handler began. The values are
// copied, because a handler may change them in place. The zero value is an empty header.
type Outer struct {
	fields storage.Header // in any order of the names
	buffer *fieldBuffer   // of the fields, or nil
}

// fieldBuffer is a pooled buffer for the fields of a usual service.
type fieldBuffer [24]storage.Field

var fieldBuffers = sync.Pool{New: func() any { return new(fieldBuffer) }}

// Read reads a header. The owner of o calls Free when the fields are not used any more.
func (o *Outer) Read(h http.Header) {
	if len(h) == 0 {
		return
	}
	var fields storage.Header
	if len(h) < len(o.buffer) { // few names have several values
		o.buffer = fieldBuffers.Get().(*fieldBuffer)
		fields = o.buffer[:0]
	} else {
		fields = make(storage.Header, 0, len(h)+1)
	}
	for name, values := range h {
		if len(values) == 0 {
			fields = append(fields, storage.Field{Op: storage.Delete, Name: name})
		}
		for _, value := range values {
			fields = append(fields, storage.Field{Name: name, Value: value})
		}
	}
	o.fields = fields
}

// Free makes the header empty.
func (o *Outer) Free() {
	if o.buffer != nil {
		clear(o.buffer[:min(len(o.fields), len(o.buffer))]) // the pool keeps no values of a request
		fieldBuffers.Put(o.buffer)
	}
	*o = Outer{}
}

// HasTrailers reports whether the header has trailers in net/http's spelling.
func (o *Outer) HasTrailers() bool {
	return slices.ContainsFunc(o.fields, func(f storage.Field) bool { return strings.HasPrefix(f.Name, http.TrailerPrefix) })
}

// HeaderChanges appends to changes the fields that turn the outer header into handled, sorted by
// name so that equal headers are stored as equal bytes.
func HeaderChanges(changes storage.Header, o *Outer, handled http.Header) storage.Header {
	kept := compare(o, handled, func(outer storage.Header, name string, values []string) bool {
		changes = appendChanges(changes, outer, name, values)
		return true
	})
	if kept < len(o.fields) {
		changes = appendDeleted(changes, o.fields, handled)
	}
	if len(changes) > 1 {
		slices.SortStableFunc(changes, func(a, b storage.Field) int { return strings.Compare(a.Name, b.Name) })
	}
	return changes
}

// HasChanges reports whether the header h is the outer header with these changes, a result
// of HeaderChanges without some fields. Usual changes are compared in place: that makes no
// list of them.
func HasChanges(h http.Header, o *Outer, changes storage.Header) bool {
	made := 0
	kept := compare(o, h, func(outer storage.Header, name string, values []string) bool {
		change := changesOf(changes, name)
		made += len(change)
		return isMade(change, outer, values)
	})
	return kept == len(o.fields) && made == len(changes) || hasAny(h, o, changes)
}

// compare calls changed for each name of h that has not the values of the outer header, as
// long as changed returns true. It returns the number of the outer fields under a name that
// h has, or -1.
func compare(o *Outer, h http.Header, changed func(outer storage.Header, name string, values []string) bool) (kept int) {
	next := 0 // in fields, behind the last fields found
	for name, values := range h {
		if next == len(o.fields) {
			next = 0
		}
		if next < len(o.fields) && len(values) == 1 { // nearly always the next field
			f := &o.fields[next]
			if f.Name == name && f.Value == values[0] && f.Op == storage.Set && (next+1 == len(o.fields) || o.fields[next+1].Name != name) {
				next++
				kept++
				continue
			}
		}
		outer := fieldsOf(o.fields, name, &next)
		kept += len(outer)
		if !hasValues(outer, storage.Set, values) && !changed(outer, name, values) {
			return -1
		}
	}
	return kept
}

// hasAny is HasChanges for any changes.
func hasAny(h http.Header, o *Outer, changes storage.Header) bool {
	var buffer [4]storage.Field
	return slices.Equal(HeaderChanges(buffer[:0], o, h), changes)
}

// ResetHeader makes h the outer header with these changes.
func ResetHeader(h http.Header, o *Outer, changes storage.Header) {
	clear(h)
	for _, f := range o.fields {
		if f.Op == storage.Delete {
			h[f.Name] = nil
			continue
		}
		h[f.Name] = append(h[f.Name], f.Value)
	}
	ApplyHeader(changes, h, nil)
}

// HeaderOf returns the fields of a header that HTTP allows, sorted by name. A length may be another body's.
func HeaderOf(h http.Header) storage.Header {
	return ValidFields(Without(HeaderChanges(nil, new(Outer), h), func(f storage.Field) bool { return f.Name == "Content-Length" }))
}

// appendChanges appends the fields that turn the outer fields of a name into values.
func appendChanges(changes, outer storage.Header, name string, values []string) storage.Header {
	if len(outer) > 0 && outer[0].Op == storage.Delete {
		outer = nil
	}
	op := storage.Set
	if n := len(outer); n > 0 && len(values) >= n && hasValues(outer, storage.Set, values[:n]) {
		values, op = values[n:], storage.Add
	}
	if op == storage.Set && len(values) == 0 {
		changes = append(changes, storage.Field{Op: storage.Delete, Name: name})
	}
	for _, value := range values {
		changes = append(changes, storage.Field{Op: op, Name: name, Value: value})
	}
	return changes
}

// appendDeleted appends a Delete for each name of outer that handled lacks.
func appendDeleted(changes, outer storage.Header, handled http.Header) storage.Header {
	previous := ""
	for _, field := range outer {
		if _, kept := handled[field.Name]; !kept && field.Op != storage.Delete && field.Name != previous {
			changes = append(changes, storage.Field{Op: storage.Delete, Name: field.Name})
		}
		previous = field.Name
	}
	return changes
}

// changesOf returns the fields of a name. Changes are sorted by name, and can have any number of them.
func changesOf(changes storage.Header, name string) storage.Header {
	first, _ := slices.BinarySearchFunc(changes, name, func(f storage.Field, name string) int { return strings.Compare(f.Name, name) })
	after := first
	for after < len(changes) && changes[after].Name == name {
		after++
	}
	return changes[first:after]
}

// fieldsOf returns the fields of a name, and moves next behind them. The search begins at
// next, which is 0 or such a place. An iteration over a map that has not grown mostly has
// the same order, beginning anywhere. So most searches end at once: 4 % of a first-time
// request with twelve outer headers (BenchmarkCapture).
func fieldsOf(h storage.Header, name string, next *int) storage.Header {
	first := *next
	if first >= len(h) || h[first].Name != name {
		if first = search(h, name, first); first < 0 {
			return nil
		}
	}
	after := first + 1
	for after < len(h) && h[after].Name == name {
		after++
	}
	*next = after
	return h[first:after]
}

// search returns the place of a name's first field, or -1. It begins at next, behind another name.
func search(h storage.Header, name string, next int) int {
	for i := range h {
		if at := (next + i) % len(h); h[at].Name == name {
			return at
		}
	}
	return -1
}

// hasValues reports whether the fields of a name have this operation and these values, of
// which there is one at least.
func hasValues(fields storage.Header, op storage.FieldOp, values []string) bool {
	if len(fields) != len(values) || len(fields) == 0 {
		return false
	}
	for i := range fields {
		if fields[i].Op != op || fields[i].Value != values[i] {
			return false
		}
	}
	return true
}

// isMade reports whether the change of a name turns the outer fields into values. It may
// overlook a deletion.
func isMade(change, outer storage.Header, values []string) bool {
	if n := len(outer); len(values) > n && hasValues(outer, storage.Set, values[:n]) {
		return hasValues(change, storage.Add, values[n:])
	}
	return hasValues(change, storage.Set, values)
}

// ApplyHeader applies the changes to target. Names and values that HTTP does not allow
// are dropped, because a store may have damaged a record. The values are written to
// spare if long enough, and target then keeps a reference to spare.
func ApplyHeader(h storage.Header, target http.Header, spare []string) {
	if len(spare) < len(h) {
		spare = make([]string, len(h))
	}
	previous := ""
	for _, field := range h {
		if !IsValidField(field) {
			continue
		}
		switch {
		case field.Op == storage.Delete && len(target[field.Name]) > 0:
			delete(target, field.Name) // net/http may add its own Date or Content-Type
		case field.Op == storage.Delete:
			target[field.Name] = nil // and here it must not
		case field.Op == storage.Add || field.Name == previous:
			target[field.Name] = append(target[field.Name], field.Value)
		default:
			target[field.Name], spare = spare[:1:1], spare[1:]
			target[field.Name][0] = field.Value
		}
		previous = field.Name
	}
}

// IsValidField reports whether HTTP allows the field.
func IsValidField(f storage.Field) bool {
	return isFieldName(f.Name) && httpguts.ValidHeaderFieldValue(f.Value)
}

// ValidFields returns the fields of h that HTTP allows.
func ValidFields(h storage.Header) storage.Header {
	return Without(h, func(f storage.Field) bool { return !IsValidField(f) })
}

// Without returns the fields of h that are not dropped: h itself, or a copy.
func Without(h storage.Header, dropped func(storage.Field) bool) storage.Header {
	if !slices.ContainsFunc(h, dropped) {
		return h
	}
	return slices.DeleteFunc(slices.Clone(h), dropped)
}

// isFieldName reports whether HTTP allows the name. "Trailer:Name" is net/http's
// spelling of a trailer.
func isFieldName(name string) bool {
	return httpguts.ValidHeaderFieldName(strings.TrimPrefix(name, http.TrailerPrefix))
}
