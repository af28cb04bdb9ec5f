package core

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/frame"
	"github.com/oncekey/oncekey/core/internal/ledger"
	"github.com/oncekey/oncekey/core/internal/panicked"
	"github.com/oncekey/oncekey/core/internal/wire"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/fingerprint"
)

// attempt is one request before the engine has decided about it. No other goroutine and
// no later code keeps an attempt, so it stays on the stack: a replay allocates a quarter
// less, and a first-time request 7 % less (TestAllocations).
type attempt struct {
	*identity
	*claimant                 // from the reading of the request until the decision
	body      []byte          // of a policy with a KeyField, which is read early
	sketch    []byte          // of the first request with the key, if this request differs
	failure   error           // of the store or the Scope, for the event of the decision
	found     *storage.Record // the last record that decided
	waited    bool            // the key was in progress in an earlier round
	waits     bool            // the request is counted in shared.waiters
	claim     ledger.Claim    // in place: passed on by value it would grow the stack beyond 8 KiB
	// alloc makes the run, and a buffer for its sketch.
	alloc func() (*Run, []byte)
}

// newAttempt begins the attempt of a request.
func newAttempt(s *shared, route *Route) *attempt {
	return &attempt{identity: &identity{shared: s, route: route, started: time.Since(s.began)}, alloc: newLoneRun}
}

// read begins the claim of a request. The request's body must not change before the
// decision.
func (a *attempt) read(input fingerprint.Request) {
	a.claimant = newClaimant(a.identity)
	a.input, a.bytes, a.wasRead = input, fingerprint.Digest(input), true
}

// forget drops the request's body, because events outlive the request.
func (a *attempt) forget() {
	if a.claimant != nil {
		a.claimant.end()
		a.claimant, a.body = nil, nil
	}
}

// readRequest begins the claim of a request with this body.
func (a *attempt) readRequest(r *http.Request, body []byte) {
	input := fingerprint.Request{Method: r.Method, Path: a.request.Path, RawQuery: r.URL.RawQuery, Body: body}
	if values := r.Header["Content-Type"]; len(values) > 0 { // Get would spell the name anew: 2 % of a replay
		input.ContentType = values[0]
	}
	if len(a.route.headers) > 0 {
		input.Headers = a.route.includedHeaders(r.Header)
	}
	a.read(input)
}

// identify sets the request's key, scope and storage key, or returns a problem. Where
// the policy requires no key, a.request.Key may stay empty.
func (a *attempt) identify(r *http.Request) *problem.Problem {
	a.request.Method, a.request.Path, a.request.Pattern = r.Method, wire.RequestPath(r), r.Pattern
	key, body, refusal := wire.ReadKey(r, a.shared.keyHeaders, &a.route.policy, a.route.keyField)
	a.body = body
	if key == "" {
		a.name()
		return refusal
	}
	scope, err := a.scopeOf(r)
	if err != nil || scope == "" {
		a.name()
		a.failure = scopeFailure(err)
		refusal := problem.New(problem.PrincipalMissing, "")
		refusal.Challenge = ChallengeOf(err)
		return refusal
	}
	a.request.Scope, a.request.Key = scope, key
	a.address()
	if a.route.policy.KeyAge == 0 {
		return nil
	}
	return a.checkAgeOf(r.Header)
}

// scopeOf calls the scope function. A panic is reported, and continues as a handler's
// panic does, because a failed authentication service is no 401. On a route that only
// observes it ends here, because the handler runs in any case.
func (a *attempt) scopeOf(r *http.Request) (scope string, err error) {
	returned := false
	defer func() {
		if !returned {
			a.name()
			a.report(r.Context(), &event.Event{Result: event.CallbackPanicked, Err: errors.New("oncekey: the Scope panicked")})
		}
		if a.route.observes {
			_ = recover() // of which the event tells
		}
	}()
	scope, err = a.shared.scope(r)
	returned = true
	return scope, err
}

// unread returns the attempt of a request without reading its header or body.
func unread(s *shared, r *http.Request, route *Route) *attempt {
	a := newAttempt(s, route)
	a.request.Method, a.request.Path, a.request.Pattern = r.Method, wire.RequestPath(r), r.Pattern
	a.name()
	return a
}

// claimant makes the claim of a request when a store asks for it (see storage.Request): the canonical
// walk, the token and the origin together take longer than a replay from memory. A claimant is used
// again for a later request, because a store that is called through an interface moves it to the heap.
type claimant struct {
	identity *identity
	input    fingerprint.Request  // until the decision
	bytes    storage.Digest       // of the input; zero when the caller of Begin passed the fingerprint
	reading  *fingerprint.Reading // of the input, on first use: see parsed
	keyHash  string               // event.KeyHash of the client's key
	keySum   [sha256.Size]byte    // frame.Sum of the client's key, if summed
	summed   bool
	peeked   bool            // by the store, which needs no claim of a retry with equal bytes
	context  context.Context //nolint:containedctx // of one round, for the trace
	made     bool
	claim    storage.Claim // if made
}

var claimants = sync.Pool{New: func() any { return new(claimant) }}

func newClaimant(i *identity) *claimant {
	c := claimants.Get().(*claimant)
	c.identity = i
	return c
}

