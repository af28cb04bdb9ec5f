package core

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/oncekey/oncekey/core/internal/wire"
	"github.com/oncekey/oncekey/core/storage"
)

// Response is the response of a handler.
type Response struct {
	// Status is the HTTP status, from 100 to 999. Zero means 200. After another, retries get not_replayable.
	Status int
	// Header and Body must not be changed after Finish, because the engine keeps both.
	Header storage.Header
	Body   []byte
	// Unreplayable says that the response was sent in a way that cannot be repeated.
	// Only its status is kept.
	Unreplayable bool
}

// draft is a handler's response before it is sent. Its header is the one of outer
// middleware, which the handler changes in place.
type draft struct {
	header  http.Header    // outer middleware's header with the handler's changes
	outer   wire.Outer     // outer middleware's header when the handler began
	changes storage.Header // the handler's changes, frozen by WriteHeader
	trailer []string       // names that the handler announced as trailers
	status  int            // zero before WriteHeader
	length  int64          // the declared Content-Length; negative: not declared
	written int64          // body bytes that the handler wrote, or tried to write
	body    []byte         // body bytes that wait for the store

	smallChanges [3]storage.Field
}

func (d *draft) begin(header http.Header, buffer []byte) {
	d.header, d.body = header, buffer
	d.outer.Read(header)
}

// freeze records the handler's changes. Of later changes, only trailers are sent.
func (d *draft) freeze(own *responder) {
	for _, list := range d.header["Trailer"] {
		for name := range strings.SplitSeq(list, ",") {
			d.trailer = append(d.trailer, http.CanonicalHeaderKey(strings.TrimSpace(name)))
		}
	}
	d.length = -1
	if declared := d.header["Content-Length"]; len(declared) > 0 {
		if length, err := strconv.ParseInt(declared[0], 10, 64); err == nil {
			d.length = length
		}
	}
	d.changes = wire.HeaderChanges(d.smallChanges[:0], &d.outer, d.header)
	d.changes = slices.DeleteFunc(d.changes, func(f storage.Field) bool {
		return own.isOwn(f.Name) || d.isTrailer(f.Name) || !wire.IsValidField(f) // trailers come at the end
	})
}

// restart drops the body, and records the status and the header of recovering middleware.
// Unchanged fields that the handler had frozen belong to the handler's response, and are
// dropped. The exception is Content-Type, which both may have set to the same value.
func (d *draft) restart(status int, own *responder) {
	before := slices.Clone(d.changes)
	d.status, d.body, d.written, d.trailer = status, nil, 0, nil
	d.freeze(own)
	d.changes = slices.DeleteFunc(d.changes, func(f storage.Field) bool {
		return f.Name != "Content-Type" && slices.Contains(before, f)
	})
	if !slices.ContainsFunc(d.changes, func(f storage.Field) bool { return f.Name == "Content-Length" }) {
		d.length = -1
	}
}

// headerIsSettled reports whether the response header is outer middleware's plus
// changes, without trailers: nearly always. That saves a further pass for each.
func (d *draft) headerIsSettled() bool {
	return len(d.trailer) == 0 && wire.HasChanges(d.header, &d.outer, d.changes) && !d.outer.HasTrailers()
}

// settleHeader resets the response header to the outer middleware's values plus
// changes. Edits made after WriteHeader, and edits that the handler may not make, are
// dropped.
func (d *draft) settleHeader(changes storage.Header) {
	if !wire.HasChanges(d.header, &d.outer, changes) {
		wire.ResetHeader(d.header, &d.outer, changes)
	}
}

func (d *draft) isTrailer(name string) bool {
	return slices.Contains(d.trailer, name) || strings.HasPrefix(name, http.TrailerPrefix)
}

// trailers returns the trailers in net/http's spelling for unannounced trailers.
func (d *draft) trailers(own *responder) storage.Header {
	var trailers storage.Header
	for name, values := range d.header {
		if !d.isTrailer(name) || own.isOwn(name) {
			continue
		}
		for _, value := range values {
			name := http.TrailerPrefix + strings.TrimPrefix(name, http.TrailerPrefix)
			if field := (storage.Field{Name: name, Value: value}); wire.IsValidField(field) {
				trailers = append(trailers, field)
			}
		}
	}
	slices.SortStableFunc(trailers, func(a, b storage.Field) int { return strings.Compare(a.Name, b.Name) })
	return trailers
}

// isShort reports whether the handler wrote less than the declared Content-Length.
// net/http then cuts the connection, and would do so for each replay.
func (d *draft) isShort(r *http.Request) bool {
	return wire.EndsShort(r, d.status, d.length, int64(len(d.body)))
}

// replace makes another response of the draft, with the header alone.
func (d *draft) replace(status int, header http.Header, body []byte) {
	clear(d.header)
	d.status, d.length, d.trailer, d.body, d.changes = status, -1, nil, body, wire.HeaderOf(header)
}
