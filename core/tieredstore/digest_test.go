package tieredstore_test

import (
	"testing"

	"github.com/oncekey/oncekey/core/storage"
)

// Case 40: a process of a version before digests fills the hot tier without the
// digest that the durable tier has. A retry with equal bytes and another
// fingerprint is recognized all the same.
func TestHotRecordThatLacksItsDigest(t *testing.T) {
	t.Parallel()
	s := newTiers()
	first := claim("key")
	first.Digest = storage.Digest{1}
	must(t, s.durable.Complete(t.Context(), win(t, s.durable, first), result("answer")))
	undigested := first
	undigested.Digest = storage.Digest{}
	must(t, s.hot.Complete(t.Context(), win(t, s.hot, undigested), result("answer")))
	s.wants(t, 2, 2)

	retry := claim("key")
	retry.Digest, retry.Fingerprint = first.Digest, "sha256:of another version"
	if r := find(t, s, retry); !retry.Repeats(r.Fingerprint, r.Digest) {
		t.Errorf("the record is of digest %x, want %x", r.Digest, first.Digest)
	}
	s.wants(t, 1, 1)
	retry.Token, retry.Fingerprint = storage.NewToken(), first.Fingerprint
	find(t, s, retry)
	s.wants(t, 1, 0)
}
