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

// version4Statements are the statements of programs of version 4, word for word.
// Version 4 knows no tombstones, steps and origins.
//
//go:embed testdata/version4/*.sql
var version4Statements embed.FS

// program4 is a pod of version 4.
type program4 struct{ pool *pgxpool.Pool }

func (p program4) statement(t *testing.T, name string) string {
	t.Helper()
	text, err := version4Statements.ReadFile("testdata/version4/" + name + ".sql")
	must(t, err)
	return string(text)
}

// row4 is what version 4 gets from a claim: the attempt that was won, or a row. Version
// 4 refuses a row whose version is not 1.
type row4 struct {
	won, version int64
	body         []byte
}

func (p program4) acquire(t *testing.T, c storage.Claim) (r row4) {
	t.Helper()
	var leaseLeft, version, attempt, status, won *int64
	var state, fingerprint *string
	var digest *[16]byte
	var header, sketch []byte
	row := p.pool.QueryRow(t.Context(), p.statement(t, "acquire"),
		c.Key, [16]byte(c.Token), c.Fingerprint, c.TTL, c.Retain, c.TakeOver, false, nil)
	must(t, row.Scan(&leaseLeft, &version, &state, &attempt, &fingerprint, &digest, &status, &header, &r.body, &sketch, &won))
	if version != nil {
		r.version = *version
	}
	if won != nil {
		r.won = *won
	}
	return r
}

// wins expects to get this attempt.
func (p program4) wins(t *testing.T, c storage.Claim, want int64) {
	t.Helper()
	if r := p.acquire(t, c); r.won != want {
		t.Errorf("version 4 won attempt %d, want %d", r.won, want)
	}
}

// changes expects a statement to affect so many rows.
func (p program4) changes(t *testing.T, want int64, name string, arguments ...any) {
	t.Helper()
	if rows := execute(t, p.pool, p.statement(t, name), arguments...); rows != want {
		t.Errorf("%s of version 4 affected %d rows, want %d", name, rows, want)
	}
}

func (p program4) extends(t *testing.T, want int64, l storage.Lease) {
	t.Helper()
	p.changes(t, want, "extend", l.Key, [16]byte(l.Token), int64(l.Attempt), l.TookOver, l.Fingerprint, l.TTL, l.Retain, nil)
}

func (p program4) completes(t *testing.T, want int64, l storage.Lease, body string) {
	t.Helper()
	p.changes(t, want, "complete", completion4(l, body)...)
}

func (p program4) restores(t *testing.T, want int64, l storage.Lease, body string) {
	t.Helper()
	p.changes(t, want, "restore", append(completion4(l, body), l.TookOver, l.Fingerprint, nil)...)
}

func completion4(l storage.Lease, body string) []any {
	return []any{
		l.Key, [16]byte(l.Token), "completed", time.Hour, int16(201), `[["set","A","b"]]`, []byte(body), []byte("sketch"), int64(l.Attempt),
	}
}

// settlesNothing expects that no settlement of the lease affects a row.
func (p program4) settlesNothing(t *testing.T, l storage.Lease) {
	t.Helper()
	p.extends(t, 0, l)
	p.completes(t, 0, l, "old")
	p.restores(t, 0, l, "old")
	p.changes(t, 0, "releaseFirst", l.Key, [16]byte(l.Token), int64(l.Attempt))
	p.changes(t, 0, "releaseLater", l.Key, [16]byte(l.Token), int64(l.Attempt), time.Hour)
}

