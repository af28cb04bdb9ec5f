// Package scopecount counts the keys of a scope by the rules of storage.Limiter, for stores that
// compute in this process: they keep a Count for each scope, and change it in one step.
package scopecount

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

// Count is of one scope. All times are microseconds by the store's clock. The zero value is of a
// scope without keys. It is not safe for concurrent use.
type Count struct {
	windowEnd int64
	keys      int64
	places    []heldPlace
}

type heldPlace struct {
	token storage.Token
	end   int64
}

// Admit is that of storage.Limiter. It reports whether the count has changed.
func (c *Count) Admit(now int64, p storage.Place, ttl time.Duration, limit storage.ScopeLimit) (a storage.Admission, changed bool) {
	if c.Keep(now, p, ttl) {
		return a, true
	}
	if limit.InFlight > 0 && c.inFlight(now) >= limit.InFlight {
		return storage.Admission{Reached: storage.ReachedInFlight}, false
	}
	if limit.NewKeys > 0 {
		window := microseconds(limit.Window)
		left := c.windowEnd - now
		switch {
		case left <= 0, left > window: // over, or the store's clock was set back
			c.windowEnd, c.keys = now+window, 0
		case c.keys >= int64(limit.NewKeys):
			return storage.Admission{Reached: storage.ReachedNewKeys, Wait: time.Duration(left) * time.Microsecond}, false
		}
		c.keys++
	}
	if limit.InFlight > 0 {
		c.places = append(c.places, heldPlace{p.Token, now + microseconds(ttl)})
	}
	return a, true
}

// Keep is that of storage.Limiter. It reports whether the scope has the place.
func (c *Count) Keep(now int64, place storage.Place, ttl time.Duration) (changed bool) {
	at := slices.IndexFunc(c.places, func(p heldPlace) bool { return p.token == place.Token })
	switch {
	case at < 0:
		return false
	case ttl <= 0:
		c.places = slices.Delete(c.places, at, at+1)
	default:
		c.places[at].end = now + microseconds(ttl)
	}
	return true
}

// inFlight drops the places that have ended, and returns the number of the others.
func (c *Count) inFlight(now int64) int {
	c.places = slices.DeleteFunc(c.places, func(p heldPlace) bool { return p.end <= now })
	return len(c.places)
}

// End is when the count says no more than the zero value.
func (c *Count) End() int64 {
	end := c.windowEnd
	for _, p := range c.places {
		end = max(end, p.end)
	}
	return end
}

// Bytes returns the count as bytes, for Parse.
func (c *Count) Bytes() []byte {
	text := binary.AppendVarint(binary.AppendVarint(nil, c.windowEnd), c.keys)
	for _, p := range c.places {
		text = binary.AppendVarint(append(text, p.token[:]...), p.end)
	}
	return text
}

// Parse is the inverse of Bytes. No bytes are the zero value. The error wraps
// storage.ErrCorruptRecord.
func Parse(text []byte) (c Count, err error) {
	if len(text) == 0 {
		return c, nil
	}
	rest, whole := text, true
	number := func() int64 {
		value, size := binary.Varint(rest)
		if whole = whole && size > 0; whole {
			rest = rest[size:]
		}
		return value
	}
	c.windowEnd, c.keys = number(), number()
	for whole && len(rest) >= len(storage.Token{}) {
		var p heldPlace
		rest = rest[copy(p.token[:], rest):]
		p.end = number()
		c.places = append(c.places, p)
	}
	if !whole || len(rest) > 0 {
		return Count{}, records.Corrupt("the count of its scope has %d bytes that cannot be read", len(text))
	}
	return c, nil
}

// microseconds rounds up, so that a place lasts for at least d.
func microseconds(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }
