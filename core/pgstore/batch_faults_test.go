package pgstore_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	postgrestest "github.com/oncekey/oncekey/core/internal/testkit/postgres"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
)

// A key or a result that the server refuses fails alone.
func TestOneBadRowOfMany(t *testing.T) {
	t.Parallel()
	const callers, bad = 128, 77
	store, _ := open(t)
	must(t, store.Check(t.Context()))
	all := claims(callers)
	all[bad].Key = "no text of PostgreSQL: \xff"
	outcomes := claimTogether(t, store, all...)
	if err := outcomes[bad].err; err == nil || !strings.Contains(err.Error(), "22021") || !strings.Contains(err.Error(), "no text") {
		t.Errorf("the bad claim returned %v, want the server's refusal with the key", err)
	}
	outcomes[bad] = outcome{lease: win(t, store, claim("good"))}
	leases := won(t, outcomes)
	leases[bad].Key = all[bad].Key
	for n, err := range completeTogether(t, store, leases...) {
		if (err != nil) != (n == bad) {
			t.Errorf("completion %d returned %v, and %d is bad", n, err, bad)
		}
	}
}

// A row that another transaction has locked: its own call waits, and the others do not.
func TestHeldRowHoldsUpItsOwnCall(t *testing.T) {
	t.Parallel()
	const callers, held = 20, 7
	for name, test := range map[string]struct {
		hold func(t *testing.T, tx pgx.Tx, store *pgstore.Store, key string)
		call func(t *testing.T, store *pgstore.Store, l storage.Lease) error
	}{
		"a completion": {
			func(t *testing.T, tx pgx.Tx, store *pgstore.Store, key string) {
				t.Helper()
				_, err := tx.Exec(t.Context(), `SELECT FROM oncekey_records WHERE record_key = $1 FOR UPDATE`, key)
				must(t, err)
			},
			func(t *testing.T, store *pgstore.Store, l storage.Lease) error {
				t.Helper()
				return store.Complete(t.Context(), l, result(l.Key))
			},
		},
		"a claim": {
			func(t *testing.T, tx pgx.Tx, store *pgstore.Store, key string) {
				t.Helper()
				_, _, err := store.AcquireIn(t.Context(), tx, claim("next "+key[5:]))
				must(t, err)
			},
			func(t *testing.T, store *pgstore.Store, l storage.Lease) error {
				t.Helper()
				_, _, err := store.Acquire(t.Context(), claim("next "+l.Key[5:]))
				return err
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := open(t)
			must(t, store.Check(t.Context()))
			leases := won(t, claimTogether(t, store, claims(callers)...))
			holder, err := pool.Begin(t.Context())
			must(t, err)
			test.hold(t, holder, store, leases[held].Key)
			var done atomic.Int32
			var running sync.WaitGroup
			release := store.HoldLanes(callers)
			for _, lease := range leases {
				running.Go(func() {
					if err := test.call(t, store, lease); err != nil {
						t.Error(err)
					}
					done.Add(1)
				})
			}
			release()
			eventually(t, func() bool { return done.Load() == callers-1 })
			eventually(t, func() bool { return isWaiting(t, pool) }) // the call that the batch has left out
			must(t, holder.Rollback(t.Context()))
			running.Wait()
		})
	}
}

// The claim of a caller that leaves before its batch has a connection is not sent: the
// caller's release may have come before it.
func TestCallerLeavesWhileItsBatchWaitsForAConnection(t *testing.T) {
	t.Parallel()
	pool := migrated(t, postgrestest.Shared(t), func(config *pgxpool.Config) { config.MaxConns = 1 })
	store := pgstore.New(pool)
	must(t, store.Check(t.Context()))
	connection, err := pool.Acquire(t.Context())
	must(t, err)
	impatient, leave := context.WithCancel(t.Context())
	const callers = 3
	all := claims(callers)
	outcomes := make([]outcome, callers)
	var running sync.WaitGroup
	left := make(chan error)
	release := store.HoldLanes(callers)
	go func() {
		_, _, err := store.Acquire(impatient, all[0])
		left <- err
	}()
	for n := 1; n < callers; n++ {
		running.Go(func() { outcomes[n].lease, outcomes[n].found, outcomes[n].err = store.Acquire(t.Context(), all[n]) })
	}
	release()
	eventually(t, func() bool { return store.Waiting() == 0 }) // the batch is on its way
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller that left got %v", err)
	}
	connection.Release()
	running.Wait()
	won(t, outcomes[1:])
	if r, err := store.Lookup(t.Context(), all[0].Key); r != nil || err != nil {
		t.Errorf("the record is %+v with error %v, want none", r, err)
	}
}

// All calls end when the pool is closed, and no goroutine stays (see TestMain).
func TestPoolThatClosesUnderABatch(t *testing.T) {
	t.Parallel()
	pool := migrated(t, postgrestest.Shared(t), nil)
	store := pgstore.New(pool)
	must(t, store.Check(t.Context()))
	const callers = 20
	var running sync.WaitGroup
	var failed atomic.Int32
	release := store.HoldLanes(callers)
	for n, c := range claims(callers) {
		running.Go(func() {
			var err error
			if n%2 == 0 {
				_, _, err = store.Acquire(t.Context(), c)
			} else {
				err = store.Complete(t.Context(), storage.Lease{Claim: c, Attempt: 1}, result("late"))
			}
			if err != nil && strings.Contains(err.Error(), c.Key) {
				failed.Add(1)
			}
		})
	}
	pool.Close()
	release()
	running.Wait()
	if failed.Load() != callers {
		t.Errorf("%d of %d calls returned an error with their key", failed.Load(), callers)
	}
}

// A connection that dies under a batch leaves the outcome of each call open, and each can
// be repeated.
func TestConnectionThatDiesUnderABatch(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	must(t, store.Check(t.Context()))
	all := claims(20)
	blocker, err := pool.Begin(t.Context())
	must(t, err)
	if _, err := blocker.Exec(t.Context(), `LOCK TABLE oncekey_records IN SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	outcomes := make([]outcome, len(all))
	var running sync.WaitGroup
	running.Go(func() { outcomes = claimTogether(t, store, all...) })
	eventually(t, func() bool { return isWaiting(t, pool) })
	execute(t, pool, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
	must(t, blocker.Rollback(t.Context()))
	running.Wait()
	for n, c := range all {
		if outcomes[n].err == nil {
			won(t, outcomes[n:n+1])
		}
		if lease := win(t, store, c); lease.Attempt != 1 {
			t.Errorf("claim %d is attempt %d, want 1", n, lease.Attempt)
		}
	}
}
