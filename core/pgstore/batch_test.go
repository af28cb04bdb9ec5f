package pgstore_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	postgrestest "github.com/oncekey/oncekey/core/internal/testkit/postgres"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
)

// outcome is the result of a claim.
type outcome struct {
	lease storage.Lease
	found *storage.Record
	err   error
}

// claimTogether makes claims that wait for one another, and returns their results.
func claimTogether(t *testing.T, store *pgstore.Store, claims ...storage.Claim) []outcome {
	t.Helper()
	outcomes := make([]outcome, len(claims))
	together(store, len(claims), func(n int) {
		outcomes[n].lease, outcomes[n].found, outcomes[n].err = store.Acquire(t.Context(), claims[n])
	})
	return outcomes
}

// completeTogether completes leases with their keys as responses.
func completeTogether(t *testing.T, store *pgstore.Store, leases ...storage.Lease) []error {
	t.Helper()
	errs := make([]error, len(leases))
	together(store, len(leases), func(n int) { errs[n] = store.Complete(t.Context(), leases[n], result(leases[n].Key)) })
	return errs
}

func together(store *pgstore.Store, calls int, call func(n int)) {
	var running sync.WaitGroup
	release := store.HoldLanes(calls)
	for n := range calls {
		running.Go(func() { call(n) })
	}
	release()
	running.Wait()
}

func claims(n int) []storage.Claim {
	all := make([]storage.Claim, n)
	for i := range all {
		all[i] = claim(fmt.Sprintf("%064d", i))
	}
	return all
}

// won expects every claim to have been won as attempt 1.
func won(t *testing.T, outcomes []outcome) []storage.Lease {
	t.Helper()
	leases := make([]storage.Lease, len(outcomes))
	for n, o := range outcomes {
		if o.err != nil || o.found != nil || o.lease.Attempt != 1 {
			t.Fatalf("claim %d returned %+v, want a lease", n, o)
		}
		leases[n] = o.lease
	}
	return leases
}

// Claims, completions and replays that wait are one statement each.
func TestConcurrentCallsShareStatements(t *testing.T) {
	t.Parallel()
	tracer := &queryTracer{}
	pool := migrated(t, postgrestest.Shared(t), func(config *pgxpool.Config) { config.ConnConfig.Tracer = tracer })
	store := pgstore.New(pool)
	must(t, store.Check(t.Context()))
	const callers = 100
	expect := func(operation string) {
		t.Helper()
		if statements := tracer.statements.Swap(0); statements != 1 {
			t.Errorf("%d %s took %d statements, want 1", callers, operation, statements)
		}
	}
	all := claims(callers)
	tracer.statements.Store(0)
	leases := won(t, claimTogether(t, store, all...))
	expect("claims")
	if !store.ClaimsWrote() {
		t.Error("a batch of new keys counts as one that reads")
	}
	must(t, errors.Join(completeTogether(t, store, leases...)...))
	expect("completions")
	for n, o := range claimTogether(t, store, all...) {
		if o.err != nil || o.found == nil || string(o.found.Body) != all[n].Key {
			t.Fatalf("claim %d returned %+v, want its own response", n, o)
		}
	}
	expect("replays")
	if store.ClaimsWrote() {
		t.Error("a batch of replays counts as one that writes")
	}

	long := strings.Repeat("n", 100_000)
	lease := win(t, store, claim("long"))
	release := store.HoldLanes(0)
	must(t, store.Complete(t.Context(), lease, result(long))) // does not wait
	release()
	tracer.statements.Store(0)
	if o := claimTogether(t, store, claim("long"), all[0]); string(o[0].found.Body) != long {
		t.Errorf("the long record is %+v", o[0])
	}
	if statements := tracer.statements.Load(); statements != 2 {
		t.Errorf("a replay of a long body and another took %d statements, want one each", statements)
	}

	alone := pgstore.New(pool, pgstore.WithoutBatches())
	must(t, alone.Check(t.Context()))
	tracer.statements.Store(0)
	var running sync.WaitGroup
	for n := range 10 {
		running.Go(func() { find(t, alone, all[n]) })
	}
	running.Wait()
	if statements := tracer.statements.Load(); statements != 10 {
		t.Errorf("10 replays without batches took %d statements", statements)
	}
}

// A completion of a batch stands for its own attempt only.
func TestCompletionsInOneBatch(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	running, twice, lost := win(t, store, claim("running")), win(t, store, claim("twice")), win(t, store, claim("lost"))
	kept := win(t, store, remembered(claim("kept")))
	kept.Steps = "steps"
	must(t, store.Extend(t.Context(), kept, time.Minute))
	gone := win(t, store, claim("gone"))
	execute(t, pool, `DELETE FROM oncekey_records WHERE record_key = 'gone'`)
	abandon(t, pool, "lost")
	win(t, store, takeOver("lost"))
	win(t, store, claim("another's"))
	foreign := storage.Lease{Claim: claim("another's"), Attempt: 1}
	errs := completeTogether(t, store, running, twice, twice, lost, kept, gone, foreign)
	for n, err := range errs {
		if want := map[int]error{3: storage.ErrLeaseLost, 6: storage.ErrLeaseLost}[n]; !errors.Is(err, want) {
			t.Errorf("completion %d returned %v, want %v", n, err, want)
		}
	}
	for _, key := range []string{"running", "twice", "kept", "gone"} {
		if r := find(t, store, claim(key)); string(r.Body) != key || r.Steps != "" {
			t.Errorf("the record is %+v, want the response %q", r, key)
		}
	}
}
