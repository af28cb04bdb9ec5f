package pgstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
)

// lazily runs a server that writes its log to the disk when it is waited for, and
// on its own every ten seconds only, with a store of asynchronous claims.
func lazily(t *testing.T) (*postgrestest.Server, *pgxpool.Pool, *pgstore.Store) {
	t.Helper()
	server := postgrestest.Start(t, "wal_writer_delay=10s", "wal_writer_flush_after=0", "autovacuum=off")
	pool := migrated(t, server.DSN())
	execute(t, pool, `CHECKPOINT`)
	return server, pool, pgstore.New(pool, pgstore.AsynchronousClaims())
}

// everTrue reports whether one of a few looks says so: now and then the server
// writes to its log, or to its disk, on its own account.
func everTrue(look func() bool) bool {
	for range 10 {
		if look() {
			return true
		}
	}
	return false
}

// The claim of a new key alone does not wait for the disk. Whatever does, takes the
// claims before it along.
func TestClaimsOfNewKeysAloneAreAsynchronous(t *testing.T) {
	t.Parallel()
	_, pool, asynchronous := lazily(t)
	standard := pgstore.New(pool)
	key := func() string { return storage.NewToken().String() }
	batch := func() []storage.Lease { return won(t, claimTogether(t, asynchronous, claim(key()), claim(key()))) }
	tests := []struct {
		name  string
		call  func()
		waits bool
	}{
		{"the default's claim", func() { win(t, standard, claim(key())) }, true},
		{"an asynchronous claim", func() { win(t, asynchronous, claim(key())) }, false},
		{"a batch of new keys", func() { batch() }, false},
		{"a batch of a new key and a finished one", func() {
			finished := key()
			finish(t, standard, finished)
			claimTogether(t, asynchronous, claim(key()), claim(finished))
		}, true},
		{"a batch of completions", func() { must(t, errors.Join(completeTogether(t, asynchronous, batch()...)...)) }, true},
		{"its completion", func() { finish(t, asynchronous, key()) }, true},
		{"its renewal", func() { must(t, asynchronous.Extend(t.Context(), win(t, asynchronous, claim(key())), time.Minute)) }, true},
		{"its release", func() { must(t, asynchronous.Release(t.Context(), win(t, asynchronous, claim(key())))) }, true},
		{"the claim of an abandoned key", func() {
			abandoned := key()
			win(t, standard, claim(abandoned))
			age(t, pool, abandoned, leaseEnded)
			win(t, asynchronous, takeOver(abandoned))
		}, true},
		{"the claim of an expired key", func() {
			over := key()
			finish(t, standard, over)
			age(t, pool, over, expired)
			win(t, asynchronous, claim(over))
		}, true},
		{"the commit of a handler's transaction", func() {
			lease := win(t, asynchronous, claim(key()))
			_, transaction, err := asynchronous.BeginTransaction(t.Context(), lease)
			must(t, err)
			must(t, transaction.Commit(t.Context(), lease, result("answer")))
		}, true},
		{"whatever follows a claim on its connection", func() {
			win(t, asynchronous, claim(key()))
			execute(t, pool, `CREATE TABLE IF NOT EXISTS other AS SELECT 1`)
			execute(t, pool, `UPDATE other SET "?column?" = 2`)
		}, true},
	}
	for _, test := range tests { // one after the other: the log is the whole server's
		if !everTrue(func() bool {
			test.call()
			return queryOne[bool](t, pool, `SELECT pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn()`) == test.waits
		}) {
			t.Errorf("after %s the log is on the disk: %t, want %t", test.name, !test.waits, test.waits)
		}
	}
}

