package pgstore_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// outcome is the result of a claim.
type outcome struct {
	lease storage.Lease
	found *storage.Record
	err   error
}

func acquire(ctx context.Context, store storage.Store, c storage.Claim) (o outcome) {
	o.lease, o.found, o.err = store.Acquire(ctx, c)
	return o
}

// claimTogether makes claims that wait for one another, and returns their results.
func claimTogether(t *testing.T, store *pgstore.Store, claims ...storage.Claim) []outcome {
	t.Helper()
	outcomes := make([]outcome, len(claims))
	together(store, len(claims), func(n int) { outcomes[n] = acquire(t.Context(), store, claims[n]) })
	return outcomes
}

// completeTogether completes leases with their keys as responses.
func completeTogether(t *testing.T, store *pgstore.Store, leases ...storage.Lease) []error {
	t.Helper()
	errs := make([]error, len(leases))
	together(store, len(leases), func(n int) { errs[n] = store.Complete(t.Context(), leases[n], result(leases[n].Key)) })
	return errs
}

// together makes calls that are one batch.
func together(store *pgstore.Store, calls int, call func(n int)) {
	go store.HoldLanes(calls)()
	concurrently(calls, call)
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

// Claims, completions and replays that wait are one statement each. All end when the pool is
// closed, and no goroutine stays (see TestMain).
func TestConcurrentCallsShareStatements(t *testing.T) {
	t.Parallel()
	tracer := &queryTracer{}
	store, pool := open(t, tracer.traces)
	const callers = 100
	all := claims(callers)
	tracer.statements.Store(0)
	leases := won(t, claimTogether(t, store, all...))
	tracer.took(t, 1, "claims")
	if !store.ClaimsWrote() {
		t.Error("a batch of new keys counts as one that reads")
	}
	must(t, errors.Join(completeTogether(t, store, leases...)...))
	tracer.took(t, 1, "completions")
	for n, o := range claimTogether(t, store, all...) {
		if o.err != nil || o.found == nil || string(o.found.Body) != all[n].Key {
			t.Fatalf("claim %d returned %+v, want its own response", n, o)
		}
	}
	tracer.took(t, 1, "replays")
	if store.ClaimsWrote() {
		t.Error("a batch of replays counts as one that writes")
	}
	long := strings.Repeat("n", 100_000)
	lease := win(t, store, claim("long"))
	release := store.HoldLanes(0)
	must(t, store.Complete(t.Context(), lease, result(long))) // does not wait
	release()
	if o := claimTogether(t, store, claim("long"), all[0]); string(o[0].found.Body) != long {
		t.Errorf("the long record is %+v", o[0])
	}
	tracer.took(t, 4, "the life of a long body, and another replay,")
	alone := pgstore.New(pool, pgstore.WithoutBatches())
	must(t, alone.Check(t.Context()))
	concurrently(10, func(n int) { find(t, alone, all[n]) })
	tracer.took(t, 13, "a Check and 10 replays without batches")
	pool.Close()
	for n, o := range claimTogether(t, store, all...) {
		fails(t, "Acquire", o.err, nil, all[n].Key)
	}
	for n, err := range completeTogether(t, store, leases...) {
		fails(t, "Complete", err, nil, all[n].Key)
	}
}

// A hook that chooses a schema by a value of the request's context sees the value in each
// call, so that a key has one table.
func TestSchemaOfTheContext(t *testing.T) {
	t.Parallel()
	type schema struct{}
	_, pool := open(t, func(config *pgxpool.Config) {
		config.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
			_, err := conn.Exec(ctx, `SELECT set_config('search_path', $1, false)`, cmp.Or(ctx.Value(schema{}), any("public")))
			return true, err
		}
	})
	execute(t, pool, `CREATE SCHEMA tenant`)
	tenant := context.WithValue(t.Context(), schema{}, "tenant")
	must(t, pgstore.Migrate(tenant, pool))
	store := pgstore.New(pool, pgstore.AlwaysBatch)
	lease, _, err := store.Acquire(tenant, claim("key"))
	must(t, errors.Join(err, store.Complete(tenant, lease, result("body"))))
	counts(t, pool, 1, `SELECT count(*) FROM tenant.oncekey_records WHERE state = 'completed'`)
}

// A completion of a batch stands for its own attempt only.
func TestCompletionsOfOneKeyInABatch(t *testing.T) {
	t.Parallel()
	store, _ := open(t)
	lease := win(t, store, claim("key"))
	stale := lease
	stale.Token = storage.NewToken()
	errs := completeTogether(t, store, lease, stale, lease)
	must(t, errors.Join(errs[0], errs[2]))
	fails(t, "Complete of a lost lease", errs[1], storage.ErrLeaseLost)
	replays(t, store, claim("key"), "key")
}

