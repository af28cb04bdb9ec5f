package core

import (
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/oncekey/oncekey/core/storage"
)

// headerChanges appends to changes the fields that turn outer into handled, sorted by
// name so that equal headers are stored as equal bytes. outer is the result of an
// earlier headerChanges.
func headerChanges(changes, outer storage.Header, handled http.Header) storage.Header {
	for name, values := range handled {
		before, op := fieldsOf(outer, name), storage.Set
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
	previous := ""
	for _, field := range outer {
		if _, kept := handled[field.Name]; !kept && field.Op != storage.Delete && field.Name != previous {
			changes = append(changes, storage.Field{Op: storage.Delete, Name: field.Name})
		}
		previous = field.Name
	}
	slices.SortStableFunc(changes, func(a, b storage.Field) int { return strings.Compare(a.Name, b.Name) })
	return changes
}

// fieldsOf returns the fields of a name, without Delete fields.
func fieldsOf(h storage.Header, name string) storage.Header {
	first := slices.IndexFunc(h, func(f storage.Field) bool { return f.Name == name && f.Op != storage.Delete })
	if first < 0 {
		return nil
	}
	after := first + 1
	for after < len(h) && h[after].Name == name {
		after++
	}
	return h[first:after]
}

func hasValue(f storage.Field, value string) bool { return f.Value == value }

// applyHeader applies the changes to target. Names and values that HTTP does not allow
// are dropped, because a store may have damaged a record. The values are written to
// spare if long enough, and target then keeps a reference to spare.
func applyHeader(h storage.Header, target http.Header, spare []string) {
	if len(spare) < len(h) {
		spare = make([]string, len(h))
	}
	previous := ""
	for _, field := range h {
		if !isValidField(field) {
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

// isValidField reports whether HTTP allows the field.
func isValidField(f storage.Field) bool {
	return validFieldName(f.Name) && httpguts.ValidHeaderFieldValue(f.Value)
}

// validFieldName reports whether HTTP allows the name. "Trailer:Name" is net/http's
// spelling of a trailer.
func validFieldName(name string) bool {
	return httpguts.ValidHeaderFieldName(strings.TrimPrefix(name, http.TrailerPrefix))
}
