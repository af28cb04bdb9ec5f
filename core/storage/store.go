// Package storage is the contract between the engine and a store: the interface
// [Store], the records that it keeps, and the optional interfaces [Checker],
// [Inspector] and [Transactor].
//
// A program that uses a store needs package core and the package of its store. A
// program that has a store of its own implements Store and proves it with package
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

// Store keeps one record a key and gives out the lease to run its handler.
//
// Five rules hold for every method:
//
//   - The store's own clock decides what has expired. Callers hand in durations,
//     never times, so callers whose clocks disagree do no harm.
//   - An error means that the store could not do its work. Contention, absence
//     and a finished record are results. The one exception is ErrLeaseLost.
//   - ctx carries the deadline of the call, and the call returns when ctx ends,
//     whatever the store's client library does. A call whose ctx has ended before
//     it began returns an error too, in a store that never waits as well.
//   - A store that refuses a call for want of rights returns an error that wraps
//     ErrStoreForbidden. It finds out before its first claim, once: a process that
//     may claim keys but not settle them must not claim any.
//   - A Store is safe for concurrent use, and keeps nothing that it was handed
//     (Result.Body, Header, Sketch) after the call has returned.
//
// Package storetest is the conformance suite: a new store starts by passing it.
type Store interface {
	// Acquire claims c.Key for c.Token. It returns exactly one of three things:
	//
	//   - a Lease and a nil record, for exactly one of any number of concurrent
	//     callers: the key was free, or released, or abandoned (see Claim.TakeOver);
	//   - the record as it stands, for all the others;
	//   - an error: wrapped ErrCorruptRecord for a record it cannot read, wrapped
	//     ErrStoreFull when it is bounded and full, wrapped ErrStoreForbidden when
	//     this process may not claim or not settle, or the system's error.
	//
	// Repeating an Acquire with the same token, after a timeout that hid its
	// success, finds the caller's own claim and returns its lease once more,
	// running anew.
	Acquire(ctx context.Context, c Claim) (Lease, *Record, error)

	// Complete settles the lease with a result that is kept for res.Retain.
	// A lease that ran out, or that the store forgot (a restart without
	// persistence), can still be completed as long as no other attempt has claimed
	// the key; otherwise Complete returns ErrLeaseLost and changes nothing. Token
	// and Attempt must both be the record's: an Acquire that arrives late can take
	// a key over for a token whose holder works under an earlier attempt.
	// Repeating a Complete that succeeded returns nil and changes nothing; the
	// caller repeats it with the same result.
	Complete(ctx context.Context, l Lease, res Result) error

	// Release forgets the key so that the next request may run, or returns
	// ErrLeaseLost and changes nothing. Token and Attempt must both be the
	// record's: a caller whose Acquire was lost in a timeout gives back a first
	// claim that it may have made, and never erases an abandoned record that it
	// may have taken over. When the attempt number was above 1 the store
	// remembers it, and it alone, for l.Retain: the next claim gets a higher
	// one, so that a downstream resource which checks it (a fencing token) turns
	// the old holder away and not the new one.
	// Releasing a key that the store has forgotten returns nil.
	Release(ctx context.Context, l Lease) error

	// Extend renews the lease, to run for ttl from now, or returns ErrLeaseLost.
	// A ttl of zero ends the lease now: the key is abandoned at once, for every caller
	// and every process, and keeps its request and attempt. The engine uses it for a
	// run whose outcome is unknown.
	// A lease that ran out, or that the store forgot, is renewed all the same as
	// long as no other attempt has claimed the key: so callers do not let an Extend
	// overtake the Release of the same lease. Token and Attempt must both be the
	// record's, as for Complete: attempt numbers never go back. ttl is at most
	// l.Retain.
	Extend(ctx context.Context, l Lease, ttl time.Duration) error
}

// Claim asks for the lease of one key.
type Claim struct {
	// Key is the storage key: 64 hex digits, see Key.
	Key string
	// Token names the caller. It is new for every request.
	Token Token
	// Fingerprint of the request, kept in the record: valid UTF-8 without NUL.
	Fingerprint string
	// Digest of the request's bytes, kept in the record. Zero: there is none.
	Digest Digest
	// TTL is how long the lease runs unless it is renewed. At least a millisecond.
	TTL time.Duration
	// Retain is how long the in-progress record is kept: longer than TTL by as
	// much as an answer would be kept, so that an abandoned key is seen and not
	// silently forgotten.
	Retain time.Duration
	// TakeOver lets Acquire claim an abandoned key: its lease ended before the
	// handler's result was stored. The claim must be for the record's own request
	// (see Repeats). Without TakeOver, and for another request, Acquire returns the
	// abandoned record.
	TakeOver bool
}