// Pods of version 4 serve on, or start again, while pods of this version have
// migrated the tables. For plain rows they are equals.
func TestProgramOfVersion4OnNewestTables(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	old := program4{pool}

	c := claim("key")
	old.wins(t, c, 1)
	old.extends(t, 1, storage.Lease{Claim: c, Attempt: 1})
	if r := find(t, store, claim("key")); r.State != storage.InProgress || r.Origin != (storage.Origin{}) || r.Created.IsZero() {
		t.Errorf("the new program found %+v, want the old one's claim", r)
	}
	old.completes(t, 1, storage.Lease{Claim: c, Attempt: 1}, "old response")
	if r := find(t, store, claim("key")); string(r.Body) != "old response" || r.Finished.IsZero() || r.Expires.IsZero() {
		t.Errorf("the new program found %+v, want the old one's response", r)
	}

	lease := win(t, store, originated(claim("new")))
	old.extends(t, 1, lease)
	must(t, store.Complete(t.Context(), lease, result("new response")))
	if r := old.acquire(t, claim("new")); r.won != 0 || r.version != 1 || string(r.body) != "new response" {
		t.Errorf("version 4 found %+v, want the new program's response", r)
	}
	win(t, store, originated(claim("abandoned")))
	abandon(t, pool, "abandoned")
	next := takeOver("abandoned")
	old.wins(t, next, -2)
	if r := find(t, store, claim("abandoned")); r.Attempt != 2 || r.Origin != (storage.Origin{}) {
		t.Errorf("the new program found %+v, want attempt 2 without the origin of attempt 1", r)
	}
	old.changes(t, 1, "releaseLater", next.Key, [16]byte(next.Token), 2, time.Hour)
	if third := win(t, store, originated(claim("abandoned"))); third.Attempt != 3 {
		t.Errorf("the new program got attempt %d of a key that the old one has released, want 3", third.Attempt)
	}
}

// A pod of version 4 would lose the steps of a row, or run a key again whose record
// has become a tombstone. So the row is one of a version that it refuses: it responds
// 503, changes nothing and sweeps nothing.
func TestVersion4RefusesStepsAndTombstones(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	old := program4{pool}
	tests := map[string]func(key string) storage.Lease{
		"running with steps": func(key string) storage.Lease { return recorded(t, store, claim(key), "steps") },
		"abandoned with steps": func(key string) storage.Lease {
			lease := recorded(t, store, claim(key), "steps")
			must(t, store.Extend(t.Context(), lease, 0))
			return lease
		},
		"taken over with steps": func(key string) storage.Lease {
			must(t, store.Extend(t.Context(), recorded(t, store, claim(key), "steps"), 0))
			return win(t, store, takeOver(key))
		},
		"running, to be remembered": func(key string) storage.Lease { return win(t, store, remembered(claim(key))) },
		"abandoned, to be remembered": func(key string) storage.Lease {
			lease := win(t, store, remembered(claim(key)))
			must(t, store.Extend(t.Context(), lease, 0))
			return lease
		},
		"renewed after it was lost, to be remembered": func(key string) storage.Lease {
			lease := storage.Lease{Claim: remembered(claim(key)), Attempt: 1}
			must(t, store.Extend(t.Context(), lease, time.Minute))
			return lease
		},
		"finished, to be remembered": func(key string) storage.Lease { return finishRemembered(t, store, key) },
		"finished after it was lost, to be remembered": func(key string) storage.Lease {
			lease := storage.Lease{Claim: remembered(claim(key)), Attempt: 1}
			must(t, store.Complete(t.Context(), lease, rememberedResult(key)))
			return lease
		},
		"a tombstone before the sweep": func(key string) storage.Lease {
			lease := finishRemembered(t, store, key)
			endRetain(t, pool, key)
			return lease
		},
		"a tombstone before the sweep, of an abandoned key": func(key string) storage.Lease {
			lease := win(t, store, remembered(claim(key)))
			endRetain(t, pool, key)
			return lease
		},
		"a tombstone": func(key string) storage.Lease {
			lease := finishRemembered(t, store, key)
			bury(t, store, pool, key)
			return lease
		},
	}
	for key, write := range tests {
		lease := write(key)
		row := func() string {
			return queryOne[string](t, pool, `SELECT (r.*, r.ctid)::text FROM oncekey.records AS r WHERE key = $1`, key)
		}
		before := row()
		old.settlesNothing(t, lease)
		for _, c := range []storage.Claim{takeOver(key), {Key: key, Token: lease.Token, Fingerprint: lease.Fingerprint, TTL: lease.TTL, Retain: lease.Retain}} {
			if r := old.acquire(t, c); r.version != 2 || r.won != 0 {
				t.Errorf("%s: version 4 found %+v, want version 2 and no claim", key, r)
			}
		}
		if after := row(); after != before {
			t.Errorf("%s: the row was %s\nand is %s", key, before, after)
		}
	}
	old.changes(t, 0, "sweep", 1000)
}