// end drops the request's body and its parse.
func (c *claimant) end() {
	c.closeReading()
	if c.made {
		c.claim, c.made = storage.Claim{}, false
	}
	c.identity, c.input, c.bytes, c.keyHash, c.context = nil, fingerprint.Request{}, storage.Digest{}, "", nil
	c.keySum, c.summed, c.peeked = [sha256.Size]byte{}, false, false
	claimants.Put(c)
}

// Made implements ledger.Request.
func (c *claimant) Made() bool { return c.made }

// Peek implements storage.Request.
func (c *claimant) Peek() (key [sha256.Size]byte, digest storage.Digest) {
	c.peeked = true
	return c.identity.digest, c.bytes
}

// Claim implements storage.Request. The claim is the same for each try of a round.
func (c *claimant) Claim() storage.Claim {
	if c.made {
		return c.claim
	}
	p := &c.identity.route.policy
	c.fingerprint() // sets the storage key and the key's hash too
	c.claim = storage.Claim{
		Key: c.identity.record, Token: storage.NewToken(), Fingerprint: c.identity.request.Fingerprint, Digest: c.bytes,
		LockTTL: p.LockTTL, Retain: p.LockTTL + p.TTL, Remember: p.Remember,
		Origin: c.origin(), TakeOver: !p.OnAbandoned.Refuses(),
	}
	if c.identity.tooOld {
		// The record ends with its lease. It must never look abandoned, because the next
		// request would run the handler.
		c.claim.Retain, c.claim.Remember = p.LockTTL, 0
	}
	c.made = true
	return c.claim
}

// fingerprint returns the request's fingerprint. The canonical walk takes half as long
// as a whole replay, so it waits for the first request that is no retry by its bytes.
// One string holds the storage key, the hash of the client's key and the fingerprint,
// which saves two allocations for each first-time request.
func (c *claimant) fingerprint() string {
	request := &c.identity.request
	if request.Fingerprint == "" && c.bytes != (storage.Digest{}) {
		var buffer [hashesSize + fingerprint.Size]byte
		hashes := frame.AppendShort(hex.AppendEncode(buffer[:0], c.identity.digest[:]), c.sumOfKey())
		if reading := c.parsed(); reading != nil {
			hashes = reading.AppendFingerprint(hashes)
		} else {
			hashes = fingerprint.AppendExact(hashes, c.bytes)
		}
		names := string(hashes)
		c.identity.record, c.keyHash, request.Fingerprint = names[:2*sha256.Size], names[2*sha256.Size:hashesSize], names[hashesSize:]
	}
	return request.Fingerprint
}

// parsed returns the parsed input. A request that has waited parses it again, because it
// keeps no parse while it waits. parsed returns nil when the caller of Begin passed only
// the fingerprint, and where the policy compares bytes. Most requests that a store has
// peeked at run their handler, and so need a sketch. Of the others, most are retries, which
// need none.
func (c *claimant) parsed() *fingerprint.Reading {
	switch {
	case c.reading != nil, c.bytes == (storage.Digest{}), c.identity.route.policy.ExactBytes:
	case c.peeked:
		c.reading = fingerprint.ReadForSketch(c.input, c.identity.route.exclusion, c.sketchKey())
	default:
		c.reading = fingerprint.Read(c.input, c.identity.route.exclusion)
	}
	return c.reading
}

// sumOfKey returns the hash of the client's key: the key's hash for events is a part of
// it, and the secret of the sketch is another.
func (c *claimant) sumOfKey() *[sha256.Size]byte {
	if !c.summed {
		c.keySum, c.summed = frame.Sum(c.identity.request.Key), true
	}
	return &c.keySum
}

// sketchKey returns the key of the sketch's hashes. A reader of the store can compute
// it only by guessing the idempotency key: no record and no event shows these bytes of its
// hash. The storage key is mixed in so that every scope and route has a different sketch
// key. It is public, so it hides nothing, and it needs no hash of its own: no two storage
// keys are equal, and no client chooses the difference between two of them.
func (c *claimant) sketchKey() (key [16]byte) {
	subtle.XORBytes(key[:], frame.Unshown(c.sumOfKey())[:len(key)], c.identity.digest[:])
	return key
}

// closeReading drops the parsed input.
func (c *claimant) closeReading() {
	if c.reading != nil {
		c.reading.Close()
		c.reading = nil
	}
}

// hashesSize is the length of a storage key and the hash of a client's key.
const hashesSize = 2*sha256.Size + frame.ShortSize

// origin returns the origin of a claim. The router may find the pattern later: see
// ledger.Hold.
func (c *claimant) origin() storage.Origin {
	origin := storage.Origin{Route: ledger.Shortened(c.identity.request.Pattern, ledger.MaxOriginRoute), Holder: c.identity.shared.holder, KeyHash: c.keyHash, Program: c.identity.shared.program}
	if c.identity.shared.trace != nil {
		origin.Trace = c.traceOf()
	}
	return origin
}

// traceOf calls the function of WithTrace.
func (c *claimant) traceOf() (trace string) {
	defer func() {
		if err := panicked.Error("Trace", recover()); err != nil {
			c.identity.report(c.context, &event.Event{Result: event.CallbackPanicked, Err: err})
		}
	}()
	return ledger.Shortened(c.identity.shared.trace(c.context), ledger.MaxOriginText)
}
