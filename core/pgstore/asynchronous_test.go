package pgstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	postgrestest "github.com/oncekey/oncekey/core/internal/testkit/postgres"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
)

// lazily runs a server that writes its log to the disk when it is waited for, and
// on its own every ten seconds only, with a store of asynchronous claims.
func lazily(t *testing.T) (*postgrestest.Server, *pgxpool.Pool, *pgstore.Store) {
	t.Helper()
	server := postgrestest.Start(t, "wal_writer_delay=10s", "wal_writer_flush_after=0", "autovacuum=off")
	pool := migrated(t, server.DSN(), nil)
	execute(t, pool, `CHECKPOINT`)
	return server, pool, pgstore.New(pool, pgstore.AsynchronousClaims())
}

// isOnDisk reports whether all of the server's log is.
func isOnDisk(t *testing.T, pool *pgxpool.Pool) bool {
	t.Helper()
	return queryOne[bool](t, pool, `SELECT pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn()`)
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
	tests := []struct {
		name  string
		call  func()
		waits bool
	}{
		{"the default's claim", func() { win(t, standard, claim(key())) }, true},
		{"an asynchronous claim", func() { win(t, asynchronous, claim(key())) }, false},
		{"a batch of new keys", func() { won(t, claimTogether(t, asynchronous, claim(key()), claim(key()))) }, false},
		{"a batch of a new key and a finished one", func() {
			finished := key()
			finish(t, standard, finished)
			claimTogether(t, asynchronous, claim(key()), claim(finished))
		}, true},
		{"a batch of completions", func() {
			leases := won(t, claimTogether(t, asynchronous, claim(key()), claim(key())))
			must(t, errors.Join(completeTogether(t, asynchronous, leases...)...))
		}, true},
		{"its completion", func() { finish(t, asynchronous, key()) }, true},
		{"its renewal", func() { must(t, asynchronous.Extend(t.Context(), win(t, asynchronous, claim(key())), time.Minute)) }, true},
		{"its release", func() { must(t, asynchronous.Release(t.Context(), win(t, asynchronous, claim(key())))) }, true},
		{"the claim of an abandoned key", func() {
			abandoned := key()
			win(t, standard, claim(abandoned))
			abandon(t, pool, abandoned)
			win(t, asynchronous, takeOver(abandoned))
		}, true},
		{"the claim of an expired key", func() {
			expired := key()
			finish(t, standard, expired)
			expire(t, pool, expired)
			win(t, asynchronous, claim(expired))
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
		if !everTrue(func() bool { test.call(); return isOnDisk(t, pool) == test.waits }) {
			t.Errorf("after %s the log is on the disk: %t, want %t", test.name, !test.waits, test.waits)
		}
	}
}

// crash ends the server without warning, and starts it again.
func crash(t *testing.T, server *postgrestest.Server, pool *pgxpool.Pool) {
	t.Helper()
	server.Kill()
	server.Restart()
	eventually(t, func() bool { return pool.Ping(t.Context()) == nil }) // its connections are dead
	pool.Reset()
}

// A completed record and its claim exist after a crash, and so does every claim
// before another session's commit.
func TestCrashForgetsNothingThatWasCompleted(t *testing.T) {
	t.Parallel()
	server, pool, store := lazily(t)
	running := win(t, store, claim("running"))
	finish(t, store, "finished")
	crash(t, server, pool)
	if r := find(t, store, claim("finished")); r.State != storage.Completed || string(r.Body) != "finished" {
		t.Errorf("the record is %+v, want the response", r)
	}
	if r := find(t, store, claim("running")); r.State != storage.InProgress {
		t.Errorf("the record is %+v, want it in progress", r)
	}
	must(t, store.Complete(t.Context(), running, result("answer")))
}

// forgotten makes a claim that a crash of the server loses. The handler, if any, runs
// until the crash.
func forgotten(
	t *testing.T, server *postgrestest.Server, pool *pgxpool.Pool, store *pgstore.Store, key string, handler func(storage.Lease),
) (lease storage.Lease) {
	t.Helper()
	if !everTrue(func() bool {
		unseen := pgstore.New(pool, pgstore.AsynchronousClaims()) // the claim of a key that its process has seen waits for the disk
		lease = win(t, unseen, claim(key))
		if handler != nil {
			handler(lease)
		}
		crash(t, server, pool)
		record, err := store.Lookup(t.Context(), key)
		must(t, err)
		if record != nil { // the server happened to come by
			must(t, store.Release(t.Context(), lease))
		}
		return record == nil
	}) {
		t.Fatal("all claims have survived: want one forgotten, as this option allows")
	}
	return lease
}

// Effects of a crash on an asynchronous claim: the running handler's response, or its
// renewal, restores the record, unless another caller runs by then.
func TestForgottenClaim(t *testing.T) {
	t.Parallel()
	server, pool, store := lazily(t)

	lease := forgotten(t, server, pool, store, "answered", nil)
	must(t, store.Complete(t.Context(), lease, result("answer")))
	if r := find(t, store, claim("answered")); string(r.Body) != "answer" {
		t.Errorf("the record is %+v, want the response", r)
	}

	lease = forgotten(t, server, pool, store, "renewed", nil)
	must(t, store.Extend(t.Context(), lease, time.Minute))
	if r := find(t, store, claim("renewed")); r.State != storage.InProgress {
		t.Errorf("the record is %+v, want it in progress", r)
	}

	lease = forgotten(t, server, pool, store, "retried", nil)
	second := win(t, store, takeOver("retried"))
	if second.Attempt != 1 || second.TookOver {
		t.Errorf("the retry got attempt %d with TookOver %t: want the first attempt once more", second.Attempt, second.TookOver)
	}
	if err := store.Extend(t.Context(), lease, time.Minute); !errors.Is(err, storage.ErrLeaseLost) {
		t.Errorf("renewing the forgotten claim returned %v, want ErrLeaseLost", err)
	}
	if err := store.Complete(t.Context(), lease, result("first")); !errors.Is(err, storage.ErrLeaseLost) {
		t.Errorf("completing the forgotten claim returned %v, want ErrLeaseLost", err)
	}
	must(t, store.Complete(t.Context(), second, result("second")))
}
