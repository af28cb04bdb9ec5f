package storetest

import (
	"encoding/hex"
	"sync/atomic"

	"github.com/oncekey/oncekey/core/storage"
)

// requestCases are about a request that computes its claim on first use, as the engine's
// does. A store may make do without the claim of a retry.
var requestCases = []testCase{
	{
		name: "a retry of a finished key",
		rule: "a request with the digest of a finished record gets the record, with or without a claim. Only the record's fingerprint " +
			"may be left out",
		test: func(f *fixture) {
			for i, res := range f.results() {
				lease := f.win(of(f.claim(), key(i)), 1, false)
				f.complete(lease, res)
				want := f.find(of(f.claim(), lease.Key))
				r := f.findLazily(of(f.claim(), lease.Key))
				f.shows(fingerprinted(r, lease), lease, res)
				if r.Origin != want.Origin {
					f.Errorf("the request got a record from %+v, and a claim gets one from %+v", r.Origin, want.Origin)
				}
				f.lasts("created", want.Created, r.Created, 0)
				f.lasts("finished", want.Finished, r.Finished, 0)
				f.lasts("expires", want.Expires, r.Expires, 0)
			}
		},
	},
	{
		name: "a retry of a remembered key",
		rule: "a request with the digest of a tombstone gets the tombstone, and a lease when the key is forgotten",
		test: func(f *fixture) {
			lease := f.win(f.claim(), 1, false)
			res := f.finish(lease, f.unit, f.long())
			f.finish(f.win(of(f.claim(), key(2)), 1, false), f.unit, f.unit)
			f.wait(3 * f.unit)
			f.isTombstone(fingerprinted(f.findLazily(f.claim()), lease), lease, res.Status)
			f.winLazily(of(f.claim(), key(2)), 1, false)
		},
	},
	{
		name: "a request of other bytes",
		rule: "a request with another digest, or of a record without a digest, gets the record with its fingerprint: only the " +
			"fingerprint can tell whether the request is a retry",
		test: func(f *fixture) {
			for i, kept := range []storage.Digest{digest, {}} {
				c := of(f.claim(), key(i))
				c.Digest = kept
				lease := f.win(c, 1, false)
				f.complete(lease, f.result(lease))
				for _, asked := range []storage.Digest{otherDigest, {}} {
					c := of(f.claim(), key(i))
					c.Digest = asked
					f.shows(f.findLazily(c), lease, f.result(lease))
				}
			}
		},
	},
	{
		name: "a request of an unfinished key",
		rule: "a request whose key is unclaimed, abandoned or released gets the lease of its claim. One whose key is in progress gets the " +
			"record with its fingerprint",
		test: func(f *fixture) {
			lease := f.winLazily(f.shortClaim(), 1, false)
			f.isOf(f.findLazily(f.claim()), lease)
			f.wait(2 * f.unit)
			r := f.findLazily(f.claim())
			f.isOf(r, lease)
			f.isAbandoned(r, 1)
			lease = f.winLazily(f.takeOver(), 2, true)
			f.release(lease)
			lease = f.winLazily(f.claim(), 3, false)
			lease.Steps = "first\n"
			f.release(lease)
			f.leasesSteps(f.winLazily(f.claim(), 4, false), "first\n")
		},
	},
	{
		name: "a request lasts until Acquire returns",
		rule: "a store does not call a request after Acquire has returned, also when it has found another record: the engine uses the " +
			"request again",
		test: func(f *fixture) {
			lease := f.winLazily(f.claim(), 1, false)
			f.findLazily(f.claim())
			f.complete(lease, f.result(lease))
			f.findLazily(f.claim())
			f.findLazily(ofAnotherRequest(f.claim()))
			f.wait(f.unit)
		},
	},
}

// lazy is a request that shows its claim only until Acquire returns.
type lazy struct {
	claim   storage.Claim
	over    atomic.Bool
	fixture *fixture
}

// Peek implements storage.Request.
func (l *lazy) Peek() (key [32]byte, digest storage.Digest) {
	l.check()
	if _, err := hex.Decode(key[:], []byte(l.claim.Key)); err != nil {
		l.fixture.Errorf("the key of a case is %q: %v", l.claim.Key, err)
	}
	return key, l.claim.Digest
}

// Claim implements storage.Request.
func (l *lazy) Claim() storage.Claim {
	l.check()
	return l.claim
}

func (l *lazy) check() {
	if l.over.Load() {
		l.fixture.Error("the store has called the request after Acquire returned")
	}
}

// findLazily is find with a lazy request.
func (f *fixture) findLazily(c storage.Claim) *storage.Record {
	f.Helper()
	request := &lazy{claim: c, fixture: f}
	defer request.over.Store(true)
	return f.find(request)
}

// winLazily is win with a lazy request.
func (f *fixture) winLazily(c storage.Claim, attempt uint64, tookOver bool) storage.Lease {
	f.Helper()
	request := &lazy{claim: c, fixture: f}
	defer request.over.Store(true)
	return f.win(request, attempt, tookOver)
}

// fingerprinted is the record with the fingerprint that a store may leave out.
func fingerprinted(r *storage.Record, l storage.Lease) *storage.Record {
	whole := *r
	if whole.Fingerprint == "" {
		whole.Fingerprint = l.Fingerprint
	}
	return &whole
}