// A crash of the server forgets no record that was completed, and no claim before another
// session's commit. It may forget a claim alone. The running handler's response then
// restores the record, unless another caller runs by then: as the first attempt once more.
func TestCrashAfterAsynchronousClaims(t *testing.T) {
	t.Parallel()
	server, pool, store := lazily(t)
	crash := func() {
		server.Kill()
		server.Restart()
		eventually(t, func() bool { return pool.Ping(t.Context()) == nil }) // its connections are dead
		pool.Reset()
	}
	running := win(t, store, claim("running"))
	finish(t, store, "finished")
	crash()
	replays(t, store, claim("finished"), "finished")
	isRunning(t, store, "running")
	must(t, store.Complete(t.Context(), running, result("late")))
	var answered, retried storage.Lease
	if !everTrue(func() bool {
		unseen := pgstore.New(pool, pgstore.AsynchronousClaims()) // the claim of a key that its process has seen waits for the disk
		answered, retried = win(t, unseen, claim("answered")), win(t, unseen, claim("retried"))
		crash()
		const survived = `DELETE FROM oncekey_records WHERE record_key IN ('answered', 'retried')`
		return execute(t, pool, survived) == 0 // or the server happened to come by
	}) {
		t.Fatal("all claims have survived: want them forgotten, as this option allows")
	}
	must(t, store.Complete(t.Context(), answered, result("answer")))
	replays(t, store, claim("answered"), "answer")
	if retry := win(t, store, claim("retried")); retry.Attempt != 1 || retry.TookOver {
		t.Errorf("the retry got %+v: want the first attempt once more", retry)
	}
	fails(t, "Extend", store.Extend(t.Context(), retried, time.Minute), storage.ErrLeaseLost)
}

// failedOver kills a server, and promotes its standby.
func failedOver(t *testing.T, server, standby *postgrestest.Server) *pgstore.Store {
	t.Helper()
	server.Kill()
	standby.Restart()
	pool := connect(t, standby.DSN())
	if !queryOne[bool](t, pool, `SELECT pg_promote()`) {
		t.Fatal("the standby was not promoted")
	}
	return pgstore.New(pool)
}

// With a synchronous standby a failover keeps all acknowledged writes, and a write that the
// standby lacks is not acknowledged. A pool that leads to the standby before it is promoted
// replays, claims nothing, and does not keep the connections.
func TestSynchronousStandbyLosesNothing(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	primary := migrated(t, server.DSN())
	standby := server.Standby()
	execute(t, primary, `ALTER SYSTEM SET synchronous_standby_names = '*'`)
	execute(t, primary, `SELECT pg_reload_conf()`)
	eventually(t, func() bool {
		return queryOne[int](t, primary, `SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'`) == 1
	})
	store := pgstore.New(primary)
	finish(t, store, "finished")
	running := win(t, store, claim("running"))
	replica := connect(t, standby.DSN())
	eventually(t, func() bool {
		return queryOne[int](t, replica, `SELECT count(*) FROM oncekey_records WHERE body IS NOT NULL`) == 1
	})
	for _, there := range []*pgstore.Store{pgstore.New(replica), pgstore.New(replica, pgstore.AlwaysBatch)} {
		for range 2 { // a key that the process has not seen, and one that it has
			replays(t, there, claim("finished"), "finished")
			const readOnlyTransaction = "25006"
			fails(t, "Acquire", acquire(t.Context(), there, claim("new")).err, nil, readOnlyTransaction)
		}
		opened := replica.Stat().NewConnsCount()
		fails(t, "Acquire", acquire(t.Context(), there, claim("new")).err, nil, "read-only")
		fails(t, "Acquire", acquire(t.Context(), there, claim("new")).err, nil, "read-only")
		if replica.Stat().NewConnsCount() == opened {
			t.Error("the connections of claims stay in the pool")
		}
		fails(t, "Check", there.Check(t.Context()), nil, "as on a standby") // nil lets a load balancer send requests
	}
	replica.Close()
	standby.Stop()
	fails(t, "without the standby Acquire", limited(t, 300*time.Millisecond, func(ctx context.Context) error {
		return acquire(ctx, store, claim("alone")).err
	}), context.DeadlineExceeded)
	successor := failedOver(t, server, standby)
	replays(t, successor, claim("finished"), "finished")
	isRunning(t, successor, "running")
	must(t, successor.Complete(t.Context(), running, result("late")))
	testkit.Equal(t, win(t, successor, claim("alone")).Attempt, 1, "the attempt of the unclaimed key")
}

// A limit: an acknowledged claim that the standby lacked is lost after a failover,
// and the handler runs again.
func TestAsynchronousStandbyCanLoseAClaim(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	store := pgstore.New(migrated(t, server.DSN()))
	standby := server.Standby()
	standby.Stop()
	stale := win(t, store, claim("key"))
	successor := failedOver(t, server, standby)
	testkit.Equal(t, win(t, successor, claim("key")).Attempt, stale.Attempt, "the attempt")
	fails(t, "Complete of the lost claim", successor.Complete(t.Context(), stale, result("stale")), storage.ErrLeaseLost)
}
