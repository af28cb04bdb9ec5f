// Package storage is the contract between the engine and a store. The package
// defines the interface [Store], its records, and the optional interfaces [Checker],
// [Inspector], [Examiner] and [Transactor].
//
// A program that uses a store needs only package core and the package of that store.
// To write a store, implement Store and test the implementation with package
// storetest:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, storetest.Config{New: func(testing.TB) storage.Store { return mystore.New() }})
//	}
//
// The package imports no other package that a program sees, so a store does not
// depend on the engine.
package storage

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"time"
)

// Store keeps one record for each key, and grants the lease to run its handler.
//
// Seven rules hold for every method:
//
//   - The store's own clock decides when a lease or a record expires. Callers pass
//     durations, never times, so callers whose clocks disagree do no harm.
//   - An error means that the store could not do its work. Contention, absence
//     and a finished record are results. The one exception is ErrLeaseLost.
//   - ctx carries the deadline of the call. The call returns when ctx ends, even if
//     the store's client library does not. A call with an ended ctx returns an
//     error, also in a store that never waits.
//   - A store that refuses a call because of missing rights returns an error that
//     wraps ErrStoreForbidden. The store checks its rights once, before the first
//     claim: a process that may claim keys but not settle them must claim none.
//   - A store that can never keep what a call writes returns an error that wraps
//     ErrNotStorable, and changes no record. An outcome without a response is small:
//     every store keeps it.
//   - A Store is safe for concurrent use, and keeps no reference to its arguments
//     (Result.Body, Header, Sketch) after the call has returned.
//   - A record lives for its Retain. After that the store keeps a tombstone for its
//     Remember: a record in state Expired, which no caller can claim, settle or
//     renew. With a Remember of zero the key has no record after its Retain, and is
//     new. A key in state Released leaves no tombstone.
//
// Package storetest is the conformance suite, which every new store must pass.
type Store interface {
	// Acquire claims the request's key for its token. The result is one of three:
	//
	//   - a Lease and a nil record, for exactly one of any number of concurrent
	//     callers: the key had no record, or was released (with Steps only for its own
	//     request, see Release), or was abandoned (see Claim.TakeOver);
	//   - the current record, for all other callers, a tombstone too;
	//   - an error: wrapped ErrCorruptRecord for an unreadable record, wrapped
	//     ErrUnreadable for one that is unreadable at the moment, wrapped ErrStoreFull
	//     from a bounded store that is full, wrapped ErrStoreForbidden
	//     when this process may not claim or not settle, wrapped ErrNotStorable when the
	//     store can never keep the claim, or the system's error.
	//
	// A caller may repeat Acquire with the same token after a timeout that hid a
	// success. The repeated call finds the caller's own claim, and returns the lease
	// again with its full TTL.
	//
	// Acquire begins with r.Claim(), except in a store that keeps its records in the memory
	// of this process: there a retry needs no claim, see Request.
	Acquire(ctx context.Context, r Request) (Lease, *Record, error)

	// Complete settles the lease with a result that the store keeps for res.Retain.
	// A lease that ended, or that the store lost (a restart without persistence), can
	// still be completed while no other attempt has claimed the key. Otherwise
	// Complete returns ErrLeaseLost and changes no record.
	//
	// Token and Attempt must both match the record, because a late Acquire can take a
	// key over for a token whose holder works under an earlier attempt. Repeating a
	// successful Complete returns nil and has no effect. The caller repeats the call
	// with the same result, or after a wrapped ErrNotStorable without its response.
	Complete(ctx context.Context, l Lease, res Result) error

	// Release ends the attempt so that the next request may run, or returns ErrLeaseLost
	// and changes no record.
	//
	// A lease without Steps loses its record, and any request may claim the key. Releasing
	// a key without a record returns nil.
	//
	// For a lease with Steps the store keeps a record in state Released for l.Retain: the
	// lease's Steps, fingerprint, digest, attempt and origin, and the time of its claim. Only
	// a claim that repeats the record's request gets the key, whatever its TakeOver says,
	// with the next attempt number, the Steps, and a TookOver of false. Other claims get the
	// record. After its Retain the key is new, because a released run has no outcome to
	// remember. A record that the store has lost is written again.
	//
	// Token and Attempt must both match the record. A caller whose Acquire timed out
	// can therefore release a possible first claim, without erasing an abandoned
	// record that the late claim took over.
	//
	// Of a lease without Steps the store remembers an attempt number above 1 for l.Retain,
	// and no other part of the record. The next claim then gets a higher number, so that a
	// downstream resource that checks the number (a fencing token) rejects the old holder
	// and accepts the new one.
	Release(ctx context.Context, l Lease) error

	// Extend renews the lease, to run for ttl from now, or returns ErrLeaseLost.
	//
	// A ttl of zero ends the lease now. The key is then abandoned at once, for every
	// caller and every process, and keeps its request and attempt. The engine passes
	// zero for a run with an unknown outcome.
	//
	// The record keeps l.Steps, unless it has longer Steps: an Extend that was given up
	// may arrive late, after another one of the same attempt. The engine only appends
	// to Steps, and passes all of them each time.
	//
	// A lease that ended, or that the store lost, is renewed too while no other
	// attempt has claimed the key. Callers must therefore not let an Extend overtake
	// the Release of the same lease. Token and Attempt must both match the record, as
	// for Complete, because attempt numbers never decrease. ttl is at most l.Retain.
	// Steps that the store can never keep are a wrapped ErrNotStorable.
	Extend(ctx context.Context, l Lease, ttl time.Duration) error
}

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
	// TTL is the time until the lease ends without renewal. At least a millisecond.
	TTL time.Duration
	// Retain is the time for which the in-progress record is kept: TTL plus the
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
}

