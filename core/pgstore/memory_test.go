package pgstore_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
)

// remembered lets a claim leave a tombstone for a day.
func remembered(c storage.Claim) storage.Claim {
	c.Remember = 24 * time.Hour
	return c
}

func rememberedResult(body string) storage.Result {
	res := result(body)
	res.Remember = 24 * time.Hour
	return res
}

func finishRemembered(t *testing.T, store storage.Store, key string) {
	t.Helper()
	lease := win(t, store, originated(remembered(digested(claim(key), key))))
	must(t, store.Complete(t.Context(), lease, rememberedResult(key)))
}

func originated(c storage.Claim) storage.Claim {
	c.Origin = storage.Origin{Route: "POST /payments/{id}", Holder: "pod 7", KeyHash: "0123456789abcdef", Trace: "4bf92f-00f067"}
	return c
}

// recorded claims a key and records steps.
func recorded(t *testing.T, store storage.Store, c storage.Claim, steps string) storage.Lease {
	t.Helper()
	lease := win(t, store, c)
	lease.Steps = steps
	must(t, store.Extend(t.Context(), lease, time.Minute))
	return lease
}

// endRetain puts the end of Retain into the past, and keeps the end of Remember.
func endRetain(t *testing.T, pool *pgxpool.Pool, pattern string) {
	t.Helper()
	if execute(t, pool, `UPDATE oncekey_records SET retain_until = `+now+` - 7200000000, sweep_after = 1 WHERE record_key LIKE $1`, pattern) == 0 {
		t.Fatalf("there is no record %q", pattern)
	}
}

// bury makes a remembered record a tombstone.
func bury(t *testing.T, store *pgstore.Store, pool *pgxpool.Pool, key string) {
	t.Helper()
	endRetain(t, pool, key)
	if _, err := store.Sweep(t.Context(), 1000); err != nil {
		t.Fatal(err)
	}
	if state := queryOne[string](t, pool, `SELECT state FROM oncekey_records WHERE record_key = $1`, key); state != "gone" {
		t.Fatalf("after the sweep the row is %s, want gone", state)
	}
}

// Completing a remembered key touches no index either.
func TestCompletionsOfRememberedKeysAreHOT(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	const runs = 200
	for n := range runs {
		finishRemembered(t, store, fmt.Sprintf("%064x", n))
	}
	expectHOT(t, pool, runs)
}

// meanwhile changes the row of key while a take-over waits for it, with an older
// snapshot.
func meanwhile(t *testing.T, store *pgstore.Store, pool *pgxpool.Pool, change string) (lease storage.Lease, found *storage.Record) {
	t.Helper()
	other, err := pool.Begin(t.Context())
	must(t, err)
	_, err = other.Exec(t.Context(), `UPDATE oncekey_records SET revision = revision + 1, `+change)
	must(t, err)
	done := make(chan error)
	go func() {
		var err error
		lease, found, err = store.Acquire(t.Context(), takeOver("key"))
		done <- err
	}()
	eventually(t, func() bool { return isWaiting(t, pool) })
	must(t, other.Commit(t.Context()))
	must(t, <-done)
	return lease, found
}

// A late renewal may add a step while another attempt takes over. An attempt must not
// miss a step.
func TestTakeOverSeesTheNewestSteps(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	must(t, store.Extend(t.Context(), recorded(t, store, claim("key"), "first\n"), 0))
	lease, found := meanwhile(t, store, pool, `steps = 'first\012second\012'`)
	if found != nil || lease.Attempt != 2 || lease.Steps != "first\nsecond\n" {
		t.Errorf("it got %+v and %+v, want attempt 2 with both steps", lease, found)
	}
}

// An abandoned key may become a tombstone while another attempt takes over.
func TestTakeOverOfTombstone(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	must(t, store.Extend(t.Context(), win(t, store, remembered(claim("key"))), 0))
	lease, found := meanwhile(t, store, pool, `retain_until = `+now)
	if found == nil || found.State != storage.Expired || found.Attempt != 1 {
		t.Errorf("it got %+v and %+v, want the tombstone of attempt 1", lease, found)
	}
}

// A renewal passes all steps again. The database writes them once.
func TestRenewalsDoNotWriteTheStepsAgain(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	execute(t, pool, `ALTER TABLE oncekey_records SET (autovacuum_enabled = off, toast.autovacuum_enabled = off)`)
	random, text := rand.NewChaCha8([32]byte{}), make([]byte, 100_000)
	random.Read(text) //nolint:errcheck // never returns an error
	lease := recorded(t, store, claim("key"), fmt.Sprintf("%x", text))
	size := func() int64 {
		return queryOne[int64](t, pool, `SELECT pg_relation_size(reltoastrelid) FROM pg_class WHERE oid = 'oncekey_records'::regclass`)
	}
	before := size()
	for range 10 {
		must(t, store.Extend(t.Context(), lease, time.Minute))
	}
	must(t, store.Extend(t.Context(), lease, 0))
	if lease := win(t, store, takeOver("key")); len(lease.Steps) != 2*len(text) {
		t.Errorf("the lease has %d bytes of steps, want %d", len(lease.Steps), 2*len(text))
	}
	if after := size(); before == 0 || after != before {
		t.Errorf("the steps took %d bytes, and %d after the renewals", before, after)
	}
}

// The query of docs/postgres.md.
func TestOriginInSQL(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	win(t, store, originated(claim("running")))
	win(t, store, claim("without an origin"))
	finishRemembered(t, store, "finished")
	rows, err := pool.Query(t.Context(), documented(t, "running by route", ""))
	must(t, err)
	type line struct {
		Route   string
		Count   int
		Claimed time.Time
	}
	lines, err := pgx.CollectRows(rows, pgx.RowToStructByPos[line])
	must(t, err)
	if len(lines) != 1 || lines[0].Route != "POST /payments/{id}" || lines[0].Count != 1 {
		t.Errorf("the query found %+v, want one running key of POST /payments/{id}", lines)
	}
}