// Repeats reports whether the claim is for the request that a record was made by,
// given the record's fingerprint and digest. Equal digests mean equal bytes, so
// they mean a retry, whatever the fingerprint says: pods of a rolling deploy may
// exclude different fields or use different versions of the fingerprint. A record
// without a digest is compared by its fingerprint alone.
func (c *Claim) Repeats(fingerprint string, digest Digest) bool {
	return c.Digest == digest && digest != Digest{} || c.Fingerprint == fingerprint
}

// Digest is a short hash of a request as it arrived: every byte counts, excluded
// fields too (see fingerprint.Digest). The zero Digest stands for none: the record
// was written by a version before digests, or its writer knows the fingerprint alone.
type Digest [16]byte

// Lease is the right to run the handler of one key, held by a token until it
// expires or is settled.
type Lease struct {
	// Claim is what the lease was given for. Stores need it again to write a
	// record that they have forgotten in the meantime.
	Claim
	// Attempt counts the claims of this key, from 1. It only grows while the
	// store remembers the key, and can serve as a fencing token downstream.
	Attempt uint64
	// TookOver says that an earlier attempt was abandoned: its lease ran out,
	// unsettled. Whether its side effect happened, nobody knows.
	TookOver bool
}

// Record is what a store holds for a key. It is shared and must not be modified.
type Record struct {
	// State is never zero.
	State State
	// Fingerprint and Digest of the request that made the record.
	Fingerprint string
	Digest      Digest
	// Attempt is the claim's number, from 1.
	Attempt uint64
	// LeaseLeft is how long an InProgress record's lease still runs by the
	// store's clock. Zero or less: the record is abandoned. It means nothing in
	// other states.
	LeaseLeft time.Duration
	// Status, Header and Body are the stored answer of a Completed or Failed
	// record. An Unreplayable one has only its Status.
	Status int
	Header Header
	Body   []byte
	// Sketch is the Result's, as it was given to Complete; an InProgress record
	// has none.
	Sketch []byte
}

// Abandoned reports whether the record's holder went away without settling it.
func (r *Record) Abandoned() bool { return r.State == InProgress && r.LeaseLeft <= 0 }

// Result is how a lease is settled by Complete.
type Result struct {
	// State is Completed, Failed or Unreplayable.
	State State
	// Status is the HTTP status, from 100 to 999.
	Status int
	// Header and Body are the answer's. The store copies what it keeps, and keeps
	// neither for Unreplayable.
	Header Header
	Body   []byte
	// Sketch is opaque to stores: short keyed hashes of the request's members, by
	// which the engine explains a mismatch (see fingerprint.Reading.AppendSketch). At most 256
	// bytes; empty when there is none. Kept with every finished record,
	// Unreplayable ones too; the store copies it.
	Sketch []byte
	// Retain is how long the record is kept, from now.
	Retain time.Duration
}

// Checker is a Store that can tell whether it is ready to serve. It is optional,
// and meant for readiness probes.
type Checker interface {
	Store
	// Check returns nil when the store can be reached and this process has every
	// right that Acquire, Complete, Release and Extend need. A missing right is an
	// error that wraps ErrStoreForbidden and names the right. Check changes no
	// record. It asks the store each time.
	Check(ctx context.Context) error
}

// State of a record. The zero State is not valid.
type State uint8

// The states of a record.
const (
	// InProgress: a handler runs, or its process died (see Record.Abandoned).
	InProgress State = iota + 1
	// Completed: finished with an answer of 2xx or 3xx.
	Completed
	// Failed: finished with an answer that says no, and that will stay so.
	Failed
	// Unreplayable: finished, but the answer was streamed, hijacked or too large
	// to keep.
	Unreplayable
)

var stateNames = [...]string{InProgress: "in_progress", Completed: "completed", Failed: "failed", Unreplayable: "unreplayable"}

// String returns the state's name as stores write it: in_progress, completed,
// failed, unreplayable; "invalid" for anything else.
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

// Token is the 128 random bits by which a lease knows its holder.
type Token [16]byte

// NewToken returns a token that nobody else has.
func NewToken() Token {
	var t Token
	rand.Read(t[:]) // it never fails: it crashes the program instead
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
