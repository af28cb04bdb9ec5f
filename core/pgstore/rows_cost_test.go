package pgstore_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	postgrestest "github.com/oncekey/oncekey/core/internal/testkit/postgres"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
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

// As of TestClaimsOfNewKeysAloneAreAsynchronous.
func TestAsynchronousClaimsOfRows(t *testing.T) {
	t.Parallel()
	_, pool, store := lazily(t)
	alone := pgstore.NewRows(t.Context(), t, store, "rows", false)
	batches, standard := pgstore.OpenRows(store, "rows", true), pgstore.OpenRows(pgstore.New(pool), "rows", true)
	key := func() string { return storage.NewToken().String() }
	for _, test := range []struct {
		name  string
		call  func()
		waits bool
	}{
		{"the default's claim", func() { win(t, standard, claim(key())) }, true},
		{"an asynchronous claim", func() { win(t, alone, claim(key())) }, false},
		{"a batch of a new key", func() { win(t, batches, claim(key())) }, false},
		{"a completion", func() { finish(t, alone, key()) }, true},
		{"a completion in a batch", func() { finish(t, batches, key()) }, true},
		{"the claim of an expired key", func() {
			expired := key()
			finish(t, standard, expired)
			execute(t, pool, `UPDATE rows SET expires_at = 1 WHERE record_key = $1`, expired)
			win(t, alone, claim(expired))
		}, true},
	} { // one after the other: the log is the whole server's
		if !everTrue(func() bool { test.call(); return isOnDisk(t, pool) == test.waits }) {
			t.Errorf("after %s the log is on the disk: %t, want %t", test.name, !test.waits, test.waits)
		}
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
