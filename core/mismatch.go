package core

import "github.com/oncekey/oncekey/fingerprint"

// The commonest mismatch is an honest retry with a new timestamp. To say which
// member it was, a finished record keeps a sketch of its request: short hashes,
// keyed by what the store does not know, the idempotency key itself.

// sketch is kept with the run's answer.
func (r *Run) sketch() []byte {
	r.mu.Lock()
	hashed := r.hashed
	r.mu.Unlock()
	reading := fingerprint.Read(hashed, r.subject.route.exclusion)
	defer reading.Close()
	return reading.AppendSketch(nil, r.subject.request.sketchKey())
}

// forgetRequest lets go of the request's body, which an answer that waits for the
// store would hold.
func (r *Run) forgetRequest() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hashed = fingerprint.Request{}
}

// differences names what differs from the request that has the key: the rival's
// in this process, or the one that the record was made by. Of a request that is
// in flight elsewhere nothing is known.
func (a *admission) differences(rival *Run) (names []string, missing int) {
	if a.sketch == nil && rival != nil {
		a.sketch = rival.sketch()
	}
	if len(a.sketch) == 0 {
		return nil, 0
	}
	return fingerprint.Differences(a.sketch, a.hashed, a.route.exclusion, a.request.sketchKey())
}

// sketchKey is secret from whoever can read the store, as far as the
// idempotency key cannot be guessed: the storage key is another hash of it.
func (r *Request) sketchKey() (key [16]byte) {
	sum := framedSum("sketch", r.Scope, r.Method, r.Path, r.Key)
	copy(key[:], sum[:])
	return key
}
