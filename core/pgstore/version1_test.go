package pgstore_test

import (
	"embed"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	postgrestest "github.com/oncekey/oncekey/core/internal/testkit/postgres"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
)

// version1Statements are the exact statements of programs of version 1.
//
//go:embed testdata/version1/*.sql
var version1Statements embed.FS

// oldProgram has only the features of version 1.
type oldProgram struct{ pool *pgxpool.Pool }

func (o oldProgram) statement(t *testing.T, name string) string {
	t.Helper()
	text, err := version1Statements.ReadFile("testdata/version1/" + name + ".sql")
	must(t, err)
	return string(text)
}

// changes expects a statement to affect one row.
func (o oldProgram) changes(t *testing.T, name string, arguments ...any) {
	t.Helper()
	if rows := execute(t, o.pool, o.statement(t, name), arguments...); rows != 1 {
		t.Errorf("%s of version 1 affected %d rows, want 1", name, rows)
	}
}

// oldRecord has the fields of a record in version 1.
type oldRecord struct {
	won, tookOver bool
	version       int16
	state         string
	attempt       int64
	fingerprint   string
	leaseLeft     *int64
	status        *int16
	header, body  []byte
}

func (r *oldRecord) columns() []any {
	return []any{&r.version, &r.state, &r.attempt, &r.fingerprint, &r.leaseLeft, &r.status, &r.header, &r.body}
}

func (o oldProgram) acquire(t *testing.T, c storage.Claim) (r oldRecord) {
	t.Helper()
	row := o.pool.QueryRow(t.Context(), o.statement(t, "acquire"), c.Key, [16]byte(c.Token), c.Fingerprint, c.TTL, c.Retain, c.TakeOver)
	must(t, row.Scan(append([]any{&r.won, &r.tookOver}, r.columns()...)...))
	return r
}

// tries reports whether it got the key. If another caller was faster, version 1 gets
// no row, and would read again.
func (o oldProgram) tries(t *testing.T, c storage.Claim) (bool, error) {
	t.Helper()
	var r oldRecord
	row := o.pool.QueryRow(t.Context(), o.statement(t, "acquire"), c.Key, [16]byte(c.Token), c.Fingerprint, c.TTL, c.Retain, c.TakeOver)
	err := row.Scan(append([]any{&r.won, &r.tookOver}, r.columns()...)...)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return r.won, err
}

// wins expects to get this attempt.
func (o oldProgram) wins(t *testing.T, c storage.Claim, attempt int64) {
	t.Helper()
	if r := o.acquire(t, c); !r.won || r.attempt != attempt || r.tookOver != c.TakeOver {
		t.Errorf("version 1 got %+v, want attempt %d", r, attempt)
	}
}

func (o oldProgram) complete(t *testing.T, c storage.Claim, attempt int64, body string) {
	t.Helper()
	o.changes(t, "complete", c.Key, [16]byte(c.Token), "completed", attempt, attempt > 1, c.Fingerprint, time.Hour,
		int16(201), `[["set","A","b"]]`, []byte(body))
}

// An old program that serves on, or starts again, while a new one has migrated the
// tables already.
func TestProgramOfVersion1OnNewestTables(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	old := oldProgram{pool}

	c := claim("key")
	old.wins(t, c, 1)
	if r := old.acquire(t, claim("key")); r.won || r.state != "in_progress" || r.leaseLeft == nil {
		t.Errorf("version 1 found %+v, want it in progress", r)
	}
	old.changes(t, "extend", c.Key, [16]byte(c.Token), 1, false, c.Fingerprint, time.Minute, time.Hour)
	old.complete(t, c, 1, "old answer")
	if r := find(t, store, claim("key")); string(r.Body) != "old answer" || len(r.Header) != 1 || r.Sketch != nil {
		t.Errorf("the new program found %+v, want the old one's response", r)
	}
	finish(t, store, "new")
	if r := old.acquire(t, claim("new")); r.won || r.version != 1 || r.state != "completed" || string(r.body) != "new" || *r.status != 201 {
		t.Errorf("version 1 found %+v, want the new program's response", r)
	}

	old.wins(t, claim("abandoned"), 1)
	abandon(t, pool, "abandoned")
	next := takeOver("abandoned")
	old.wins(t, next, 2)
	old.changes(t, "releaseLater", next.Key, [16]byte(next.Token), 2, time.Hour)
	if lease := win(t, store, claim("abandoned")); lease.Attempt != 3 {
		t.Errorf("the new program got attempt %d of a key that the old one has released, want 3", lease.Attempt)
	}
	first := claim("released")
	old.wins(t, first, 1)
	old.changes(t, "releaseFirst", first.Key, [16]byte(first.Token), 1)
	win(t, store, first)
	var finished, running bool
	must(t, pool.QueryRow(t.Context(), old.statement(t, "holder"), first.Key, [16]byte(first.Token), 1).Scan(&finished, &running))
	if finished || !running {
		t.Errorf("version 1 takes the new program's claim for finished %t, running %t", finished, running)
	}
}

