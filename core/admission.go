package core

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/lazycontext"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/fingerprint"
)

// subject is the request or call that a run is about, and the policy that guards it.
type subject struct {
	event   event.Subject
	route   *Route
	request Request
	digest  [sha256.Size]byte // the storage key
}

// know takes down which request this is.
func (e *Engine) know(a *admission, r Request) {
	a.request = r
	a.event = event.About(r.Method, r.Path, r.Scope, r.Key, e.instance)
}

// admission is one request on its way to a decision.
type admission struct {
	subject
	started      time.Time
	storageKey   string
	reading      *fingerprint.Reading // until it is decided; nil when the caller of Begin has the fingerprint
	sketch       []byte               // of the request that this one differs from
	bytes        storage.Digest       // of the request as it arrived; zero when the caller of Begin has the fingerprint
	call         lazycontext.Context  // of the first call at the store
	called       bool
	waited       bool   // the key was in progress when the store was asked before
	served       bool   // the run is an HTTP handler's, behind a capture
	claimed      moment // when the store was asked: no lease of its began before
	storeLatency time.Duration
}

// read reads the request, and spells the two names by which the store knows it: its
// storage key and its fingerprint, in one string.
func (a *admission) read(request fingerprint.Request) {
	a.reading, a.bytes = fingerprint.Read(request, a.route.exclusion), fingerprint.Digest(request)
	var names [2*sha256.Size + fingerprint.Size]byte
	digits := hex.AppendEncode(names[:0], a.digest[:])
	both := string(a.reading.AppendFingerprint(digits))
	a.storageKey, a.request.Fingerprint = both[:len(digits)], both[len(digits):]
}

// repeats reports whether the request is the one that the record was made by.
func (a *admission) repeats(record *storage.Record) bool {
	claim := storage.Claim{Fingerprint: a.request.Fingerprint, Digest: a.bytes}
	return claim.Repeats(record.Fingerprint, record.Digest)
}

// forget lets go of the request's body: events outlive the request.
func (a *admission) forget() {
	if a.reading != nil {
		a.reading.Close()
		a.reading = nil
	}
}
