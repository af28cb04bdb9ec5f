package tieredstore_test

import (
	"slices"
	"testing"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/tieredstore"
)

func TestExamineNamesTheTier(t *testing.T) {
	t.Parallel()
	var checks []string
	for _, f := range tieredstore.New(bare{memstore.New()}, memstore.New(memstore.MaxRecords(1))).Examine(t.Context()) {
		checks = append(checks, f.Check+" "+f.Grade.String())
	}
	want := []string{
		"durable tier: records good", "durable tier: memory good", "durable tier: canary good", "hot tier skipped",
	}
	if !slices.Equal(checks, want) {
		t.Errorf("the checks are %q, want %q", checks, want)
	}
}

// An operator who settles a key closes the key in the hot tier first: an older response
// there is not replayed beside the operator's word.
func TestSettleClosesTheHotTier(t *testing.T) {
	t.Parallel()
	s := newTiers()
	lease := win(t, s, claim("key"))
	must(t, s.durable.Extend(t.Context(), lease, 0))
	must(t, s.hot.Complete(t.Context(), storage.Lease{Claim: lease.Claim, Attempt: 1}, result("old")))
	s.hot.set(refuse.in("Forget"))
	if err := s.Settle(t.Context(), "key", 1, storage.Happened); err == nil {
		t.Error("Settle succeeded, and the hot tier is open")
	}
	s.hot.set(nil)
	if r, err := s.Lookup(t.Context(), "key"); err != nil || !r.Abandoned() {
		t.Errorf("Lookup returned %+v and %v, want the abandoned record", r, err)
	}
	must(t, s.Settle(t.Context(), "key", 1, storage.Happened))
	if r := find(t, s, claim("key")); r.State != storage.Unreplayable || r.Status != storage.StatusByHand {
		t.Errorf("the record is %+v, want the operator's word", r)
	}
}
