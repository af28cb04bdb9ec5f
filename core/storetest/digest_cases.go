package storetest

import (
	"github.com/oncekey/oncekey/core/storage"
)

// digestCases are about the pods of a rolling deploy: the pods may compute
// different fingerprints of one request, or not write digests yet.
var digestCases = []testCase{
	{
		name: "digest",
		rule: "a record has the digest of its claim, in progress and finished; so has a record that Extend or Complete wrote " +
			"again, and a zero digest stays zero",
		test: func(f *fixture) {
			for i, digest := range []storage.Digest{{}, digest, {15: 1}, {0: 1}, otherDigest} {
				c := of(f.claim(), key(2*i))
				c.Digest = digest
				lease := f.win(c, 1, false)
				f.isOf(f.find(of(f.claim(), c.Key)), lease)
				f.extend(lease, f.long())
				f.isOf(f.find(of(f.claim(), c.Key)), lease)
				f.finishes(lease)

				forgotten := storage.Lease{Claim: of(c, key(2*i+1)), Attempt: 3}
				f.extend(forgotten, f.long())
				f.isOf(f.find(of(f.claim(), forgotten.Key)), forgotten)
			}
		},
	},
	{
		name: "take over by digest",
		rule: "a claim with the record's digest is a retry of its request, whatever the fingerprints: it takes over an " +
			"abandoned key, and the record is then the new claim's",
		test: func(f *fixture) {
			f.abandon(f.shortClaim())
			c := f.takeOver()
			c.Fingerprint = otherFingerprint
			f.holds(f.win(c, 2, true))
		},
	},
	{
		name: "take over by fingerprint",
		rule: "a claim with the record's fingerprint is a retry of its request, whatever the digests: it takes over an " +
			"abandoned key, and the record is then the new claim's",
		test: func(f *fixture) {
			for i, digests := range [][2]storage.Digest{{digest, otherDigest}, {{}, digest}, {digest, {}}, {{}, {}}} {
				f.holdsAfter(key(i), digests[0], digests[1])
			}
		},
	},
	{
		name: "no take-over without a digest",
		rule: "a zero digest means no digest: two zero digests are not equal, so a claim with another fingerprint does not take " +
			"over",
		test: func(f *fixture) {
			for i, digests := range [][2]storage.Digest{{{}, {}}, {digest, {}}, {{}, digest}, {digest, otherDigest}} {
				c := of(f.shortClaim(), key(i))
				c.Digest = digests[0]
				lease := f.abandon(c)
				asker := of(f.takeOver(), c.Key)
				asker.Fingerprint, asker.Digest = otherFingerprint, digests[1]
				r := f.find(asker)
				f.isAbandoned(r, 1)
				f.isOf(r, lease)
			}
		},
	},
}

// holdsAfter expects a claim to take over an abandoned key with the same fingerprint
// and another digest.
func (f *fixture) holdsAfter(key string, abandoned, next storage.Digest) {
	f.Helper()
	c := of(f.shortClaim(), key)
	c.Digest = abandoned
	f.abandon(c)
	c = of(f.takeOver(), key)
	c.Digest = next
	lease := f.win(c, 2, true)
	f.isOf(f.find(of(f.takeOver(), key)), lease)
}
