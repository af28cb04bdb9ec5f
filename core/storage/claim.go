package storage

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"time"
)

// Request is a request for the lease of one key. It computes its Claim on first use, because
// a retry with equal bytes needs neither a canonical fingerprint nor a token. These take
// two thirds of the time of a replay from memory. A Claim is a Request too.
//
// A Request lasts until Acquire returns. Only the goroutine that called Acquire may call
// its methods.
type Request interface {
	// Peek returns the storage key in bytes and the digest of the request, at no cost. A
	// store may return the record of that key at once, without a call of Claim, without
	// the record's Fingerprint, and without a look at the context, if the record is finished
	// or a tombstone and its digest is equal (see Digest.Repeats). A zero digest repeats
	// none: the store calls Claim.
	//
	// Claim.Key has the same bytes in hex digits. The bytes are undefined beside a zero
	// digest.
	Peek() (key [32]byte, digest Digest)
	// Claim returns the whole claim, each time the same. The first call may take some
	// microseconds, so a store makes it outside of its locks.
	Claim() Claim
}

// Claim requests the lease of one key.
type Claim struct {
	// Key is the storage key: 64 hex digits, see Key.
	Key string
	// Token identifies the caller, and is new for every request.
	Token Token
	// Fingerprint of the request, kept in the record: valid UTF-8 without NUL.
	Fingerprint string
	// Digest of the request's bytes, kept in the record. Zero: no digest.
	Digest Digest
	// LockTTL is the time until the lease ends without renewal. At least a millisecond.
	LockTTL time.Duration
	// Retain is the time for which the in-progress record is kept: LockTTL plus the
	// retention of a response. Later requests can then still see that the key was
	// abandoned.
	Retain time.Duration
	// Remember is the time for which a tombstone is kept after Retain, or zero.
	Remember time.Duration
	// Origin is kept in the record, and in no tombstone. The lease that is passed to
	// Complete or Extend may name a Route that was not known at the claim. A store keeps
	// either.
	Origin Origin
	// TakeOver lets Acquire claim an abandoned key: its lease ended before the
	// handler's result was stored. The claim must be for the record's own request
	// (see Repeats). Without TakeOver, and for another request, Acquire returns the
	// abandoned record.
	TakeOver bool
}

// Peek implements Request with a zero digest: every store reads the whole claim, and returns
// whole records.
func (c Claim) Peek() (key [32]byte, digest Digest) { return key, digest }

// Claim implements Request.
func (c Claim) Claim() Claim { return c }

// Repeats reports whether the claim's request is the one that made a record, given
// the record's fingerprint and digest. Equal digests mean equal bytes, and so a
// retry, even if the fingerprints differ: pods of a rolling deploy may exclude
// different fields or use different versions of the fingerprint. A record without a
// digest is compared by its fingerprint alone.
func (c Claim) Repeats(fingerprint string, digest Digest) bool {
	return c.Digest.Repeats(digest) || c.Fingerprint == fingerprint
}

// Origin tells operators where a record comes from. Stores keep the texts and never
// read them. Each is valid UTF-8 without NUL, or empty.
type Origin struct {
	// Route is the pattern of the route, at most 200 bytes.
	Route string
	// Holder is the name of the process that made the claim (core.WithInstance), at
	// most 100 bytes.
	Holder string
	// KeyHash is the hash of the client's key that log lines carry (event.KeyHash).
	KeyHash string
	// Trace is the trace of the run: a trace id and a span id in hex, with a hyphen in
	// between. At most 100 bytes.
	Trace string
	// Program stands for the service that made the claim, in 8 hex digits, or for the program
	// where its engine has no core.WithService. A record of another program under the same key
	// means that two services share the store.
	Program string
}

// Digest is a short hash of all bytes of a request, with the excluded fields (see
// fingerprint.Digest). The zero Digest means no digest: the writer has only the
// fingerprint.
type Digest [16]byte

// Repeats reports whether both digests are of equal bytes. A zero digest repeats none.
func (d Digest) Repeats(other Digest) bool { return d == other && d != Digest{} }

// Lease is the right to run the handler of one key, held by a token until it
// expires or is settled.
type Lease struct {
	// Claim is the claim that was granted. A store needs the claim to write a record
	// that the store has lost in the meantime.
	Claim
	// Attempt counts the claims of this key, from 1. The number only grows while the
	// store remembers the key, and can serve as a fencing token downstream.
	Attempt uint64
	// TookOver says that an earlier attempt was abandoned: its lease ended before a
	// result was stored. The side effect of that attempt may or may not have happened.
	TookOver bool
	// Steps are the lines that the run has recorded with core.Step, or "". The text is valid UTF-8
	// without NUL, and opaque to stores. Extend writes it to the record, and Release keeps
	// it there. A claim gets the record's Steps if it takes over an abandoned key, claims a
	// Released one, or finds its own claim again. At most 1 MiB unless a policy allows more.
	Steps string
	// Age is the time since the claim by the caller's clock, at the call of Complete,
	// Release or Extend. A store that does not keep the time of a claim uses it for Record.Created.
	Age time.Duration
}

// Token is 128 random bits that identify the holder of a lease.
type Token [16]byte

// NewToken returns a new random token.
func NewToken() Token {
	var t Token
	rand.Read(t[:]) // never returns an error: crashes the program instead
	return t
}

// String returns the token as 32 lower-case hex digits.
func (t Token) String() string { return hex.EncodeToString(t[:]) }

// ParseToken is the inverse of Token.String.
func ParseToken(s string) (Token, error) {
	var t Token
	if len(s) != 2*len(t) {
		return t, errors.New("oncekey: a token is 32 hex digits")
	}
	_, err := hex.Decode(t[:], []byte(s))
	return t, err
}
