package core

import "github.com/oncekey/oncekey/core/internal/frame"

// The commonest mismatch is an honest retry with a new timestamp. To say which
// member it was, a finished record keeps a sketch of its request: short hashes,
// keyed by what the store does not know, the idempotency key itself.

// differences names what differs from the request that has the key: the rival's
// in this process, or the one that the record was made by. Of a request that is
// in flight elsewhere nothing is known.
func (a *admission) differences(rival *Run) (names []string, others, missing int) {
	if a.sketch == nil && rival != nil {
		a.sketch = rival.sketch
	}
	if a.reading == nil { // who calls Begin has the fingerprint alone
		return nil, 0, 0
	}
	return a.reading.Differences(a.sketch, a.sketchKey())
}

// sketchKey is secret from whoever can read the store, as far as the idempotency
// key cannot be guessed: the storage key is another hash of that, and makes this one
// another for every scope and route.
func (s *subject) sketchKey() (key [16]byte) {
	sum := frame.Sum("sketch", string(s.digest[:]), s.request.Key)
	copy(key[:], sum[:])
	return key
}
