package pgstore_test

import (
	"embed"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	postgrestest "github.com/oncekey/oncekey/core/internal/testkit/postgres"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
)

// version3Statements are the statements of programs of version 3, word for word.
// Version 3 knows no digests.
//
//go:embed testdata/version3/*.sql
var version3Statements embed.FS

// program3 is a pod of version 3.
type program3 struct{ pool *pgxpool.Pool }

func (p program3) statement(t *testing.T, name string) string {
	t.Helper()
	text, err := version3Statements.ReadFile("testdata/version3/" + name + ".sql")
	must(t, err)
	return string(text)
}

// changes expects a statement to affect one row.
func (p program3) changes(t *testing.T, name string, arguments ...any) {
	t.Helper()
	if rows := execute(t, p.pool, p.statement(t, name), arguments...); rows != 1 {
		t.Errorf("%s of version 3 affected %d rows, want 1", name, rows)
	}
}

// acquire returns the attempt that was won, negative for one that was taken over,
// or 0 and the record's fingerprint.
func (p program3) acquire(t *testing.T, c storage.Claim) (won int64, fingerprint string) {
	t.Helper()
	var leaseLeft, version, attempt, status, wonOrNull *int64
	var state, found *string
	var header, body, sketch []byte
	row := p.pool.QueryRow(t.Context(), p.statement(t, "acquire"), c.Key, [16]byte(c.Token), c.Fingerprint, c.TTL, c.Retain, c.TakeOver, false)
	must(t, row.Scan(&leaseLeft, &version, &state, &attempt, &found, &status, &header, &body, &sketch, &wonOrNull))
	if found != nil {
		fingerprint = *found
	}
	if wonOrNull != nil {
		won = *wonOrNull
	}
	return won, fingerprint
}

// wins expects to get this attempt.
func (p program3) wins(t *testing.T, c storage.Claim, want int64) {
	t.Helper()
	if won, _ := p.acquire(t, c); won != want {
		t.Errorf("version 3 won attempt %d, want %d", won, want)
	}
}

func (p program3) complete(t *testing.T, c storage.Claim, attempt int64, body string) {
	t.Helper()
	p.changes(t, "complete", c.Key, [16]byte(c.Token), "completed", time.Hour, int16(201), `[["set","A","b"]]`, []byte(body),
		[]byte("sketch"), attempt)
}

// Case 40: pods of version 3 serve on, or start again, while pods of this version
// have migrated the tables.
func TestProgramOfVersion3OnNewestTables(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	old := program3{pool}

	c := claim("key")
	old.wins(t, c, 1)
	old.changes(t, "extend", c.Key, [16]byte(c.Token), 1, false, c.Fingerprint, time.Minute, time.Hour)
	old.complete(t, c, 1, "old response")
	r := find(t, store, digested(claim("key"), "request"))
	if string(r.Body) != "old response" || r.Fingerprint != c.Fingerprint || r.Digest != (storage.Digest{}) || string(r.Sketch) != "sketch" {
		t.Errorf("the new program found %+v, want the old one's response without a digest", r)
	}
	lease := win(t, store, digested(claim("new"), "request"))
	must(t, store.Complete(t.Context(), lease, result("new response")))
	if won, fingerprint := old.acquire(t, claim("new")); won != 0 || fingerprint != lease.Fingerprint {
		t.Errorf("version 3 won attempt %d and found fingerprint %q, want the new program's record", won, fingerprint)
	}
}

// Case 40: each version takes over from the other one. Version 3 compares
// fingerprints alone.
func TestTakeOverBetweenVersion3AndThis(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	old := program3{pool}

	first := takeOver("key")
	first.Digest[0] = 1
	win(t, store, first)
	abandon(t, pool, "key")
	foreign := takeOver("key")
	foreign.Fingerprint = "sha256:other"
	old.wins(t, foreign, 0)
	old.wins(t, takeOver("key"), -2)
	abandon(t, pool, "key")
	// The digest that is still in the row is the first attempt's, and not version 3's.
	other := takeOver("key")
	other.Digest, other.Fingerprint = first.Digest, "sha256:other"
	if r := find(t, store, other); r.Digest != (storage.Digest{}) {
		t.Errorf("the record is %+v, want no digest of an attempt that is over", r)
	}
	if lease := win(t, store, takeOver("key")); lease.Attempt != 3 || !lease.TookOver {
		t.Errorf("the lease is %+v, want attempt 3, taken over", lease)
	}
}

// Case 40: rows of version 3 have no digest after the migration, and their leases
// go on.
func TestMigrationFromVersion3(t *testing.T) {
	t.Parallel()
	pool := connect(t, postgrestest.Shared(t), nil)
	store, old := pgstore.New(pool), program3{pool}
	must(t, store.MigrateTo(t.Context(), pgstore.Migrations()[:3]))
	finished, abandoned, running := claim("finished"), claim("abandoned"), claim("running")
	for _, c := range []storage.Claim{finished, abandoned, running} {
		old.wins(t, c, 1)
	}
	old.complete(t, finished, 1, "response")
	abandon(t, pool, "abandoned")

	must(t, pgstore.Migrate(t.Context(), pool))

	if r := find(t, store, claim("finished")); string(r.Body) != "response" || r.Digest != (storage.Digest{}) {
		t.Errorf("the record is %+v, want the response without a digest", r)
	}
	if r := find(t, store, digested(takeOver("abandoned"), "request")); r.State != storage.InProgress || r.LeaseLeft > 0 {
		t.Errorf("the record is %+v, want it abandoned", r)
	}
	if lease := win(t, store, takeOver("abandoned")); lease.Attempt != 2 {
		t.Errorf("the lease is %+v, want attempt 2", lease)
	}
	must(t, store.Complete(t.Context(), storage.Lease{Claim: running, Attempt: 1}, result("late")))
	if r := find(t, store, claim("running")); string(r.Body) != "late" {
		t.Errorf("the record is %+v, want the late response", r)
	}
}
