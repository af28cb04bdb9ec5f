package pgstore_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
)

// checks are the checks of Examine, in their order.
var checks = []string{
	"connection", "version", "constraints and triggers", "primary", "durability", "write-ahead log", "synchronous standbys", "time limits", "autovacuum",
	"fillfactor", "index size", "schema version", "table and rights", "pooler", "sweeping", "clock", "round trip", "canary",
}

// examined returns the finding of each check.
func examined(t *testing.T, pool *pgxpool.Pool, options ...pgstore.Option) map[string]storage.Finding {
	t.Helper()
	return testkit.Examined(t, pgstore.New(pool, options...).Examine(t.Context()), checks)
}

// A server of its own: first all is good, and then its settings are made wrong.
func TestExamineServer(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Durable()...)
	admin := migrated(t, server.DSN())
	examine := func(settings string) map[string]storage.Finding {
		t.Helper()
		return examined(t, connect(t, server.DSN()+settings))
	}
	findings := examine("")
	for check, f := range findings {
		wantFinding(t, findings, check, storage.Good, f.Seen)
	}
	counts(t, admin, 0, `SELECT count(*) FROM oncekey_records`)
	wantFinding(t, examine("&synchronous_commit=off"), "durability", storage.Mend, "synchronous_commit off")
	wantFinding(t, examined(t, admin, pgstore.AsynchronousClaims()), "durability", storage.Look, "AsynchronousClaims")
	findings = examine("&statement_timeout=1000&lock_timeout=60000")
	wantFinding(t, findings, "time limits", storage.Look, "statement_timeout 1000ms", "lock_timeout 60000ms", "raise those below 3000ms")

	standby := server.Standby()
	findings = examined(t, connect(t, standby.DSN()))
	wantFinding(t, findings, "primary", storage.Mend, "lead the pool to the primary, by target_session_attrs=read-write")
	wantFinding(t, findings, "canary", storage.Mend, "read-only")
	eventually(t, func() bool { return queryOne[int](t, admin, `SELECT count(*) FROM pg_stat_replication`) == 1 })
	wantFinding(t, examine(""), "synchronous standbys", storage.Look, "1 standbys", "set synchronous_standby_names")
	execute(t, admin, `ALTER SYSTEM SET synchronous_standby_names = 'nobody'`)
	execute(t, admin, `SELECT pg_reload_conf()`)
	wantFinding(t, examine("&synchronous_commit=local"), "synchronous standbys", storage.Look, "synchronous_commit on")
	standby.Kill()
	short, cancel := context.WithTimeout(t.Context(), 5*time.Second) // no commit ever ends
	defer cancel()
	findings = testkit.Examined(t, pgstore.New(connect(t, server.DSN())).Examine(short), checks)
	wantFinding(t, findings, "synchronous standbys", storage.Mend, "0 standbys", "start the standbys")
	wantFinding(t, findings, "canary", storage.Mend, "claim: ", "deadline exceeded")
}

// Each test has a database of its own.
func TestExamineFindsWrongTables(t *testing.T) {
	t.Parallel()
	wide := make([]byte, 700)
	_, _ = rand.Read(wide)
	type test struct {
		statements, check string
		grade             storage.Grade
		texts             []string
	}
	testkit.Each(t, map[string]test{
		"no disk":                      {``, "durability", storage.Mend, []string{"fsync off"}},
		"an unlogged table":            {`ALTER TABLE oncekey_records SET UNLOGGED`, "write-ahead log", storage.Mend, []string{"not of oncekey_records", "SET LOGGED"}},
		"no table":                     {`DROP TABLE oncekey_records`, "table and rights", storage.Mend, []string{"missing", "pgstore.Migrate"}},
		"a check by hand, in one line": {`DROP TABLE oncekey_records`, "fillfactor", storage.Skipped, []string{"check by hand: SELECT (factor"}},
		"no versions":                  {`DROP TABLE oncekey_records_migrations`, "schema version", storage.Skipped, []string{"pgstore.Migrate"}},
		"an old schema":                {`DELETE FROM oncekey_records_migrations`, "schema version", storage.Mend, []string{"version 0", "pgstore.Migrate"}},
		"a constraint":                 {`ALTER TABLE oncekey_records ADD CONSTRAINT narrow CHECK (true)`, "constraints and triggers", storage.Look, []string{"narrow"}},
		"no autovacuum":                {`ALTER TABLE oncekey_records SET (autovacuum_enabled = false)`, "autovacuum", storage.Mend, []string{"set autovacuum on"}},
		"no sweeper":                   {filling("key", 500) + `; UPDATE oncekey_records SET sweep_after = 1`, "sweeping", storage.Look, []string{"RunSweeper", "500 expired"}},
		"full pages":                   {`ALTER TABLE oncekey_records SET (fillfactor = 100)`, "fillfactor", storage.Look, []string{"fillfactor 100"}},
		"the default fillfactor":       {`ALTER TABLE oncekey_records RESET (fillfactor)`, "fillfactor", storage.Look, []string{"fillfactor 100"}},
		"a large index": {
			`ALTER TABLE oncekey_records ALTER record_key TYPE text; ` + filling(hex.EncodeToString(wide), 8000),
			"index size", storage.Look,
			[]string{"REINDEX INDEX CONCURRENTLY"},
		},
	}, func(t *testing.T, test test) {
		_, pool := open(t)
		execute(t, pool, test.statements)
		wantFinding(t, examined(t, pool), test.check, test.grade, test.texts...)
	})
}

