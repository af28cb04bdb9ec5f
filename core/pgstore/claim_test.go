package pgstore_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	postgrestest "github.com/oncekey/oncekey/core/internal/testkit/postgres"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
)

// race lets a hundred callers claim at once, and returns the only winner.
func race(t *testing.T, store storage.Store, c func() storage.Claim) (winner storage.Lease) {
	t.Helper()
	const callers = 100
	var mutex sync.Mutex
	var winners []storage.Lease
	var losers []*storage.Record
	var calls sync.WaitGroup
	start := make(chan struct{})
	for range callers {
		calls.Go(func() {
			<-start
			lease, record, err := store.Acquire(t.Context(), c())
			mutex.Lock()
			defer mutex.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case record == nil:
				winners = append(winners, lease)
			default:
				losers = append(losers, record)
			}
		})
	}
	close(start)
	calls.Wait()
	if len(winners) != 1 {
		t.Fatalf("%d of %d callers got the lease, want 1", len(winners), callers)
	}
	for _, r := range losers {
		if r.State != storage.InProgress || r.Abandoned() || r.Attempt != winners[0].Attempt {
			t.Fatalf("a loser found %+v, want attempt %d in progress", r, winners[0].Attempt)
		}
	}
	return winners[0]
}

// Case 1, under each isolation level that a database may have as its default, for
// a key that is new, abandoned, and expired.
func TestExactlyOneOfHundredWins(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"read committed", "repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			pool := migrated(t, postgrestest.Shared(t), func(config *pgxpool.Config) {
				config.MaxConns = 16
				config.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
			})
			store := pgstore.New(pool)
			race(t, store, func() storage.Claim { return claim("key") })
			abandon(t, pool, "key")
			if lease := race(t, store, func() storage.Claim { return takeOver("key") }); lease.Attempt != 2 || !lease.TookOver {
				t.Errorf("it was taken over as attempt %d with TookOver %t, want 2 with true", lease.Attempt, lease.TookOver)
			}
			expire(t, pool, "key")
			if lease := race(t, store, func() storage.Claim { return takeOver("key") }); lease.Attempt != 1 || lease.TookOver {
				t.Errorf("the expired key was claimed as attempt %d with TookOver %t, want 1 with false", lease.Attempt, lease.TookOver)
			}
		})
	}
}

// Case 2: a claim that waits for another uncommitted claim sees neither that claim
// nor an unclaimed key. It reads again.
func TestClaimThatWasTooLateLooksAgain(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	rival, err := pool.Begin(t.Context())
	must(t, err)
	if _, _, err := store.AcquireIn(t.Context(), rival, claim("key")); err != nil {
		t.Fatal(err)
	}
	found := make(chan *storage.Record)
	go func() {
		_, record, err := store.Acquire(t.Context(), claim("key"))
		if err != nil {
			t.Error(err)
		}
		found <- record
	}()
	eventually(t, func() bool { return isWaiting(t, pool) })
	must(t, rival.Commit(t.Context()))
	if r := <-found; r == nil || r.State != storage.InProgress || r.Attempt != 1 {
		t.Errorf("the record is %+v, want attempt 1 in progress", r)
	}
}

// A claim that was cut off arrives after its own release, just before the release
// reads why it has changed no row.
func TestClaimThatArrivesAfterItsRelease(t *testing.T) {
	t.Parallel()
	own := claim("key")
	tests := []struct {
		name   string
		late   storage.Claim
		before func(t *testing.T, store storage.Store, pool *pgxpool.Pool)
		want   error
	}{
		{"its own", own, nil, nil},
		{"another caller's", claim("key"), nil, storage.ErrLeaseLost},
		{"its own, which takes over", storage.Claim{
			Key: own.Key, Token: own.Token, Fingerprint: own.Fingerprint, TTL: own.TTL, Retain: own.Retain, TakeOver: true,
		}, func(t *testing.T, store storage.Store, pool *pgxpool.Pool) {
			win(t, store, claim("key"))
			abandon(t, pool, "key")
		}, storage.ErrLeaseLost},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dsn, tracer := postgrestest.Shared(t), &queryTracer{}
			pool := migrated(t, dsn, nil)
			elsewhere := pgstore.New(pool)
			if test.before != nil {
				test.before(t, elsewhere, pool)
			}
			tracer.after = func(pgx.TraceQueryEndData) {
				if tracer.statements.Load() == 1 {
					win(t, elsewhere, test.late)
				}
			}
			store := pgstore.New(connect(t, dsn, func(config *pgxpool.Config) { config.ConnConfig.Tracer = tracer }))
			if err := store.Release(t.Context(), storage.Lease{Claim: own, Attempt: 1}); !errors.Is(err, test.want) {
				t.Errorf("Release returned %v, want %v", err, test.want)
			}
			if statements := tracer.statements.Load(); statements != 2 {
				t.Errorf("it took %d statements, want the release and a look", statements)
			}
			win(t, elsewhere, test.late) // it stands
		})
	}
}
