package core

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/frame"
	"github.com/oncekey/oncekey/core/internal/ledger"
	"github.com/oncekey/oncekey/core/internal/panicked"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/fingerprint"
)

// claimant makes the claim of a request when a store asks for it (see storage.Request): the
// canonical walk, the token and the origin together take longer than a replay from
// memory. A claimant is used again for a later request, because a store that is called
// through an interface moves it to the heap.
type claimant struct {
	identity *identity
	input    fingerprint.Request  // until the decision
	bytes    storage.Digest       // of the input; zero when the caller of Begin passed the fingerprint
	reading  *fingerprint.Reading // of the input, on first use: see parsed
	keyHash  string               // event.KeyHash of the client's key
	context  context.Context      //nolint:containedctx // of one round, for the trace
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
	claimants.Put(c)
}

// begin lets the next Claim make a new claim, with a new token. The late release of an
// earlier round's claim must not release the claim of this round.
func (c *claimant) begin(ctx context.Context) { c.context, c.made = ctx, false }

// Made implements ledger.Request.
func (c *claimant) Made() bool { return c.made }

// Peek implements storage.Request.
func (c *claimant) Peek() (key [sha256.Size]byte, digest storage.Digest) {
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
		TTL: p.LockTTL, Retain: p.LockTTL + p.TTL, Remember: p.Remember,
		Origin: c.origin(), TakeOver: !p.OnAbandoned.Refuses(),
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
		hashes := frame.AppendShort(hex.AppendEncode(buffer[:0], c.identity.digest[:]), request.Key)
		names := string(c.parsed().AppendFingerprint(hashes))
		c.identity.record, c.keyHash, request.Fingerprint = names[:2*sha256.Size], names[2*sha256.Size:hashesSize], names[hashesSize:]
	}
	return request.Fingerprint
}

// parsed returns the parsed input. A request that has waited parses it again, because it
// keeps no parse while it waits. parsed returns nil when the caller of Begin passed only
// the fingerprint.
func (c *claimant) parsed() *fingerprint.Reading {
	if c.reading == nil && c.bytes != (storage.Digest{}) {
		c.reading = fingerprint.Read(c.input, c.identity.route.exclusion)
	}
	return c.reading
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

// repeats reports whether the request is a retry of the record's request. Equal bytes
// need no fingerprint.
func (c *claimant) repeats(record *storage.Record) bool {
	return c.bytes.Repeats(record.Digest) || c.fingerprint() == record.Fingerprint
}

// origin returns the origin of a claim. The router may find the pattern later: see
// ledger.Hold.
func (c *claimant) origin() storage.Origin {
	origin := storage.Origin{Route: ledger.Shortened(c.identity.request.Pattern, ledger.MaxOriginRoute), Holder: c.identity.shared.holder, KeyHash: c.keyHash}
	if c.identity.shared.trace != nil {
		origin.Trace = c.traceOf()
	}
	return origin
}

// traceOf calls the function of WithTrace.
func (c *claimant) traceOf() (trace string) {
	defer func() {
		if err := panicked.Error("Trace", recover()); err != nil {
			c.identity.report(c.context, c.identity.request.Pattern, event.Event{Result: event.CallbackPanicked, Err: err, Record: c.identity.record})
		}
	}()
	return ledger.Shortened(c.identity.shared.trace(c.context), ledger.MaxOriginText)
}