// When the tombstone is over, version 4 claims the row, and leaves the columns that it
// does not know. They must not count for its claim.
func TestVersion4LeavesNothingOfTheRowBefore(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	old := program4{pool}
	tests := map[string]func(key string){
		"steps":       func(key string) { recorded(t, store, originated(claim(key)), "old steps") },
		"running":     func(key string) { win(t, store, originated(remembered(claim(key)))) },
		"finished":    func(key string) { finishRemembered(t, store, key) },
		"over":        func(key string) { finishRemembered(t, store, key); endRetain(t, pool, key) },
		"a tombstone": func(key string) { finishRemembered(t, store, key); bury(t, store, pool, key) },
	}
	for key, write := range tests {
		write(key)
		expire(t, pool, key)
		c := claim(key)
		old.wins(t, c, 1)
		execute(t, pool, `UPDATE oncekey.records SET retain_until = now() - interval '1 day', retain_hour = now() - interval '1 day'
			WHERE key = $1 AND retain_hour IS NOT NULL`, key)
		if r := find(t, store, claim(key)); r.State != storage.InProgress || r.Steps != "" || r.Origin != (storage.Origin{}) ||
			r.Fingerprint != c.Fingerprint || time.Until(r.Expires) > 2*time.Hour {
			t.Errorf("%s: the new program found %+v, want the old one's claim", key, r)
		}
		if _, err := store.Sweep(t.Context(), 1000); err != nil {
			t.Error(err)
		}
		if r := find(t, store, claim(key)); r.State != storage.InProgress {
			t.Errorf("%s: after a sweep the new program found %+v, want the old one's claim", key, r)
		}
		if listAll(t, store, storage.InProgress, 10)[key] == nil {
			t.Errorf("%s: the old program's claim is not listed", key)
		}
		abandon(t, pool, key)
		lease := win(t, store, takeOver(key))
		if lease.Attempt != 2 || lease.Steps != "" {
			t.Errorf("%s: the new program took over %+v, want attempt 2 without steps", key, lease)
		}
		must(t, store.Complete(t.Context(), lease, result("second")))
		if r := find(t, store, claim(key)); string(r.Body) != "second" {
			t.Errorf("%s: the record is %+v, want the second response", key, r)
		}
		if version := queryOne[int](t, pool, `SELECT version FROM oncekey.records WHERE key = $1`, key); version != 1 {
			t.Errorf("%s: the row has version %d, want 1 for the old program", key, version)
		}
	}
}

// Rows of version 4 are plain rows after the migration, and their leases go on.
func TestMigrationFromVersion4(t *testing.T) {
	t.Parallel()
	pool := connect(t, postgrestest.Shared(t), nil)
	store, old := pgstore.New(pool), program4{pool}
	must(t, store.MigrateTo(t.Context(), pgstore.Migrations()[:4]))
	finished, abandoned, running := claim("finished"), claim("abandoned"), claim("running")
	for _, c := range []storage.Claim{finished, abandoned, running} {
		old.wins(t, c, 1)
	}
	old.completes(t, 1, storage.Lease{Claim: finished, Attempt: 1}, "response")
	abandon(t, pool, "abandoned")

	must(t, pgstore.Migrate(t.Context(), pool))

	if r := find(t, store, claim("finished")); string(r.Body) != "response" || r.Created.IsZero() || r.Finished.IsZero() {
		t.Errorf("the record is %+v, want the response", r)
	}
	if lease := win(t, store, remembered(takeOver("abandoned"))); lease.Attempt != 2 || lease.Steps != "" {
		t.Errorf("the lease is %+v, want attempt 2", lease)
	}
	lease := storage.Lease{Claim: running, Attempt: 1, Steps: "steps"}
	must(t, store.Extend(t.Context(), lease, time.Minute))
	must(t, store.Complete(t.Context(), lease, rememberedResult("late")))
	if r := find(t, store, claim("running")); string(r.Body) != "late" {
		t.Errorf("the record is %+v, want the late response", r)
	}
}
