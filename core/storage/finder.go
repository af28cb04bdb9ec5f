package storage

import "context"

// Finder is a Store that keeps finished records in the memory of this process. The
// interface is optional. The engine calls Find before it makes a claim: a retry with
// equal bytes then needs neither a canonical fingerprint nor a token, which are two
// thirds of the time of a replay from memory.
//
// A store behind a network should not implement Finder, because Find would be a second
// round trip for each first-time request.
type Finder interface {
	Store
	// Find returns the record that Acquire would return, if the record is finished or a
	// tombstone, and has this digest. Otherwise Find returns nil, also for a record that
	// Find cannot read: Acquire then decides. The record's Fingerprint may be empty.
	//
	// key is the storage key in bytes: Claim.Key has the same bytes in hex digits. The
	// digest is not zero. Find returns at once and is safe for concurrent use. It needs
	// only the values of ctx.
	Find(ctx context.Context, key [32]byte, digest Digest) *Record
}
