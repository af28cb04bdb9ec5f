package pgstore_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	postgrestest "github.com/oncekey/oncekey/core/internal/testkit/postgres"
	"github.com/oncekey/oncekey/core/pgstore"
)

func TestSweepRemovesWhatExpired(t *testing.T) {
	t.Parallel()
	tracer := &queryTracer{}
	pool := migrated(t, postgrestest.Shared(t), func(config *pgxpool.Config) { config.ConnConfig.Tracer = tracer })
	store := pgstore.New(pool)
	fill(t, pool, "old", 25)
	fill(t, pool, "new", 5)
	win(t, store, claim("running"))
	expire(t, pool, "old%")
	tracer.statements.Store(0)
	removed, err := store.Sweep(t.Context(), 10)
	must(t, err)
	if removed != 25 {
		t.Errorf("%d records were removed, want 25", removed)
	}
	if batches := tracer.statements.Load(); batches != 3 {
		t.Errorf("it took %d batches, want 3 of at most 10", batches)
	}
	if left := queryOne[int](t, pool, `SELECT count(*) FROM oncekey.records`); left != 6 {
		t.Errorf("%d records are left, want 6", left)
	}
	if _, err := store.Sweep(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "at least 1") {
		t.Errorf("Sweep in batches of 0 returned %v, want the valid values", err)
	}
}

// The hour is a matter of the sweeper's index. Expiry is exact.
func TestRecordIsGoneBeforeItIsSwept(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	finish(t, store, "key")
	execute(t, pool, `UPDATE oncekey.records SET expires_at = clock_timestamp()`)
	if removed, err := store.Sweep(t.Context(), 10); removed != 0 || err != nil {
		t.Errorf("Sweep returned %d and %v, want 0 before the full hour", removed, err)
	}
	if lease := win(t, store, claim("key")); lease.Attempt != 1 || lease.TookOver {
		t.Errorf("it got attempt %d with TookOver %t, want a new key", lease.Attempt, lease.TookOver)
	}
}

func TestSweepSkipsLockedRows(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	fill(t, pool, "old", 10)
	expire(t, pool, "old%")
	claimer, err := pool.Begin(t.Context())
	must(t, err)
	c := claim("old3")
	_, found, err := store.AcquireIn(t.Context(), claimer, c)
	if err != nil || found != nil {
		t.Fatalf("found %v and error %v, want a lease", found, err)
	}
	removed, err := store.Sweep(t.Context(), 100)
	must(t, err)
	if removed != 9 {
		t.Errorf("%d records were removed, want 9", removed)
	}
	must(t, claimer.Commit(t.Context()))
	if removed, err := store.Sweep(t.Context(), 100); removed != 0 || err != nil {
		t.Errorf("Sweep returned %d and %v, want the claimed record to stand", removed, err)
	}
	if again := win(t, store, c); again.Attempt != 1 {
		t.Errorf("it got attempt %d, want its own claim, 1", again.Attempt)
	}
}

// A claim that meets the deletion of its expired row makes a new one.
func TestClaimsDuringSweeps(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	const keys = 300
	fill(t, pool, "key", keys)
	expire(t, pool, "key%")
	var workers sync.WaitGroup
	for range 3 {
		workers.Go(func() {
			if _, err := store.Sweep(t.Context(), 7); err != nil {
				t.Error(err)
			}
		})
	}
	workers.Go(func() {
		for n := keys - 1; n >= 0; n-- {
			lease, record, err := store.Acquire(t.Context(), claim(keyOf("key", n)))
			if err != nil || record != nil || lease.Attempt != 1 {
				t.Errorf("Acquire returned attempt %d, %v and %v, want a new lease", lease.Attempt, record, err)
				return
			}
		}
	})
	workers.Wait()
	if left := queryOne[int](t, pool, `SELECT count(*) FROM oncekey.records WHERE state = 'in_progress'`); left != keys {
		t.Errorf("%d claims are left, want %d", left, keys)
	}
}

func TestSweepUsesItsIndex(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	fill(t, pool, "old", 2_000)
	expire(t, pool, "old%")
	fill(t, pool, "new", 20_000)
	execute(t, pool, `ANALYZE oncekey.records`)
	plan := explain(t, pool, store.SweepStatement())
	if !strings.Contains(plan, "Index Scan using records_sweep_after") || strings.Contains(plan, "Seq Scan") {
		t.Errorf("the plan is\n%s", plan)
	}
}

// explain returns the plan of a sweep.
func explain(t *testing.T, pool *pgxpool.Pool, statement string) string {
	t.Helper()
	rows, err := pool.Query(t.Context(), `EXPLAIN `+strings.ReplaceAll(statement, "$1", "1000"))
	must(t, err)
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var line string
		must(t, rows.Scan(&line))
		plan.WriteString(line + "\n")
	}
	must(t, rows.Err())
	return plan.String()
}

func TestSweeperRunsUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	pool := migrated(t, postgrestest.Shared(t), nil)
	var log lockedBuffer
	store := pgstore.New(pool, pgstore.Logger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	ended, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		store.RunSweeper(ended, 20*time.Millisecond)
	}()
	for _, prefix := range []string{"first", "second"} {
		fill(t, pool, prefix, 3)
		expire(t, pool, "%")
		eventually(t, func() bool { return queryOne[int](t, pool, `SELECT count(*) FROM oncekey.records`) == 0 })
	}
	execute(t, pool, `ALTER TABLE oncekey.records RENAME TO elsewhere`)
	eventually(t, func() bool { return strings.Contains(log.String(), "could not be removed") })
	execute(t, pool, `ALTER TABLE oncekey.elsewhere RENAME TO records`)
	fill(t, pool, "third", 3)
	expire(t, pool, "%")
	eventually(t, func() bool { return queryOne[int](t, pool, `SELECT count(*) FROM oncekey.records`) == 0 })
	cancel()
	<-done
	if !strings.Contains(log.String(), "removed=") {
		t.Errorf("the log is %s, want the number removed", log.String())
	}
}

func TestSweeperEndsBeforeItsFirstSweep(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	pgstore.New(connect(t, postgrestest.Shared(t), nil)).RunSweeper(ended, time.Hour)
}

// fill writes finished records past the store.
func fill(t *testing.T, pool *pgxpool.Pool, prefix string, number int) {
	t.Helper()
	execute(t, pool, `
INSERT INTO oncekey.records (key, version, state, attempt, took_over, token, fingerprint, expires_at, status, claimed_at)
SELECT $1 || n, 1, 'completed', 1, false, gen_random_uuid(), 'sha256:f', now() + interval '1 day', 201, now()
FROM generate_series(0, $2::int - 1) AS n`, prefix, number)
}

type lockedBuffer struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (b *lockedBuffer) Write(text []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text.Write(text)
}

func (b *lockedBuffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text.String()
}
