// Package outgoing is shared by the adapters of clients: the keys of calls, and the
// waits between attempts.
package outgoing

import (
	"context"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/internal/guarded"
)

type callName struct{}

// WithCall names a call within a guarded request.
func WithCall(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, callName{}, name)
}

// FirstSentHeader is the header of OASIS Repeatable Requests Version 1.0 that has the time
// of a call whose key has none.
const FirstSentHeader = "Repeatability-First-Sent"

// NewKey derives a key from the outer request's key, if any. The outer handler may run
// again, and must then repeat its calls with the same keys. Otherwise the key is a UUID of
// version 7. A derived key is a UUID of version 8, which has no time: firstSent is that of
// the outer request's key, for FirstSentHeader, or "" if that has none either.
func NewKey(ctx context.Context, operation string) (key, firstSent string) {
	name, _ := guarded.Value(ctx, callName{}).(string)
	derived := core.DeriveKey(ctx, operation+"\n"+name)
	if derived == "" {
		return newUUID(), ""
	}
	if made, has := core.KeyTime(core.KeyFrom(ctx)); has {
		firstSent = made.UTC().Format(http.TimeFormat)
	}
	return uuidOf(derived), firstSent
}

// uuidOf returns a UUID of version 8 (RFC 9562, section 5.8) with the first bits of a derived
// key. Why not the key itself: many services demand a UUID, or refuse a key so long.
func uuidOf(derived string) string {
	var id uuid.UUID
	_, _ = hex.Decode(id[:], []byte(derived[:2*len(id)])) // 64 hex digits
	id[6] = id[6]&0x0f | 8<<4
	id[8] = id[8]&0x3f | 0x80 // the variant
	return id.String()
}

// newUUID returns a UUID of version 7 (RFC 9562, section 5.7). Why not uuid.NewV7: its times
// never go back, so after a correction of the clock all keys would be from the future.
func newUUID() string {
	id, now := uuid.New(), time.Now().UnixMilli() // random bits, and the variant
	for i := range 6 {
		id[i] = byte(now >> (40 - 8*i))
	}
	id[6] = id[6]&0x0f | 7<<4
	return id.String()
}

// pause returns the wait before attempt n+2:
// min(max(base*2^n, asked) + jitter, most) with a jitter up to base*2^n.
func pause(base, most time.Duration, n int, asked time.Duration) time.Duration {
	grown := doubled(base, most, n)
	jitter := rand.N(min(grown, math.MaxInt64-1) + 1) //nolint:gosec // jitter is not secret
	least := min(max(grown, asked), most)
	return least + min(jitter, most-least)
}

// doubled returns the smaller of base*2^n and most. It cannot overflow.
func doubled(base, most time.Duration, n int) time.Duration {
	if base > most>>n {
		return most
	}
	return base << n
}
