package wire

import (
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/oncekey/oncekey/core/storage"
)

// HeaderFields appends the fields of a header, in any order of the names. The values
// are copied, because a handler may change them in place.
func HeaderFields(fields storage.Header, h http.Header) storage.Header {
	if len(h) > cap(fields) {
		fields = make(storage.Header, 0, len(h)+1) // few names have several values
	}
	for name, values := range h {
		if len(values) == 0 {
			fields = append(fields, storage.Field{Op: storage.Delete, Name: name})
		}
		for _, value := range values {
			fields = append(fields, storage.Field{Name: name, Value: value})
		}
	}
	return fields
}

// HeaderChanges appends to changes the fields that turn outer into handled, sorted by
// name so that equal headers are stored as equal bytes. outer is a result of
// HeaderFields.
func HeaderChanges(changes, outer storage.Header, handled http.Header) storage.Header {
	kept := 0 // fields of outer under a name that handled has too
	next := 0 // in outer, behind the last fields found
	for name, values := range handled {
		before := fieldsOf(outer, name, &next)
		kept += len(before)
		if len(before) > 0 && before[0].Op == storage.Delete {
			before = nil
		}
		op := storage.Set
		if n := len(before); n > 0 && len(values) >= n && slices.EqualFunc(before, values[:n], hasValue) {
			values, op = values[n:], storage.Add
		}
		if op == storage.Set && len(values) == 0 {
			changes = append(changes, storage.Field{Op: storage.Delete, Name: name})
		}
		for _, value := range values {
			changes = append(changes, storage.Field{Op: op, Name: name, Value: value})
		}
	}
	if kept < len(outer) {
		changes = appendDeleted(changes, outer, handled)
	}
	if len(changes) > 1 {
		slices.SortStableFunc(changes, func(a, b storage.Field) int { return strings.Compare(a.Name, b.Name) })
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

// fieldsOf returns the fields of a name, and moves next behind them. The search begins at
// next, which is 0 or such a place. An iteration over a map that has not grown mostly has
// the same order, beginning anywhere. So most searches end at once: 4 % of a first-time
// request with twelve outer headers (BenchmarkCapture).
func fieldsOf(h storage.Header, name string, next *int) storage.Header {
	for i := range h {
		first := *next + i
		if first >= len(h) {
			first -= len(h)
		}
		if h[first].Name != name {
			continue
		}
		after := first + 1
		for after < len(h) && h[after].Name == name {
			after++
		}
		*next = after
		return h[first:after]
	}
	return nil
}

func hasValue(f storage.Field, value string) bool { return f.Value == value }

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
		case field.Op == storage.Delete:
			target[field.Name] = nil
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
	return IsFieldName(f.Name) && httpguts.ValidHeaderFieldValue(f.Value)
}

// IsFieldName reports whether HTTP allows the name. "Trailer:Name" is net/http's
// spelling of a trailer.
func IsFieldName(name string) bool {
	return httpguts.ValidHeaderFieldName(strings.TrimPrefix(name, http.TrailerPrefix))
}
