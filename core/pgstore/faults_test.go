package pgstore_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core/internal/testkit"
	postgrestest "github.com/oncekey/oncekey/core/internal/testkit/postgres"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
)

// Case 19: a server that was killed comes back with all it has acknowledged.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Durable()...)
	store := pgstore.New(migrated(t, server.DSN(), nil))
	testkit.SurvivesKill(t, store, server)
}

// Case 19: the connection dies while a claim waits. Either no caller has won, or the
// caller finds its own claim.
func TestConnectionThatDiesInMidClaim(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	blocker, err := pool.Begin(t.Context())
	must(t, err)
	if _, _, err := store.AcquireIn(t.Context(), blocker, claim("key")); err != nil {
		t.Fatal(err)
	}
	c, failed := claim("key"), make(chan error)
	go func() {
		_, _, err := store.Acquire(t.Context(), c)
		failed <- err
	}()
	eventually(t, func() bool { return isWaiting(t, pool) })
	execute(t, pool, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
	if err := <-failed; err == nil {
		t.Error("Acquire returned nil, want the connection's error")
	}
	must(t, blocker.Rollback(t.Context()))
	if lease := win(t, store, c); lease.Attempt != 1 {
		t.Errorf("it got attempt %d, want 1", lease.Attempt)
	}
}

// Case 12: a server that accepts calls and never responds. Case 11: the server
// carries out its pending statements when it continues.
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	store := pgstore.New(migrated(t, server.DSN(), nil))
	lease := win(t, store, claim("key"))
	server.Pause()
	start := time.Now()
	for operation, err := range tryAll(t, store, lease, 100*time.Millisecond) {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s returned %v, want context.DeadlineExceeded", operation, err)
		}
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("five calls of 100 ms took %s", took)
	}
	server.Resume()
	c := claim("after")
	win(t, store, c)
	if lease := win(t, store, c); lease.Attempt != 1 {
		t.Errorf("it got attempt %d, want 1", lease.Attempt)
	}
}

// A commit without acknowledgement is no success, and keeps no connection.
func TestCommitOnFrozenServer(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	pool := migrated(t, server.DSN(), nil)
	store := pgstore.New(pool)
	lease := win(t, store, claim("key"))
	_, transaction, err := store.BeginTransaction(t.Context(), lease)
	must(t, err)
	server.Pause()
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := transaction.Commit(short, lease, result("answer")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Commit returned %v, want context.DeadlineExceeded", err)
	}
	server.Resume()
	eventually(t, func() bool { return pool.Stat().AcquiredConns() == 0 })
	if r := find(t, store, claim("key")); r.State != storage.InProgress {
		t.Errorf("the record is %+v, want it in progress", r)
	}
	must(t, store.Complete(t.Context(), lease, result("answer")))
}

// Case 19: all connections are taken.
func TestExhaustedPool(t *testing.T) {
	t.Parallel()
	pool := migrated(t, postgrestest.Shared(t), func(config *pgxpool.Config) { config.MaxConns = 1 })
	store := pgstore.New(pool)
	lease := win(t, store, claim("key"))
	taken, err := pool.Acquire(t.Context())
	must(t, err)
	for operation, err := range tryAll(t, store, lease, 50*time.Millisecond) {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s returned %v, want context.DeadlineExceeded", operation, err)
		}
	}
	taken.Release()
	must(t, store.Complete(t.Context(), lease, result("answer")))
}

// Case 19: a statement that the server has rolled back in favour of another is
// repeated, a bounded number of times.
func TestRolledBackStatementsAreRepeated(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"40001", "40P01"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			tracer := &queryTracer{}
			dsn := postgrestest.Shared(t)
			pool := migrated(t, dsn, nil)
			store := pgstore.New(connect(t, dsn, func(config *pgxpool.Config) { config.ConnConfig.Tracer = tracer }))
			failWith(t, pool, code)
			must(t, store.Check(t.Context()))
			tracer.statements.Store(0)
			var refusal *pgconn.PgError
			if _, _, err := store.Acquire(t.Context(), claim("key")); !errors.As(err, &refusal) || refusal.Code != code {
				t.Errorf("Acquire returned %v, want code %s", err, code)
			}
			if tries := tracer.statements.Load(); tries != 2*pgstore.MaximumTries-1 { // each but the first with a look
				t.Errorf("it took %d statements, want %d tries", tries, pgstore.MaximumTries)
			}
			var failures atomic.Int32
			tracer.after = func(data pgx.TraceQueryEndData) {
				if data.Err != nil && failures.Add(1) == 2 {
					execute(t, pool, `DROP TRIGGER refuse ON oncekey_records`)
				}
			}
			if lease := win(t, store, claim("key")); lease.Attempt != 1 {
				t.Errorf("it got attempt %d, want 1", lease.Attempt)
			}
		})
	}
}

// failWith lets every write of a record fail.
func failWith(t *testing.T, pool *pgxpool.Pool, code string) {
	t.Helper()
	execute(t, pool, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused' USING ERRCODE = '`+code+`'; END $$`)
	execute(t, pool, `CREATE TRIGGER refuse BEFORE INSERT OR UPDATE OR DELETE ON oncekey_records FOR EACH ROW EXECUTE FUNCTION refuse()`)
}

func TestMissingTableSaysWhatToDo(t *testing.T) {
	t.Parallel()
	store := pgstore.New(connect(t, postgrestest.Shared(t), nil))
	for operation, err := range tryAll(t, store, storage.Lease{Claim: claim("key"), Attempt: 1}, 10*time.Second) {
		if operation != "BeginTransaction" && (err == nil || !strings.Contains(err.Error(), "run pgstore.Migrate first")) {
			t.Errorf("%s returned %v, want the remedy", operation, err)
		}
	}
	if _, err := store.Sweep(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "pgstore.Migrate") {
		t.Errorf("Sweep returned %v, want the remedy", err)
	}
}

func TestNonsense(t *testing.T) {
	t.Parallel()
	store, _ := open(t)
	testkit.Panics(t, map[string]func(){
		"New without a pool":         func() { pgstore.New(nil) },
		"a table without a name":     func() { pgstore.Table("") },
		"a table of too long a name": func() { pgstore.Table(strings.Repeat("s", 64) + ".records") },
		"sweeping without a pause":   func() { store.RunSweeper(t.Context(), 0) },
		"migrating without a pool":   func() { _ = pgstore.Migrate(t.Context(), nil) },
		"sweeping without patience":  func() { store.RunSweeper(t.Context(), -time.Second) },
	})
}
