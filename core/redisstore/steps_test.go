package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// The calls that find a claim with steps are the same as those that find a claim without
// steps, and may be repeated too.
func TestCallsThatFindSteps(t *testing.T) {
	t.Parallel()
	rdb, store := start(t)
	tests := map[string]func(l storage.Lease) error{
		"Complete": func(l storage.Lease) error { return store.Complete(t.Context(), l, result("answer")) },
		"Release":  func(l storage.Lease) error { return store.Release(t.Context(), l) },
		"Extend":   func(l storage.Lease) error { return store.Extend(t.Context(), l, time.Minute) },
	}
	for name, call := range tests {
		for _, attempt := range []uint64{1, 2} {
			lease := storage.Lease{Claim: claim(name), Attempt: attempt}
			lease.Steps = "first\n"
			must(t, store.Extend(t.Context(), lease, time.Minute))
			for other, change := range map[string]func(l *storage.Lease){
				"token":           func(l *storage.Lease) { l.Token = storage.NewToken() },
				"earlier attempt": func(l *storage.Lease) { l.Attempt-- },
				"later attempt":   func(l *storage.Lease) { l.Attempt += 10 },
			} {
				stale := lease
				stale.Steps = "longer than the others\n"
				change(&stale)
				fails(t, name+" with the wrong "+other, call(stale), storage.ErrLeaseLost)
			}
			testkit.Equal(t, find(t, store, claim(name)).Steps, lease.Steps, "%s by others: the record's steps", name)
			for range 2 { // the first reply may be lost
				must(t, call(lease))
			}
			must(t, rdb.Del(t.Context(), "oncekey:"+name).Err())
		}
	}
}

// A late renewal is written as a renewal by the same lease with all steps.
func TestLateRenewalKeepsTheLongerSteps(t *testing.T) {
	t.Parallel()
	_, store := start(t)
	for _, fingerprint := range []string{"sha256:f", "\x00\xff\n", strings.Repeat("long", 5000)} {
		c := claim("key")
		c.Fingerprint = fingerprint
		lease := win(t, store, c)
		lease.Steps = "first\nsecond\n"
		must(t, store.Extend(t.Context(), lease, time.Minute))
		for _, steps := range []string{"", "first\n", "other than the first\n"[:len(lease.Steps)-1]} {
			late := lease
			late.Steps = steps
			must(t, store.Extend(t.Context(), late, 30*time.Second))
			r := find(t, store, claim("key"))
			if r.Steps != lease.Steps || r.Fingerprint != fingerprint || r.LeaseLeft > 30*time.Second || r.LeaseLeft < 20*time.Second {
				t.Errorf("after %q the record is %+v, want %q for 30 s", steps, r, lease.Steps)
			}
		}
		lease.Steps = "xxxxx\nsecond\n" // steps of the same length are the caller's
		must(t, store.Extend(t.Context(), lease, time.Minute))
		testkit.Equal(t, find(t, store, claim("key")).Steps, lease.Steps, "the record's steps")
		lease.Steps = "" // so that any request may claim the key
		must(t, store.Release(t.Context(), lease))
	}
}

// Steps cost no round trips.
func TestRoundTripsWithSteps(t *testing.T) {
	t.Parallel()
	rdb := connect(t, redistest.Start(t), nil)
	trips := countTrips(rdb)
	store := redisstore.New(rdb)
	must(t, store.Release(t.Context(), win(t, store, claim("key")))) // loads the scripts
	lease := win(t, store, claim("key"))
	find(t, store, claim("key"))
	trips.Store(0)
	for _, steps := range []string{"first\n", "first\nsecond\n"} {
		lease.Steps = steps
		must(t, store.Extend(t.Context(), lease, time.Minute))
		trips.expect(t, "recording a step", 1)
	}
	must(t, store.Extend(t.Context(), lease, 0))
	trips.Store(0)
	lease = win(t, store, takeOver("key"))
	trips.expect(t, "taking over", 3)
	must(t, store.Complete(t.Context(), lease, result("answer")))
	trips.expect(t, "completing", 1)
}

// Case 17: a claim that is undone leaves the steps that it has found.
func TestUndoneClaimPutsTheStepsBack(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	for _, own := range []bool{true, false} {
		lease := win(t, r.plain, claim("key"))
		lease.Steps = "first\n"
		must(t, r.plain.Extend(t.Context(), lease, 0))
		c := takeOver("key")
		if own {
			c.Token = lease.Token
		}
		r.replica.Pause()
		tooFew(t, r.waiting(soon), c)
		eventually(t, func() bool { return find(t, r.plain, claim("key")).Abandoned() })
		testkit.Equal(t, find(t, r.plain, claim("key")).Steps, lease.Steps, "with the token of the claim %t, the record's steps", own)
		r.replica.Resume()
		must(t, r.rdb.Del(t.Context(), "oncekey:key").Err())
	}
}
