package pgstore_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	postgrestest "github.com/oncekey/oncekey/core/internal/testkit/postgres"
	"github.com/oncekey/oncekey/core/pgstore"
)

// Statements of a request, each of them one round trip.
func TestStatementsOfRows(t *testing.T) {
	t.Parallel()
	tracer := &queryTracer{}
	pool := connect(t, postgrestest.Shared(t), func(config *pgxpool.Config) { config.ConnConfig.Tracer = tracer })
	rows := pgstore.NewRows(t.Context(), t, pgstore.New(pool), "counted_rows", false)
	expect := func(what string, want int32) {
		t.Helper()
		if got := tracer.statements.Swap(0); got != want {
			t.Errorf("%s took %d statements, want %d", what, got, want)
		}
	}
	tracer.statements.Store(0)
	lease := win(t, rows, claim("key"))
	expect("claiming a new key", 1)
	find(t, rows, claim("key"))
	expect("finding a key in progress", 1)
	must(t, rows.Extend(t.Context(), lease, lease.TTL))
	expect("extending", 1)
	must(t, rows.Complete(t.Context(), lease, result("response")))
	expect("completing", 1)
	find(t, rows, claim("key"))
	expect("replaying", 1)
	find(t, pgstore.OpenRows(pgstore.New(pool), "counted_rows", false), claim("key"))
	expect("replaying in another process", 1)
	must(t, rows.Complete(t.Context(), lease, result("response")))
	expect("completing once more", 2)
	lease = win(t, rows, claim("released"))
	tracer.statements.Store(0)
	must(t, rows.Release(t.Context(), lease))
	expect("releasing", 1)
}

// A replay writes nothing: alone, in a batch, and in a process that has not seen the key.
func TestReplaysOfRowsAddNothingToTheLog(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, "autovacuum=off", "wal_level=minimal", "max_wal_senders=0", "checkpoint_timeout=1h")
	pool := connect(t, server.DSN(), nil)
	store := pgstore.New(pool)
	rows := pgstore.NewRows(t.Context(), t, store, "rows", false)
	length := func() int64 {
		return queryOne[int64](t, pool, `SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint`)
	}
	const runs = 200
	before := length()
	for n := range runs {
		finish(t, rows, fmt.Sprintf("%064x", n))
	}
	t.Logf("a first run: %d bytes of WAL", (length()-before)/runs)
	before = length()
	for n := range 100 {
		key := takeOver(fmt.Sprintf("%064x", n))
		find(t, rows, key)
		find(t, pgstore.OpenRows(store, "rows", false), key)
		find(t, pgstore.OpenRows(store, "rows", true), key)
	}
	if added := length() - before; added != 0 {
		t.Errorf("300 replays added %d bytes of WAL, want 0", added)
	}
}

// Completing touches no index as long as the page has free space.
func TestCompletionsOfRowsAreHOT(t *testing.T) {
	t.Parallel()
	pool := connect(t, postgrestest.Shared(t), nil)
	rows := pgstore.NewRows(t.Context(), t, pgstore.New(pool), "records", false)
	const runs = 200
	for n := range runs {
		finish(t, rows, fmt.Sprintf("%064x", n))
	}
	expectHOT(t, pool, runs)
}
