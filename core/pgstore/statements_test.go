package pgstore_test

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
)

func TestStatements(t *testing.T) {
	t.Parallel()
	tracer := &queryTracer{}
	pool := migrated(t, postgrestest.Shared(t), tracer.traces)
	store := pgstore.New(pool)
	tracer.statements.Store(0)
	win(t, store, claim("first"))
	tracer.took(t, 4, "the first claim of a process, with a look at its rights and its table, and a try of both")
	lease := win(t, store, claim("key"))
	tracer.took(t, 1, "claiming a new key")
	find(t, store, claim("key"))
	tracer.took(t, 1, "finding a key in progress")
	must(t, store.Extend(t.Context(), lease, time.Minute))
	tracer.took(t, 1, "extending")
	must(t, store.Complete(t.Context(), lease, result("answer")))
	tracer.took(t, 1, "completing")
	find(t, store, claim("key"))
	tracer.took(t, 1, "replaying")
	find(t, pgstore.New(pool), claim("key"))
	tracer.took(t, 4, "replaying in another process, with its look at rights and table")
	must(t, store.Complete(t.Context(), lease, result("answer")))
	tracer.took(t, 2, "completing once more")

	lease = win(t, store, claim("released"))
	tracer.statements.Store(0)
	must(t, store.Release(t.Context(), lease))
	tracer.took(t, 1, "releasing")
	must(t, store.Release(t.Context(), lease))
	tracer.took(t, 2, "releasing once more")

	win(t, store, claim("abandoned"))
	age(t, pool, "abandoned", leaseEnded)
	tracer.statements.Store(0)
	lease = win(t, store, takeOver("abandoned"))
	tracer.took(t, 2, "taking over, after a look")
	must(t, store.Release(t.Context(), lease))
	tracer.took(t, 1, "releasing attempt 2")

	place, limit := storage.Place{Scope: strings.Repeat("a", 64), Token: storage.NewToken()}, storage.ScopeLimit{InFlight: 1, NewKeys: 2, Window: time.Hour}
	admit := func(of storage.Place) {
		_, err := store.Admit(t.Context(), of, time.Minute, limit)
		must(t, err)
	}
	admit(place)
	tracer.took(t, 4, "admitting the first key of a scope, which adds its row")
	must(t, store.Keep(t.Context(), place, 0))
	tracer.took(t, 2, "giving a place back")
	place.Token = storage.NewToken()
	admit(place)
	tracer.took(t, 2, "admitting a key")
	place.Token = storage.NewToken()
	admit(place)
	tracer.took(t, 1, "refusing a key")

	ctx, transaction, err := store.BeginTransaction(t.Context(), win(t, store, claim("transaction")))
	must(t, err)
	must(t, transaction.Rollback(ctx))
	tracer.took(t, 3, "claiming, beginning and rolling back")
}

// A batch of keys that a process has seen is sent as a SELECT.
func TestKnownKeysAreRead(t *testing.T) {
	t.Parallel()
	tracer := &queryTracer{}
	pool := migrated(t, postgrestest.Shared(t), tracer.traces)
	finish(t, pgstore.New(pool), "key")
	store := pgstore.New(pool, pgstore.AlwaysBatch)
	for _, begin := range []string{"WITH", "SELECT", "SELECT"} {
		replays(t, store, claim("key"), "key")
		if text := tracer.inBatch.Load().(string); !strings.HasPrefix(strings.TrimSpace(text), begin) {
			t.Errorf("a replay is sent as %q, want %s", text, begin)
		}
	}
}

// By the length of the log, on a server without other writers.
func TestLookingWritesNothing(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, "autovacuum=off", "wal_level=minimal", "max_wal_senders=0", "checkpoint_timeout=1h")
	pool := migrated(t, server.DSN())
	store := pgstore.New(pool)
	length := func() int64 { return queryOne[int64](t, pool, `SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint`) }
	before := length()
	finish(t, store, "completed")
	t.Logf("a first run: %d bytes of WAL", length()-before)
	win(t, store, claim("running"))
	finishRemembered(t, store, "tombstone")
	age(t, pool, "tombstone", retainEnded)
	_, err := store.Sweep(t.Context(), 1000)
	must(t, err)
	counts(t, pool, 1, `SELECT count(*) FROM oncekey_records WHERE state = 'gone'`)
	finishRemembered(t, store, "over")
	win(t, store, remembered(claim("abandoned and over")))
	age(t, pool, "abandoned and over", leaseEnded)
	age(t, pool, "%over", retainEnded)
	win(t, store, claim("abandoned"))
	age(t, pool, "abandoned", leaseEnded)
	other := takeOver("abandoned")
	other.Fingerprint = "sha256:other"
	execute(t, pool, `VACUUM oncekey_records`)
	for what, c := range map[string]storage.Claim{
		"a replay": takeOver("completed"), "a key in progress": takeOver("running"), "a foreign abandoned key": other,
		"an abandoned key": claim("abandoned"), "a tombstone": takeOver("tombstone"), "an unswept tombstone": takeOver("over"),
		"an unswept tombstone of an abandoned key": takeOver("abandoned and over"),
	} {
		for _, store := range []*pgstore.Store{pgstore.New(pool), pgstore.New(pool, pgstore.AlwaysBatch)} {
			before := length()
			for range 30 { // the first one by a process that has not seen the key
				find(t, store, c)
			}
			testkit.Equal(t, length()-before, 0, "%s: bytes of WAL for 30 looks", what)
		}
	}
}

