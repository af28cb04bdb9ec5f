package storetest

import (
	"encoding/hex"
	"fmt"

	"github.com/oncekey/oncekey/core/storage"
)

// finderCases are skipped for a store that is no storage.Finder.
var finderCases = []testCase{
	{
		name: "find a finished key",
		rule: "Find returns a finished record as Acquire does, but for its fingerprint, for the digest of its request",
		test: func(f *fixture) {
			for i, res := range f.results() {
				lease := f.win(of(f.claim(), key(i)), 1, false)
				f.complete(lease, res)
				r := f.found(lease.Key, lease.Digest)
				if r == nil {
					f.Fatalf("Find returned nil, want the result %+v", res)
				}
				want := f.find(of(f.claim(), lease.Key))
				f.shows(fingerprinted(r, lease), lease, res)
				if r.Origin != want.Origin || !r.Created.Equal(want.Created) || !r.Finished.Equal(want.Finished) || !r.Expires.Equal(want.Expires) {
					f.Errorf("Find returned %+v\nAcquire returned %+v", *r, *want)
				}
			}
		},
	},
	{
		name: "find a tombstone",
		rule: "Find returns a tombstone as Acquire does, and nil for a key that is forgotten",
		test: func(f *fixture) {
			lease := f.win(f.claim(), 1, false)
			res := f.result(lease)
			res.Retain, res.Remember = f.unit, 3*f.unit
			f.complete(lease, res)
			f.wait(2 * f.unit)
			if r := f.found(lease.Key, lease.Digest); r == nil {
				f.Fatal("Find returned nil, want a tombstone")
			} else {
				f.isTombstone(fingerprinted(r, lease), lease, res.Status)
			}
			f.wait(3 * f.unit)
			f.findsNone("a forgotten key", lease.Key, lease.Digest)
		},
	},
	{
		name: "find by equal bytes only",
		rule: "Find returns nil for another digest, and for a record without a digest: only a fingerprint can tell whether the " +
			"request is a retry",
		test: func(f *fixture) {
			for i, kept := range []storage.Digest{digest, {}} {
				c := of(f.claim(), key(i))
				c.Digest = kept
				lease := f.win(c, 1, false)
				f.complete(lease, f.result(lease))
				f.findsNone(fmt.Sprintf("a record of digest %x", kept), c.Key, otherDigest)
			}
		},
	},
	{
		name: "find no unfinished key",
		rule: "Find returns nil for a key that is unclaimed, in progress, abandoned or released: Acquire decides",
		test: func(f *fixture) {
			f.findsNone("an unclaimed key", key(1), digest)
			lease := f.win(f.shortClaim(), 1, false)
			f.findsNone("a running key", key(1), digest)
			f.wait(2 * f.unit)
			f.findsNone("an abandoned key", key(1), digest)
			lease = f.win(f.takeOver(), lease.Attempt+1, true)
			f.release(lease)
			f.findsNone("a released key", key(1), digest)
		},
	},
}

// found calls Find. It skips the case for a store that is no storage.Finder.
func (f *fixture) found(key string, digest storage.Digest) *storage.Record {
	f.Helper()
	finder, can := f.store.(storage.Finder)
	if !can {
		f.Skip("the store is no storage.Finder")
	}
	raw, err := hex.DecodeString(key)
	if err != nil {
		f.Fatal(err)
	}
	return finder.Find(f.Context(), [32]byte(raw), digest)
}

func (f *fixture) findsNone(history, key string, digest storage.Digest) {
	f.Helper()
	if r := f.found(key, digest); r != nil {
		f.Fatalf("%s: Find returned %s, want nil", history, describe(r))
	}
}

// fingerprinted is the record with the fingerprint that Find may leave out.
func fingerprinted(r *storage.Record, l storage.Lease) *storage.Record {
	whole := *r
	if whole.Fingerprint == "" {
		whole.Fingerprint = l.Fingerprint
	}
	return &whole
}
