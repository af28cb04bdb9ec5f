package pgstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	postgrestest "github.com/oncekey/oncekey/core/internal/testkit/postgres"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
)

// promoted promotes the standby, after its primary has stopped.
func promoted(t *testing.T, standby *postgrestest.Server) *pgstore.Store {
	t.Helper()
	pool := connect(t, standby.DSN(), nil)
	if !queryOne[bool](t, pool, `SELECT pg_promote()`) {
		t.Fatal("the standby was not promoted")
	}
	return pgstore.New(pool)
}

// waitForStandby makes the primary acknowledge only writes that a standby has.
func waitForStandby(t *testing.T, primary *pgxpool.Pool) {
	t.Helper()
	execute(t, primary, `ALTER SYSTEM SET synchronous_standby_names = '*'`)
	execute(t, primary, `SELECT pg_reload_conf()`)
	eventually(t, func() bool {
		return queryOne[int](t, primary, `SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'`) == 1
	})
}

// With a synchronous standby a failover keeps all acknowledged writes, and a write
// that the standby lacks is not acknowledged.
func TestSynchronousStandbyLosesNothing(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	primary := migrated(t, server.DSN(), nil)
	standby := server.Standby()
	waitForStandby(t, primary)
	store := pgstore.New(primary)
	finish(t, store, "finished")
	running := win(t, store, claim("running"))
	standby.Stop()
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if lease, record, err := store.Acquire(short, claim("alone")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without the standby Acquire returned %+v, %+v and %v, want context.DeadlineExceeded", lease, record, err)
	}
	server.Kill()
	standby.Restart()

	successor := promoted(t, standby)

	if r := find(t, successor, claim("finished")); string(r.Body) != "finished" {
		t.Errorf("the record is %+v, want the response", r)
	}
	if r := find(t, successor, takeOver("running")); r.State != storage.InProgress || r.Abandoned() {
		t.Errorf("the record is %+v, want it in progress", r)
	}
	must(t, successor.Complete(t.Context(), running, result("late")))
	if lease := win(t, successor, claim("alone")); lease.Attempt != 1 {
		t.Errorf("it got attempt %d of the unclaimed key, want 1", lease.Attempt)
	}
}

// A limit: an acknowledged claim that the standby lacked is lost after a failover,
// and the handler runs again.
func TestAsynchronousStandbyCanLoseAClaim(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	store := pgstore.New(migrated(t, server.DSN(), nil))
	standby := server.Standby()
	standby.Stop()
	stale := win(t, store, claim("key"))
	server.Kill()
	standby.Restart()

	successor := promoted(t, standby)

	next := win(t, successor, claim("key"))
	if next.Attempt != stale.Attempt {
		t.Errorf("it got attempt %d, want %d once more", next.Attempt, stale.Attempt)
	}
	if err := successor.Complete(t.Context(), stale, result("stale")); !errors.Is(err, storage.ErrLeaseLost) {
		t.Errorf("Complete of the lost claim returned %v, want ErrLeaseLost", err)
	}
}

// A pool that has not noticed a failover may lead to a replica. There no handler can
// run, but replays work.
func TestReplicaReplaysAndClaimsNothing(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	primary := migrated(t, server.DSN(), nil)
	finish(t, pgstore.New(primary), "finished")
	replica := server.Standby()
	pool := connect(t, replica.DSN(), nil)
	for _, store := range []*pgstore.Store{pgstore.New(pool), pgstore.New(pool).AlwaysBatch()} {
		for range 2 { // a key that the process has not seen, and one that it has
			if r := find(t, store, claim("finished")); string(r.Body) != "finished" {
				t.Errorf("the record is %+v, want the response", r)
			}
			const readOnlyTransaction = "25006"
			var refusal *pgconn.PgError
			if lease, record, err := store.Acquire(t.Context(), claim("new")); !errors.As(err, &refusal) || refusal.Code != readOnlyTransaction {
				t.Errorf("Acquire returned %+v, %+v and %v, want read_only_sql_transaction", lease, record, err)
			}
		}
	}
}
