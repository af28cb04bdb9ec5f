package tieredstore_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/tieredstore"
	"github.com/oncekey/oncekey/internal/testkit"
)

// checked is a store whose Check returns err.
type checked struct {
	storage.Store
	err error
}

func (c checked) Check(context.Context) error { return c.err }

// Case 38: the durable tier decides whether a process is ready; the hot tier's
// refusal is logged.
func TestCheckIsTheDurableTiers(t *testing.T) {
	t.Parallel()
	forbidden := storage.ErrStoreForbidden
	for _, test := range []struct {
		hot, durable storage.Store
		want         error
		logged       bool
	}{
		{memstore.New(), memstore.New(), nil, false},
		{checked{memstore.New(), forbidden}, memstore.New(), nil, true},
		{memstore.New(), checked{memstore.New(), forbidden}, forbidden, false},
		{newServer().link(), memstore.New(), nil, false},
		{memstore.New(), newServer().link(), nil, false}, // as core.Engine.Ready says of a store without a Check
	} {
		var log bytes.Buffer
		store := tieredstore.New(test.hot, test.durable, tieredstore.Logger(slog.New(slog.NewTextHandler(&log, nil))))
		if err := store.Check(t.Context()); !errors.Is(err, test.want) {
			t.Errorf("Check of %T before %T returned %v, want %v", test.hot, test.durable, err, test.want)
		}
		if logged := strings.Contains(log.String(), forbidden.Error()); logged != test.logged {
			t.Errorf("the log is %q, want the hot tier's error in it: %t", log.String(), test.logged)
		}
	}
}

func TestExamineNamesTheTier(t *testing.T) {
	t.Parallel()
	var checks []string
	for _, f := range tieredstore.New(bare{memstore.New()}, memstore.New(memstore.MaxRecords(1))).Examine(t.Context()) {
		checks = append(checks, f.Check+" "+f.Grade.String())
	}
	want := []string{
		"durable tier: records good", "durable tier: memory good", "durable tier: canary good", "hot tier skipped",
	}
	testkit.EqualSlices(t, checks, want, "the checks")
}

// An operator who settles a key closes the key in the hot tier first: an older response
// there is not replayed beside the operator's decision.
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
		t.Errorf("the record is %+v, want the operator's decision", r)
	}
}

// examined is a store with the findings of a test.
type examined struct {
	storage.Store
	findings []storage.Finding
}

func (e examined) Examine(context.Context) []storage.Finding { return slices.Clone(e.findings) }

// Case 100: the hot tier may lose its records, so no advice asks it to keep them, or to use what is already there: a durable
// store. The durable tier, and all else about the hot one, is judged as before.
func TestHotTierNeedNotKeepRecords(t *testing.T) {
	t.Parallel()
	findings := []storage.Finding{
		{Check: "eviction policy", Grade: storage.Mend, Seen: "allkeys-lru", Advice: "set noeviction"},
		{Check: "persistence", Grade: storage.Look, Seen: "everysec", Advice: "use tieredstore"},
		{Check: "replication", Grade: storage.Look, Seen: "1 replica", Advice: "see WaitReplicas"},
		{Check: "replication", Grade: storage.Mend, Seen: "a replica", Advice: "connect to the master"},
		{Check: "persistence", Grade: storage.Skipped, Seen: "could not see it", Advice: "grant it"},
		{Check: "memory", Grade: storage.Look, Seen: "full", Advice: "raise maxmemory"},
	}
	s := tieredstore.New(examined{memstore.New(), findings}, examined{memstore.New(), findings})
	for i, f := range s.Examine(t.Context()) {
		hot, kept := i >= len(findings), i-len(findings) < 3
		given := findings[i%len(findings)]
		if want := hot && kept; want != (f.Grade == storage.Good && f.Advice == "") || !want && (f.Grade != given.Grade || f.Advice != given.Advice) {
			t.Errorf("the finding is %+v, of %+v", f, given)
		}
	}
}
