package core

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/oncekey/oncekey/core/storage"
)

// headerChanges returns what turns outer into handled, sorted by name so that
// a stored answer is the same bytes each time. They go into changes, if there is
// room. outer is what headerChanges made of a header before.
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

// fieldsOf returns the fields of a name that have a value.
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

// applyHeader repeats the changes on target. Names and values that HTTP does not
// allow are dropped: a store is not trusted to have kept them whole. The values go
// into room, as far as there is some, and target keeps it.
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

// validFieldName reports whether HTTP allows the name; "Trailer:Name" is
// net/http's own spelling of a trailer.
func validFieldName(name string) bool {
	return httpguts.ValidHeaderFieldName(strings.TrimPrefix(name, http.TrailerPrefix))
}

// freeze takes down what the handler has changed: changes that come later are
// not sent, but for trailers.
func (c *capture) freeze() {
	for _, list := range c.header["Trailer"] {
		for name := range strings.SplitSeq(list, ",") {
			c.trailer = append(c.trailer, http.CanonicalHeaderKey(strings.TrimSpace(name)))
		}
	}
	c.length = -1
	if declared := c.header["Content-Length"]; len(declared) > 0 {
		if length, err := strconv.ParseInt(declared[0], 10, 64); err == nil {
			c.length = length
		}
	}
	c.changes = headerChanges(c.smallChanges[:0], c.outer, c.header)
	c.changes = slices.DeleteFunc(c.changes, func(f storage.Field) bool {
		return c.isMarker(f.Name) || c.isTrailer(f.Name) || !isValidField(f) // trailers come at the end
	})
}

// freezeAgain takes down the header of a recovering middleware. Fields that the
// handler had frozen and that are as they were belong to the handler's response:
// they are dropped. The exception is Content-Type, which both may have set alike.
func (c *capture) freezeAgain() {
	before := slices.Clone(c.changes)
	c.trailer = nil
	c.freeze()
	c.changes = slices.DeleteFunc(c.changes, func(f storage.Field) bool {
		return f.Name != "Content-Type" && slices.Contains(before, f)
	})
	if !slices.ContainsFunc(c.changes, func(f storage.Field) bool { return f.Name == "Content-Length" }) {
		c.length = -1
	}
}

// settleHeader makes the header what outer middleware had set, and these changes of
// it: what the handler changed later, or must not change, is taken back.
func (c *capture) settleHeader(changes storage.Header) {
	var buffer [4]storage.Field
	if slices.Equal(headerChanges(buffer[:0], c.outer, c.header), changes) {
		return
	}
	clear(c.header)
	for _, f := range c.outer { // as it was, whatever that is
		if f.Op == storage.Delete {
			c.header[f.Name] = nil
			continue
		}
		c.header[f.Name] = append(c.header[f.Name], f.Value)
	}
	applyHeader(changes, c.header, nil)
}

// isMarker reports whether the name is the replay marker's, however it is
// spelled: a handler cannot forge it.
func (c *capture) isMarker(name string) bool {
	return strings.EqualFold(strings.TrimPrefix(name, http.TrailerPrefix), c.run.engine.replayHeader)
}

func (c *capture) isTrailer(name string) bool {
	return slices.Contains(c.trailer, name) || strings.HasPrefix(name, http.TrailerPrefix)
}

// trailers returns the trailers as net/http spells those that were not announced.
func (c *capture) trailers() storage.Header {
	var trailers storage.Header
	for name, values := range c.header {
		if !c.isTrailer(name) || c.isMarker(name) {
			continue
		}
		for _, value := range values {
			name := http.TrailerPrefix + strings.TrimPrefix(name, http.TrailerPrefix)
			trailers = append(trailers, storage.Field{Name: name, Value: value})
		}
	}
	slices.SortStableFunc(trailers, func(a, b storage.Field) int { return strings.Compare(a.Name, b.Name) })
	return trailers
}
