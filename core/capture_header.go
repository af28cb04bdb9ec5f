package core

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/oncekey/oncekey/core/storage"
)

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

// settleHeader makes the header what outer middleware had set, and these changes of
// it: what the handler changed later, or must not change, is taken back.
func (c *capture) settleHeader(changes storage.Header) {
	var room [4]storage.Field
	if slices.Equal(headerChanges(room[:0], c.outer, c.header), changes) {
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