// Digest is a short hash of all bytes of a request, with the excluded fields (see
// fingerprint.Digest). The zero Digest means no digest: a version before digests
// wrote the record, or the writer has only the fingerprint.
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
	// Steps are what the run has recorded with core.Step, or "". The text is valid UTF-8
	// without NUL, and opaque to stores. Extend writes it to the record, and Release keeps
	// it there. A claim gets the record's Steps if it takes over an abandoned key, claims a
	// Released one, or finds its own claim again. At most 1 MiB unless a policy allows more.
	Steps string
	// Age is the time since the claim by the caller's clock, at the call of Complete,
	// Release or Extend. A store that does not keep the time of a claim uses it for Record.Created.
	Age time.Duration
}

// Record is the store's entry for a key. Records are shared: do not modify them.
type Record struct {
	// State is never zero.
	State State
	// Fingerprint and Digest of the request that made the record.
	Fingerprint string
	Digest      Digest
	// Attempt is the claim's number, from 1.
	Attempt uint64
	// LeaseLeft is the rest of an InProgress record's lease, by the store's clock.
	// Zero or less: the record is abandoned. Undefined in other states.
	LeaseLeft time.Duration
	// Status, Header and Body are the stored response of a Completed or Failed
	// record. An Unreplayable record has only a Status. An Expired record has a Status
	// if the run had finished, and zero if its key was abandoned.
	Status int
	Header Header
	Body   []byte
	// Sketch is the Result's, as passed to Complete. A record without a Result has none.
	Sketch []byte
	// Steps of an InProgress or a Released record, see Lease.Steps.
	Steps string
	// Origin of the claim. Empty for an Expired record, and for one that an earlier
	// version wrote.
	Origin Origin
	// Created is the time of the attempt's claim, Finished the time of its Complete,
	// and Expires the end of Retain; for an Expired record the end of Remember. All are
	// by the store's clock, and zero where the store does not know: in a record of an
	// earlier version, Created and Finished of an Expired record, and Finished of a record
	// in progress or Released. A replay may have
	// them by the clock of the process that wrote the record, if the store's own would
	// cost another round trip.
	Created, Finished, Expires time.Time
}

// Abandoned reports whether the lease ended before a result was stored.
func (r *Record) Abandoned() bool { return r.State == InProgress && r.LeaseLeft <= 0 }

// Result is the outcome that Complete stores.
type Result struct {
	// State is Completed, Failed or Unreplayable.
	State State
	// Status is the HTTP status, from 100 to 999.
	Status int
	// Header and Body are the response's. The store copies both, and keeps neither
	// for Unreplayable.
	Header Header
	Body   []byte
	// Sketch holds short keyed hashes of the request's members, opaque to stores. The
	// engine explains a mismatch with the sketch (fingerprint.Reading.AppendSketch).
	// Possibly empty. The engine's sketch has at most 256 bytes. A store keeps up to
	// 1024 bytes, because a store over it may have sealed the sketch. The store copies
	// the sketch, and keeps a copy with every finished record, also with an
	// Unreplayable one.
	Sketch []byte
	// Retain is the time for which the record is kept, from now.
	Retain time.Duration
	// Remember is the time for which a tombstone is kept after Retain, or zero.
	Remember time.Duration
	// Repeated says that an earlier Complete of this result has failed, and may have
	// taken effect: then the record is kept since that call, and not from now. A store
	// that copies records to a second place needs it (core/tieredstore). Others ignore it.
	Repeated bool
}

// Checker is a Store that can report whether it is ready to serve. The interface is
// optional, and meant for readiness probes.
type Checker interface {
	Store
	// Check returns nil when the store can be reached and this process has every
	// right that Acquire, Complete, Release and Extend need. A missing right is an
	// error that wraps ErrStoreForbidden and names the right. Check sends a request
	// to the store each time, and changes no record.
	Check(ctx context.Context) error
}

// State of a record. The zero State is not valid.
type State uint8

// The states of a record.
const (
	// InProgress: a handler runs, or its process died (see Record.Abandoned).
	InProgress State = iota + 1
	// Completed: finished with a response of 2xx or 3xx.
	Completed
	// Failed: finished with an error response that is stored and replayed.
	Failed
	// Unreplayable: finished, but the response was streamed, hijacked, too large to
	// keep, or refused by the store (ErrNotStorable).
	Unreplayable
	// Expired: a tombstone. The Retain of the record is over, and the store keeps its
	// fingerprint, digest, attempt and status only.
	Expired
	// Released: the last attempt has ended without an outcome, and has recorded Steps. Only
	// its own request can claim the key (see Store.Release).
	Released
)

var stateNames = [...]string{
	InProgress: "in_progress", Completed: "completed", Failed: "failed", Unreplayable: "unreplayable", Expired: "expired", Released: "released",
}

// String returns the state's name as stores write it: in_progress, completed,
// failed, unreplayable, expired, released; "invalid" for anything else.
func (s State) String() string {
	if s == 0 || int(s) >= len(stateNames) {
		return "invalid"
	}
	return stateNames[s]
}

// ParseState is the inverse of State.String.
func ParseState(name string) (State, bool) {
	for s := InProgress; int(s) < len(stateNames); s++ {
		if stateNames[s] == name {
			return s, true
		}
	}
	return 0, false
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
