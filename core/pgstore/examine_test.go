package pgstore_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core/internal/testkit"
	postgrestest "github.com/oncekey/oncekey/core/internal/testkit/postgres"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
)

// checks are the checks of Examine, in their order.
var checks = []string{
	"connection", "version", "constraints and triggers", "primary", "durability", "synchronous standbys", "time limits", "autovacuum",
	"fillfactor", "index size", "schema version", "table and rights", "pooler", "sweeping", "clock", "round trip", "canary",
}

// examined returns the finding of each check.
func examined(ctx context.Context, t *testing.T, store *pgstore.Store) map[string]storage.Finding {
	t.Helper()
	return testkit.Examined(t, store.Examine(ctx), checks)
}

// session changes the settings of a pool's sessions.
func session(settings ...string) func(*pgxpool.Config) {
	return func(config *pgxpool.Config) {
		for i := 0; i < len(settings); i += 2 {
			config.ConnConfig.RuntimeParams[settings[i]] = settings[i+1]
		}
	}
}

// A server of its own: first all is good, and then its settings are made wrong.
func TestExamineServer(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Durable()...)
	admin := migrated(t, server.DSN(), nil)
	examine := func(change func(*pgxpool.Config), options ...pgstore.Option) map[string]storage.Finding {
		return examined(t.Context(), t, pgstore.New(connect(t, server.DSN(), change), options...))
	}
	findings := examine(nil)
	for check, f := range findings {
		wantFinding(t, findings, check, storage.Good, f.Seen)
	}
	if rows := queryOne[int](t, admin, `SELECT count(*) FROM oncekey_records`); rows != 0 {
		t.Errorf("Examine has left %d rows", rows)
	}
	wantFinding(t, examine(session("synchronous_commit", "off")), "durability", storage.Mend, "synchronous_commit off")
	wantFinding(t, examine(nil, pgstore.AsynchronousClaims()), "durability", storage.Look, "AsynchronousClaims")
	findings = examine(session("statement_timeout", "1000", "lock_timeout", "60000"))
	wantFinding(t, findings, "time limits", storage.Look, "statement_timeout 1000ms", "lock_timeout 60000ms", "raise those below 3000ms")

	standby := server.Standby()
	findings = examined(t.Context(), t, pgstore.New(connect(t, standby.DSN(), nil)))
	wantFinding(t, findings, "primary", storage.Mend, "lead the pool to the primary")
	wantFinding(t, findings, "canary", storage.Mend, "read-only")
	wantFinding(t, examine(nil), "synchronous standbys", storage.Look, "1 standbys", "set synchronous_standby_names")
	execute(t, admin, `ALTER SYSTEM SET synchronous_standby_names = 'nobody'`)
	execute(t, admin, `SELECT pg_reload_conf()`)
	wantFinding(t, examine(session("synchronous_commit", "local")), "synchronous standbys", storage.Look, "synchronous_commit on")
	standby.Kill()
	short, cancel := context.WithTimeout(t.Context(), 5*time.Second) // no commit ever ends
	defer cancel()
	findings = examined(short, t, pgstore.New(connect(t, server.DSN(), nil)))
	wantFinding(t, findings, "synchronous standbys", storage.Mend, "0 standbys", "start the standbys")
	wantFinding(t, findings, "canary", storage.Mend, "claim: ", "deadline exceeded")
}

// Each test has a database of its own.
func TestExamineFindsWrongTables(t *testing.T) {
	t.Parallel()
	wide := make([]byte, 700)
	_, _ = rand.Read(wide)
	for _, test := range []struct {
		name    string
		prepare func(t *testing.T, pool *pgxpool.Pool)
		check   string
		grade   storage.Grade
		texts   []string
	}{
		{"no disk", func(*testing.T, *pgxpool.Pool) {}, "durability", storage.Mend, []string{"fsync off"}},
		{"no table", running(`DROP TABLE oncekey_records`), "table and rights", storage.Mend, []string{"missing", "pgstore.Migrate"}},
		{"no versions", running(`DROP TABLE oncekey_records_migrations`), "schema version", storage.Skipped, []string{"pgstore.Migrate"}},
		{"an old schema", running(`DELETE FROM oncekey_records_migrations`), "schema version", storage.Mend, []string{"version 0", "pgstore.Migrate"}},
		{"a constraint", running(`ALTER TABLE oncekey_records ADD CONSTRAINT narrow CHECK (true)`), "constraints and triggers", storage.Look, []string{"narrow"}},
		{"no autovacuum", running(`ALTER TABLE oncekey_records SET (autovacuum_enabled = false)`), "autovacuum", storage.Mend, []string{"set autovacuum on"}},
		{"no sweeper", func(t *testing.T, pool *pgxpool.Pool) {
			t.Helper()
			fill(t, pool, "key", 500)
			expire(t, pool, "%")
		}, "sweeping", storage.Look, []string{"RunSweeper", "500 expired"}},
		{"full pages", running(`ALTER TABLE oncekey_records SET (fillfactor = 100)`), "fillfactor", storage.Look, []string{"fillfactor 100"}},
		{"the default fillfactor", running(`ALTER TABLE oncekey_records RESET (fillfactor)`), "fillfactor", storage.Look, []string{"fillfactor 100"}},
		{"a large index", func(t *testing.T, pool *pgxpool.Pool) {
			t.Helper()
			execute(t, pool, `ALTER TABLE oncekey_records ALTER record_key TYPE text`)
			fill(t, pool, hex.EncodeToString(wide), 8000)
		}, "index size", storage.Look, []string{"REINDEX INDEX CONCURRENTLY"}},
		{"a pooler", nil, "pooler", storage.Look, []string{"default_query_exec_mode=exec"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dsn := postgrestest.Shared(t)
			pool := migrated(t, dsn, nil)
			if test.prepare == nil {
				pool = connect(t, bouncer(t, dsn), nil)
			} else {
				test.prepare(t, pool)
			}
			wantFinding(t, examined(t.Context(), t, pgstore.New(pool)), test.check, test.grade, test.texts...)
		})
	}
}

