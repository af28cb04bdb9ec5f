package core

import (
	"net/http"
	"slices"
	"strings"

	"github.com/oncekey/oncekey/policy"
)

// Header is the part of an answer's header that the handler itself made: what
// it changed in the header that outer middleware had left there. Applying it
// to another response writer repeats those changes. Order and number of the
// values of a name are kept.
type Header []Field

// Field is one value of one header name.
type Field struct {
	// Op says how the value meets what outer middleware has set.
	Op    FieldOp
	Name  string
	Value string
}

// FieldOp is how a Field is applied.
type FieldOp uint8

// The operations of a Field.
const (
	// Set replaces what outer middleware set under this name; a second Set of
	// the same name adds its value to the first.
	Set FieldOp = iota
	// Add leaves what outer middleware set, and adds the value.
	Add
	// Delete removes what outer middleware set, and keeps net/http from adding
	// a value of its own. Value is empty.
	Delete
)

// headerChanges returns what turns outer into handled, sorted by name so that
// a stored answer is the same bytes each time. They go into changes, if there is
// room. outer is what headerChanges made of a header before.
func headerChanges(changes, outer Header, handled http.Header) Header {
	for name, values := range handled {
		before, op := outer.of(name), Set
		if n := len(before); n > 0 && len(values) >= n && slices.EqualFunc(before, values[:n], Field.has) {
			values, op = values[n:], Add
		}
		if op == Set && len(values) == 0 {
			changes = append(changes, Field{Op: Delete, Name: name})
		}
		for _, value := range values {
			changes = append(changes, Field{Op: op, Name: name, Value: value})
		}
	}
	previous := ""
	for _, field := range outer {
		if _, kept := handled[field.Name]; !kept && field.Op != Delete && field.Name != previous {
			changes = append(changes, Field{Op: Delete, Name: field.Name})
		}
		previous = field.Name
	}
	slices.SortStableFunc(changes, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	return changes
}

// of returns the fields of a name that have a value.
func (h Header) of(name string) Header {
	first := slices.IndexFunc(h, func(f Field) bool { return f.Name == name && f.Op != Delete })
	if first < 0 {
		return nil
	}
	after := first + 1
	for after < len(h) && h[after].Name == name {
		after++
	}
	return h[first:after]
}

func (f Field) has(value string) bool { return f.Value == value }

// apply repeats the changes on target. Names and values that HTTP does not
// allow are dropped: a store is not trusted to have kept them whole. The values go
// into room, as far as there is some, and target keeps it.
func (h Header) apply(target http.Header, room []string) {
	if len(room) < len(h) {
		room = make([]string, len(h))
	}
	previous := ""
	for _, field := range h {
		if !field.isValid() {
			continue
		}
		switch {
		case field.Op == Delete:
			target[field.Name] = nil
		case field.Op == Add || field.Name == previous:
			target[field.Name] = append(target[field.Name], field.Value)
		default:
			target[field.Name], room = room[:1:1], room[1:]
			target[field.Name][0] = field.Value
		}
		previous = field.Name
	}
}

// isValid reports whether HTTP allows the field.
func (f Field) isValid() bool { return validFieldName(f.Name) && validFieldValue(f.Value) }

// validFieldName reports whether HTTP allows the name; "Trailer:Name" is
// net/http's own spelling of a trailer.
func validFieldName(name string) bool {
	return policy.IsToken(strings.TrimPrefix(name, http.TrailerPrefix))
}

// validFieldValue follows RFC 9110, section 5.5: no control characters but tab.
func validFieldValue(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