// Case 1, while a service is deployed: old programs and new ones claim the same key
// by different statements.
func TestExactlyOneOfOldAndNewWins(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	old := oldProgram{pool}
	for round := range 20 {
		key := fmt.Sprint("key", round)
		if round%2 == 1 {
			win(t, store, claim(key))
			abandon(t, pool, key)
		}
		var winners atomic.Int32
		var calls sync.WaitGroup
		for range 10 {
			calls.Go(func() {
				if _, record, err := store.Acquire(t.Context(), takeOver(key)); err != nil {
					t.Error(err)
				} else if record == nil {
					winners.Add(1)
				}
			})
			calls.Go(func() {
				if won, err := old.tries(t, takeOver(key)); err != nil {
					t.Error(err)
				} else if won {
					winners.Add(1)
				}
			})
		}
		calls.Wait()
		if winners.Load() != 1 {
			t.Errorf("%d have won key %q, want 1", winners.Load(), key)
		}
	}
}

func TestOperatorOfVersion1OnNewestTables(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	old := oldProgram{pool}
	for _, key := range []string{"a", "b", "expired"} {
		finish(t, store, key)
	}
	expire(t, pool, "expired")

	var found, listed oldRecord
	must(t, pool.QueryRow(t.Context(), old.statement(t, "lookUp"), "a").Scan(found.columns()...))
	if found.state != "completed" || string(found.body) != "a" {
		t.Errorf("version 1 looks %+v up, want the response", found)
	}
	var key, last string
	var looked int
	must(t, pool.QueryRow(t.Context(), old.statement(t, "window"), "", 10).Scan(&last, &looked))
	must(t, pool.QueryRow(t.Context(), old.statement(t, "list"), "a", last, "completed", 10).Scan(append([]any{&key}, listed.columns()...)...))
	if looked != 3 || key != "b" || listed.state != "completed" {
		t.Errorf("version 1 lists %q of %d, %+v, want b of 3", key, looked, listed)
	}
	old.changes(t, "sweep", 10)
	old.changes(t, "forget", "a")
	win(t, store, claim("a"))
}

// A sketch of another request must not be read, even if no sketch is left then.
func TestOldProgramLeavesNoForeignSketch(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	old := oldProgram{pool}
	finish(t, store, "key")
	if r := find(t, store, claim("key")); string(r.Sketch) != "sketch of key" {
		t.Errorf("the record is %+v, want its sketch", r)
	}
	expire(t, pool, "key")
	c := claim("key")
	old.wins(t, c, 1)
	old.complete(t, c, 1, "second")
	if r := find(t, store, claim("key")); string(r.Body) != "second" || r.Sketch != nil {
		t.Errorf("the record is %+v, want the second response without the first one's sketch", r)
	}
	expire(t, pool, "key")
	finish(t, store, "key")
	if r := find(t, store, claim("key")); string(r.Sketch) != "sketch of key" {
		t.Errorf("the record is %+v, want its sketch again", r)
	}
}

// Rows of version 1 exist after the migration.
func TestMigrationKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	pool := connect(t, postgrestest.Shared(t), nil)
	store, old := pgstore.New(pool), oldProgram{pool}
	must(t, store.MigrateTo(t.Context(), pgstore.Migrations()[:1]))
	running, finished := claim("running"), claim("finished")
	old.wins(t, running, 1)
	old.wins(t, finished, 1)
	old.complete(t, finished, 1, "answer")

	must(t, pgstore.Migrate(t.Context(), pool))

	if r := find(t, store, claim("finished")); string(r.Body) != "answer" || r.Sketch != nil {
		t.Errorf("the record is %+v, want the response", r)
	}
	must(t, store.Complete(t.Context(), storage.Lease{Claim: running, Attempt: 1}, result("late")))
	if r := find(t, store, claim("running")); string(r.Body) != "late" {
		t.Errorf("the record is %+v, want the late response", r)
	}
}