// Completing touches no index as long as the page has free space.
func TestCompletionsAreHOT(t *testing.T) {
	t.Parallel()
	for _, finish := range []func(testing.TB, storage.Store, string){finish, finishRemembered} {
		store, pool := open(t)
		for n := range 200 {
			finish(t, store, fmt.Sprintf("%064x", n))
		}
		const updates = ` FROM pg_stat_user_tables WHERE relname = 'oncekey_records'`
		eventually(t, func() bool { return queryOne[bool](t, pool, `SELECT n_tup_upd >= 200`+updates) }) // statistics come late
		counts(t, pool, 1, `SELECT (n_tup_hot_upd >= 0.9 * n_tup_upd)::int`+updates)
	}
}

// A renewal passes all steps again. The database writes them once.
func TestRenewalsDoNotWriteTheStepsAgain(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	execute(t, pool, `ALTER TABLE oncekey_records SET (autovacuum_enabled = off, toast.autovacuum_enabled = off)`)
	text := make([]byte, 100_000)
	_, _ = rand.Read(text)
	lease := win(t, store, claim("key"))
	lease.Steps = fmt.Sprintf("%x", text)
	must(t, store.Extend(t.Context(), lease, time.Minute))
	const size = `SELECT pg_relation_size(reltoastrelid)::int FROM pg_class WHERE oid = 'oncekey_records'::regclass`
	before := queryOne[int](t, pool, size)
	for range 10 {
		must(t, store.Extend(t.Context(), lease, time.Minute))
	}
	must(t, store.Extend(t.Context(), lease, 0))
	if next := win(t, store, takeOver("key")); before == 0 || next.Steps != lease.Steps {
		t.Errorf("the lease has %d bytes of steps, want those of the first", len(next.Steps))
	}
	counts(t, pool, before, size)
}

// No statement of a sweep, and none of a list, reads the whole table.
func TestStatementsUseTheirIndexes(t *testing.T) {
	t.Parallel()
	tracer := &queryTracer{}
	store, pool := open(t, tracer.traces)
	execute(t, pool, filling("old", 2_000))
	age(t, pool, "old1%", expired)
	finishRemembered(t, store, "over")
	age(t, pool, "over", retainEnded)
	execute(t, pool, filling("new", 20_000)+`; ANALYZE oncekey_records`)
	var plans []string
	tracer.before = func(data pgx.TraceQueryStartData) {
		if !strings.Contains(data.SQL, "oncekey_records") || strings.HasPrefix(data.SQL, "EXPLAIN") {
			return
		}
		rows, err := pool.Query(t.Context(), "EXPLAIN "+data.SQL, data.Args...)
		must(t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		must(t, err)
		plans = append(plans, data.SQL+"\n"+strings.Join(lines, "\n"))
	}
	_, err := store.Sweep(t.Context(), 500)
	must(t, err)
	_, err = store.List(t.Context(), storage.Filter{}, storage.Page{Limit: 10})
	must(t, err)
	if len(plans) < 6 {
		t.Errorf("there are %d statements, want two batches of a sweep and a list", len(plans))
	}
	for _, plan := range plans {
		if strings.Contains(plan, "Seq Scan") {
			t.Errorf("the plan is\n%s", plan)
		}
	}
}

// The query of docs/sql.md.
func TestOriginInSQL(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	win(t, store, originated(claim("running")))
	win(t, store, claim("without an origin"))
	finishRemembered(t, store, "finished")
	query := strings.TrimSuffix(documented(t, "running by route", ""), ";")
	counts(t, pool, 1, `SELECT sum(CASE WHEN route = 'POST /payments/{id}' THEN count ELSE 100 END)::int FROM (`+query+`) AS q`)
}
