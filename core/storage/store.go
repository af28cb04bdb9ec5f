// Package storage is the contract between the engine and a store. The package
// defines the interface [Store], its records, and the optional interfaces [Checker],
// [Inspector], [Examiner], [Limiter] and [Transactor].
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
	// again with its full LockTTL.
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
	// a key without a record returns nil, and so does repeating a successful Release.
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

	// Extend renews the lease for ttl from now, and its record for l.Retain and l.Remember, or
	// returns ErrLeaseLost.
	//
	// A ttl of zero ends the lease now. The key is then abandoned at once, for every
	// caller and every process, and keeps its request and attempt. The engine passes
	// zero for a run with an unknown outcome.
	//
	// The record keeps l.Steps, unless it has longer Steps: an Extend that was given up
	// may arrive late, after another one of the same attempt. The engine only appends
	// to Steps, and passes all of them each time.
	//
	// A lease that ended, or that the store lost, is renewed too while no other attempt has
	// claimed the key, and keeps its Attempt and TookOver. Callers must therefore not let an
	// Extend overtake the Release of the same lease. Token and Attempt must both match the
	// record, as for Complete, because attempt numbers never decrease. ttl is at most l.Retain.
	// Steps that the store can never keep are a wrapped ErrNotStorable.
	Extend(ctx context.Context, l Lease, ttl time.Duration) error
}

// Record is the store's entry for a key. Records are shared: nobody modifies one that was returned.
type Record struct {
	// State is never zero.
	State State
	// Fingerprint and Digest of the request that made the record.
	Fingerprint string
	Digest      Digest
	// Attempt is the claim's number, from 1.
	Attempt uint64
	// LeaseLeft is the rest of an InProgress record's lease, by the store's clock.
	// Zero or less: the record has been abandoned for so long. Undefined in other states.
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
	// Origin of the claim. Empty for an Expired record.
	Origin Origin
	// Created is the time of the attempt's claim, Finished the time of its Complete,
	// and Expires the end of Retain; for an Expired record the end of Remember. All are
	// by the store's clock, and zero where the store does not know: Created and Finished
	// of an Expired record, and Finished of a record in progress or Released. A replay may have
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
	// right that Acquire, Complete, Release and Extend need, and after a call of Limits
	// those of Admit and Keep. A missing right is an error that wraps ErrStoreForbidden
	// and names the right. Check sends a request to the store each time, and changes no
	// record.
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