func running(statement string) func(*testing.T, *pgxpool.Pool) {
	return func(t *testing.T, pool *pgxpool.Pool) { t.Helper(); execute(t, pool, statement) }
}

// The server counts dead rows in its own time.
func TestExamineFindsDeadRows(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	fill(t, pool, "key", 1500)
	// With an old snapshot no reader of a page removes the dead rows.
	old, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	must(t, err)
	defer func() { _ = old.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = old.Exec(t.Context(), `SELECT FROM oncekey_records LIMIT 1`)
	must(t, err)
	for range 3 {
		execute(t, pool, `UPDATE oncekey_records SET status = 200`)
	}
	eventually(t, func() bool {
		f := examined(t.Context(), t, store)["autovacuum"]
		return f.Grade == storage.Look && strings.Contains(f.Seen, "dead rows of") || queryOne[bool](t, pool, vacuumed)
	})
}

// vacuumed: autovacuum was there first, as on a busy machine.
const vacuumed = `SELECT coalesce(last_autovacuum IS NOT NULL, false) FROM pg_stat_user_tables WHERE relname = 'oncekey_records'`

// A role that lacks a right is told which GRANT it needs.
func TestExamineNamesGrants(t *testing.T) {
	t.Parallel()
	r := granted(t)
	service := r.as(t, r.service)
	findings := examined(t.Context(), t, pgstore.New(service, inSchema))
	for _, check := range checks {
		if check != "durability" && check != "schema version" {
			wantFinding(t, findings, check, storage.Good, "")
		}
	}
	execute(t, r.admin, `REVOKE SELECT ON oncekey.records_migrations FROM `+r.service)
	execute(t, r.admin, `ALTER TABLE oncekey.records ENABLE ROW LEVEL SECURITY`)
	findings = examined(t.Context(), t, pgstore.New(service, inSchema))
	wantFinding(t, findings, "schema version", storage.Skipped, "let this role read oncekey.records_migrations")
	wantFinding(t, findings, "table and rights", storage.Good, "oncekey.records")
	wantFinding(t, findings, "canary", storage.Mend, "claim: ", "row-level security")
	execute(t, r.admin, `REVOKE UPDATE, DELETE ON oncekey.records FROM `+r.service)
	wantFinding(t, examined(t.Context(), t, pgstore.New(service, inSchema)), "table and rights", storage.Mend, `GRANT UPDATE, DELETE ON oncekey.records TO`)
}

// Behind a pooler a pool in the mode exec is right.
func TestExaminePoolerInModeExec(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.Shared(t)
	migrated(t, dsn, nil)
	pool := connect(t, bouncer(t, dsn), func(config *pgxpool.Config) { config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec })
	findings := examined(t.Context(), t, pgstore.New(pool))
	wantFinding(t, findings, "pooler", storage.Good, "a pooler, query mode exec")
	wantFinding(t, findings, "canary", storage.Good, "replayed")
}

// Of a server that is down only the connection is judged.
func TestExamineUnreachable(t *testing.T) {
	t.Parallel()
	findings := examined(t.Context(), t, pgstore.New(connect(t, "postgres://postgres@127.0.0.1:1/postgres", nil)))
	wantFinding(t, findings, "connection", storage.Mend, "refused")
	for _, check := range checks[1:] {
		wantFinding(t, findings, check, storage.Skipped, "mend the connection")
	}
}