// A key or a result that the server refuses fails alone.
func TestOneBadRowOfMany(t *testing.T) {
	t.Parallel()
	const callers, bad = 128, 77
	store, _ := open(t)
	all := claims(callers)
	all[bad].Key = "no text of PostgreSQL: \xff"
	outcomes := claimTogether(t, store, all...)
	fails(t, "the bad claim", outcomes[bad].err, nil, "22021", "no text")
	outcomes[bad] = outcome{lease: win(t, store, claim("good"))}
	leases := won(t, outcomes)
	leases[bad].Key = all[bad].Key
	for n, err := range completeTogether(t, store, leases...) {
		testkit.Equal(t, err != nil, n == bad, "completion %d returned %v, and %d is bad", n, err, bad)
	}
}

// The rows of a batch count after its commit, which the database may refuse.
func TestRefusedCommitOfABatch(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	execute(t, pool, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused' USING ERRCODE = '23514'; END $$`)
	execute(t, pool, `CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON oncekey_records DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()`)
	for _, o := range claimTogether(t, store, claims(2)...) {
		fails(t, "Acquire", o.err, storage.ErrNotStorable, "refused")
	}
}

// A row that another transaction has locked: its own call waits, and the others do not.
func TestHeldRowHoldsUpItsOwnCall(t *testing.T) {
	t.Parallel()
	const callers, held = 20, 1
	store, pool := open(t)
	all := claims(callers)
	// beside makes calls in a batch while a transaction holds the row of one of them.
	beside := func(holder pgx.Tx, call func(n int)) {
		t.Helper()
		var done atomic.Int32
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			together(store, callers, func(n int) {
				call(n)
				done.Add(1)
			})
		}()
		eventually(t, func() bool { return done.Load() == callers-1 })
		awaitLock(t, pool) // of the call that the batch has left out
		must(t, holder.Rollback(t.Context()))
		<-ended
	}
	holder := holding(t, pool, filling(all[held].Key[:63], 1))
	outcomes := make([]outcome, callers)
	beside(holder, func(n int) { outcomes[n] = acquire(t.Context(), store, all[n]) })
	leases := won(t, outcomes)
	holder = holding(t, pool, `SELECT FROM oncekey_records WHERE record_key = $1 FOR UPDATE`, all[held].Key)
	beside(holder, func(n int) { must(t, store.Complete(t.Context(), leases[n], result("answer"))) })
}

// Case 19: all connections are taken. The claim of a caller that leaves before its batch has
// a connection is not sent: the caller's release may have come before it.
func TestExhaustedPool(t *testing.T) {
	t.Parallel()
	store, pool := open(t, connections(1))
	lease := win(t, store, claim("key"))
	connection, err := pool.Acquire(t.Context())
	must(t, err)
	for operation, err := range tryAll(t, store, lease, 50*time.Millisecond) {
		fails(t, operation, err, context.DeadlineExceeded, "all 1 connections of the pool are in use")
	}
	beginning, stop := context.WithCancel(t.Context()) // the engine ends the beginning of a transaction so
	time.AfterFunc(50*time.Millisecond, stop)
	_, _, err = store.BeginTransaction(beginning, lease)
	fails(t, "BeginTransaction", err, context.Canceled, "all 1 connections of the pool are in use")
	impatient, leave := context.WithCancel(t.Context())
	const callers = 3
	all, outcomes, ended := claims(callers), make([]outcome, callers), make(chan int, callers)
	release := store.HoldLanes(callers)
	for n, ctx := range []context.Context{impatient, t.Context(), t.Context()} {
		go func() {
			outcomes[n] = acquire(ctx, store, all[n])
			ended <- n
		}()
	}
	release()
	eventually(t, func() bool { return store.Waiting() == 0 }) // the batch is on its way
	leave()
	fails(t, "Acquire", outcomes[<-ended].err, context.Canceled)
	connection.Release()
	<-ended
	<-ended
	won(t, outcomes[1:])
	if r, err := store.Lookup(t.Context(), all[0].Key); r != nil || err != nil {
		t.Errorf("the record is %+v with error %v, want none", r, err)
	}
	must(t, store.Complete(t.Context(), lease, result("answer")))
}

// Case 19: the connection dies while a claim waits, or a batch of them. Either no caller has
// won, or each finds its own claim.
func TestConnectionThatDiesUnderClaims(t *testing.T) {
	t.Parallel()
	for _, callers := range []int{1, 20} {
		store, pool := open(t)
		all := claims(callers)
		blocker := holding(t, pool, `LOCK TABLE oncekey_records IN SHARE MODE`)
		ended := make(chan []outcome)
		go func() { ended <- claimTogether(t, store, all...) }()
		awaitLock(t, pool)
		execute(t, pool, `SELECT pg_terminate_backend(pid)`+waiting)
		must(t, blocker.Rollback(t.Context()))
		for n, o := range <-ended {
			if callers == 1 {
				fails(t, "Acquire", o.err, nil)
			}
			testkit.Equal(t, win(t, store, all[n]).Attempt, 1, "claim %d is attempt", n)
		}
	}
}
