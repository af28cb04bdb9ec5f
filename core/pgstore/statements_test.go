package pgstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	postgrestest "github.com/oncekey/oncekey/core/internal/testkit/postgres"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
)

// queryTracer counts statements, and lets others in after each of them.
type queryTracer struct {
	statements atomic.Int32
	before     func(data pgx.TraceQueryStartData)
	after      func(data pgx.TraceQueryEndData)
}

func (q *queryTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	q.statements.Add(1)
	if q.before != nil {
		q.before(data)
	}
	return ctx
}

// TraceBatchStart counts a batch as one statement: it is one round trip.
func (q *queryTracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	q.statements.Add(1)
	return ctx
}

func (*queryTracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (*queryTracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (q *queryTracer) TraceQueryEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	if q.after != nil {
		q.after(data)
	}
}

func TestStatements(t *testing.T) {
	t.Parallel()
	tracer := &queryTracer{}
	pool := migrated(t, postgrestest.Shared(t), func(config *pgxpool.Config) { config.ConnConfig.Tracer = tracer })
	store := pgstore.New(pool)
	expect := func(what string, want int32) {
		t.Helper()
		if got := tracer.statements.Swap(0); got != want {
			t.Errorf("%s took %d statements, want %d", what, got, want)
		}
	}
	tracer.statements.Store(0)

	win(t, store, claim("first"))
	expect("the first claim of a process, with a look at its rights and its table", 3)
	lease := win(t, store, claim("key"))
	expect("claiming a new key", 1)
	find(t, store, claim("key"))
	expect("finding a key in progress", 1)
	must(t, store.Extend(t.Context(), lease, time.Minute))
	expect("extending", 1)
	must(t, store.Complete(t.Context(), lease, result("answer")))
	expect("completing", 1)
	find(t, store, claim("key"))
	expect("replaying", 1)
	find(t, pgstore.New(pool), claim("key"))
	expect("replaying in another process, with its look at rights and table", 3)
	must(t, store.Complete(t.Context(), lease, result("answer")))
	expect("completing once more", 2)

	lease = win(t, store, claim("released"))
	tracer.statements.Store(0)
	must(t, store.Release(t.Context(), lease))
	expect("releasing", 1)
	must(t, store.Release(t.Context(), lease))
	expect("releasing once more", 2)

	win(t, store, claim("abandoned"))
	abandon(t, pool, "abandoned")
	tracer.statements.Store(0)
	lease = win(t, store, takeOver("abandoned"))
	expect("taking over, after a look", 2)
	must(t, store.Release(t.Context(), lease))
	expect("releasing attempt 2", 1)

	ctx, transaction, err := store.BeginTransaction(t.Context(), win(t, store, claim("transaction")))
	must(t, err)
	if _, err := pgstore.Tx(ctx); err != nil {
		t.Error(err)
	}
	must(t, transaction.Rollback(ctx))
	expect("claiming, beginning and rolling back", 3)
}

// A transaction that has written or locked a row has a number; one that has only
// read has none, and leaves no trace in the log.
func TestLookingWritesNothing(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	finish(t, store, "completed")
	win(t, store, claim("running"))
	finishRemembered(t, store, "tombstone")
	bury(t, store, pool, "tombstone")
	finishRemembered(t, store, "over")
	win(t, store, remembered(claim("abandoned and over")))
	abandon(t, pool, "abandoned and over")
	endRetain(t, pool, "%over")
	win(t, store, claim("abandoned"))
	abandon(t, pool, "abandoned")
	other := takeOver("abandoned")
	other.Fingerprint = "sha256:other"
	for what, c := range map[string]storage.Claim{
		"a replay": takeOver("completed"), "a key in progress": takeOver("running"), "a foreign abandoned key": other,
		"an abandoned key": claim("abandoned"), "a tombstone": takeOver("tombstone"), "an unswept tombstone": takeOver("over"),
		"an unswept tombstone of an abandoned key": takeOver("abandoned and over"),
	} {
		tx, err := pool.Begin(t.Context())
		must(t, err)
		_, found, err := store.AcquireIn(t.Context(), tx, c)
		if err != nil || found == nil {
			t.Fatalf("%s: found %v and error %v, want a record", what, found, err)
		}
		var number *string
		must(t, tx.QueryRow(t.Context(), `SELECT pg_current_xact_id_if_assigned()::text`).Scan(&number))
		if number != nil {
			t.Errorf("%s has made transaction %s: want no row written or locked", what, *number)
		}
		must(t, tx.Rollback(t.Context()))
	}
}

// The same by the length of the log, on a server without other writers.
func TestReplaysAddNothingToTheLog(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, "autovacuum=off", "wal_level=minimal", "max_wal_senders=0", "checkpoint_timeout=1h")
	pool := migrated(t, server.DSN(), nil)
	store := pgstore.New(pool)
	length := func() int64 {
		return queryOne[int64](t, pool, `SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint`)
	}
	before := length()
	finish(t, store, "key")
	find(t, store, claim("key"))
	t.Logf("a first run: %d bytes of WAL", length()-before)
	before = length()
	batches := pgstore.New(pool).AlwaysBatch()
	for range 100 {
		find(t, store, takeOver("key"))
		find(t, batches, takeOver("key"))
	}
	if added := length() - before; added != 0 {
		t.Errorf("200 replays added %d bytes of WAL, want 0", added)
	}
}

// Completing touches no index as long as the page has free space.
func TestCompletionsAreHOT(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	const runs = 200
	for n := range runs {
		finish(t, store, fmt.Sprintf("%064x", n))
	}
	expectHOT(t, pool, runs)
}

// expectHOT expects nearly all of so many updates to have touched no index.
func expectHOT(t *testing.T, pool *pgxpool.Pool, updates int64) {
	t.Helper()
	var hot, all int64
	eventually(t, func() bool { // statistics come late
		execute(t, pool, `SELECT pg_stat_clear_snapshot()`)
		must(t, pool.QueryRow(t.Context(), `SELECT n_tup_hot_upd, n_tup_upd FROM pg_stat_user_tables WHERE relname = 'oncekey_records'`).Scan(&hot, &all))
		return all >= updates
	})
	t.Logf("%d of %d updates were HOT", hot, all)
	if hot < all*9/10 {
		t.Errorf("%d of %d updates were HOT, want nearly all", hot, all)
	}
}