// Behind a pooler a pool in the mode exec is right.
func TestExaminePooler(t *testing.T) {
	t.Parallel()
	_, direct := open(t)
	dsn := bouncer(t, direct.Config().ConnString())
	wantFinding(t, examined(t, connect(t, dsn)), "pooler", storage.Look, "default_query_exec_mode=exec")
	findings := examined(t, connect(t, dsn+"&default_query_exec_mode=exec"))
	wantFinding(t, findings, "pooler", storage.Good, "a pooler, query mode exec")
	wantFinding(t, findings, "canary", storage.Good, "replayed")
}

// The server counts dead rows in its own time.
func TestExamineFindsDeadRows(t *testing.T) {
	t.Parallel()
	_, pool := open(t)
	execute(t, pool, `ALTER TABLE oncekey_records SET (autovacuum_vacuum_threshold = 1000000); `+filling("key", 1500))
	execute(t, pool, `DELETE FROM oncekey_records`)
	eventually(t, func() bool {
		f := examined(t, pool)["autovacuum"]
		return f.Grade == storage.Look && strings.Contains(f.Seen, "dead rows of")
	})
}

// A role that lacks a right is told which GRANT it needs.
func TestExamineNamesGrants(t *testing.T) {
	t.Parallel()
	r := granted(t)
	service := r.as(t, r.service)
	findings := examined(t, service, inSchema)
	for _, check := range checks {
		if check != "durability" && check != "schema version" {
			wantFinding(t, findings, check, storage.Good, "")
		}
	}
	execute(t, r.admin, `REVOKE SELECT ON oncekey.records_migrations FROM `+r.service)
	execute(t, r.admin, `ALTER TABLE oncekey.records ENABLE ROW LEVEL SECURITY`)
	findings = examined(t, service, inSchema)
	wantFinding(t, findings, "schema version", storage.Skipped, "let this role read oncekey.records_migrations")
	wantFinding(t, findings, "table and rights", storage.Mend, "ALTER TABLE oncekey.records DISABLE ROW LEVEL SECURITY")
	wantFinding(t, findings, "canary", storage.Mend, "claim: ", "row-level security")
	execute(t, r.admin, `REVOKE UPDATE, DELETE ON oncekey.records FROM `+r.service)
	wantFinding(t, examined(t, service, inSchema), "table and rights", storage.Mend, `GRANT UPDATE, DELETE ON oncekey.records TO`)
}

// Case 47: a refused connection is an error at once, which names its cause. Of a server that
// is down only the connection is judged.
func TestRefusedConnection(t *testing.T) {
	t.Parallel()
	pool := connect(t, "postgres://shop@127.0.0.1:1/shop?sslmode=disable") // no other test's server takes this port
	fails(t, "Acquire", limited(t, 10*time.Second, func(ctx context.Context) error {
		return acquire(ctx, pgstore.New(pool), claim("key")).err
	}), syscall.ECONNREFUSED)
	findings := examined(t, pool)
	wantFinding(t, findings, "connection", storage.Mend, "refused")
	for _, check := range checks[1:] {
		wantFinding(t, findings, check, storage.Skipped, "mend the connection")
	}
}
