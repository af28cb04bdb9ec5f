package sqlstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// Programs set their pools up in other ways than these tests: behind a pooler, with
// other isolation levels, time zones and counts of rows.
func TestSettingsOfPools(t *testing.T) {
	t.Parallel()
	for base, settings := range map[*setUp][]string{
		&postgresql: {
			"&default_query_exec_mode=exec", "&default_query_exec_mode=simple_protocol", "&default_transaction_isolation=serializable",
			"&timezone=Asia/Kathmandu",
		},
		&mysqlServer: {
			"?interpolateParams=true", "?clientFoundRows=true", "?time_zone='%2B05:45'", "?transaction_isolation='SERIALIZABLE'",
			"?transaction_isolation='READ-COMMITTED'", "?sql_mode='ANSI'", "?collation=utf8mb4_0900_ai_ci", "?tls=skip-verify",
		},
		&mariadb: {
			"?interpolateParams=true", "?clientFoundRows=true", "?time_zone='%2B05:45'", "?tx_isolation='SERIALIZABLE'",
			"?tx_isolation='READ-COMMITTED'", "?sql_mode='ANSI'",
		},
		&sqliteWAL: {"&_txlock=immediate"},
		// Not a setting of sqliteWAL: a change of a file's mode fails while another connection reads.
		{name: "SQLite", driver: "sqlite", database: "sqlite", dialect: sqlstore.SQLite(), dsn: sqliteFile(quick)}: {"&_pragma=journal_mode(DELETE)"},
	} {
		for _, setting := range settings {
			t.Run(base.name+setting, func(t *testing.T) {
				t.Parallel()
				s := *base
				s.dsn = func(t testing.TB) string { return base.dsn(t) + setting }
				store, _ := s.open(t)
				goThroughLife(t, store, "key")
				race(t, store, 16, claim, 1)
			})
		}
	}
}

// A connection that commits nothing would keep no record, and each claim would block those of other processes.
// In two modes of MariaDB the statements have another meaning, or none.
func TestConnectionThatKeepsNoRecords(t *testing.T) {
	t.Parallel()
	over(t, ofMySQL, func(t *testing.T, s setUp) {
		remedies := map[string]string{"autocommit=0": "set autocommit=1", "completion_type=1": "set completion_type=NO_CHAIN"}
		if s.name == mariadb.name {
			remedies["sql_mode='ORACLE'"], remedies["sql_mode='EMPTY_STRING_IS_NULL'"] = "take ORACLE", "EMPTY_STRING_IS_NULL out"
		}
		for setting, remedy := range remedies {
			t.Run(setting, func(t *testing.T) {
				store := s.openWith(t, "?"+setting)
				_, _, err := store.Acquire(t.Context(), claim("key"))
				fails(t, "Acquire", err, storage.ErrNotStorable, remedy)
				fails(t, "Check", store.Check(t.Context()), storage.ErrNotStorable, remedy)
				unmigrated := s.connect(t, s.dsn(t)+"?"+setting)
				fails(t, "Migrate", sqlstore.Migrate(t.Context(), unmigrated, s.dialect), storage.ErrNotStorable, remedy)
			})
		}
	})
}

// Examine names the settings that lose records, and those that hold.
func TestExamine(t *testing.T) {
	t.Parallel()
	over(t, all, func(t *testing.T, s setUp) {
		store, db := s.open(t)
		findings := examined(t, store)
		for _, f := range findings {
			if f.Seen == "" {
				t.Errorf("the finding %+v lacks what it has seen", f)
			}
		}
		want := map[string]map[string]storage.Grade{
			// The tests' servers and files do not wait for the disk.
			"postgresql": {"table and rights": storage.Good, "durability": storage.Mend, "primary": storage.Good, "fillfactor": storage.Good, "sweeping": storage.Good},
			"mysql":      {"table and rights": storage.Good, "innodb_flush_log_at_trx_commit": storage.Good, "storage engine": storage.Good, "sql_mode": storage.Good, "autocommit": storage.Good, "read_only": storage.Good},
			"sqlite":     {"table and rights": storage.Good, "journal_mode": storage.Good, "synchronous": storage.Mend, "busy_timeout": storage.Good, "file": storage.Good},
		}[s.database]
		switch s.name {
		case sqliteJournal.name:
			want["journal_mode"] = storage.Look
		case sqliteMemory.name:
			want = map[string]storage.Grade{"table and rights": storage.Good, "journal_mode": storage.Mend, "file": storage.Mend}
		}
		for check, grade := range want {
			wantFinding(t, findings, check, grade, "")
		}
		execute(t, db, `DROP TABLE oncekey_records`)
		findings = examined(t, store)
		wantFinding(t, findings, "table and rights", storage.Mend, "sqlstore.Migrate")
		if advice := findings["table and rights"].Advice; strings.Contains(advice, "GRANT") || strings.Contains(advice, "access") {
			t.Errorf("without a table the advice is %q", advice)
		}
	})
}

// examined returns the finding of each check.
func examined(t *testing.T, store *sqlstore.Store) map[string]storage.Finding {
	t.Helper()
	findings := map[string]storage.Finding{}
	for _, f := range store.Examine(t.Context()) {
		findings[f.Check] = f
		if f.Grade != storage.Good && f.Advice == "" {
			t.Errorf("the finding %+v lacks its advice", f)
		}
	}
	return findings
}

func TestExamineOfSettingsThatLoseRecords(t *testing.T) {
	t.Parallel()
	for check, s := range map[string]setUp{
		"file":         sqliteMemory,
		"synchronous":  {driver: "sqlite", database: "sqlite", dialect: sqlstore.SQLite(), dsn: sqliteFile("_pragma=synchronous(NORMAL)")},
		"journal_mode": {driver: "sqlite", database: "sqlite", dialect: sqlstore.SQLite(), dsn: sqliteFile("")},
		"sql_mode":     {driver: "mysql", database: "mysql", dialect: sqlstore.MySQL(), dsn: func(t testing.TB) string { return mysqlServer.dsn(t) + "?sql_mode=''" }},
	} {
		t.Run(check, func(t *testing.T) {
			t.Parallel()
			store, _ := s.open(t)
			if f := examined(t, store)[check]; f.Grade == storage.Good {
				t.Errorf("the finding is %+v, want a warning", f)
			}
		})
	}
}

func TestNonsense(t *testing.T) {
	t.Parallel()
	store, db := sqliteMemory.open(t)
	testkit.Panics(t, map[string]func(){
		"New without a pool":          func() { sqlstore.New(nil, sqlstore.SQLite()) },
		"New without a dialect":       func() { sqlstore.New(db, sqlstore.Dialect{}) },
		"a table without a name":      func() { sqlstore.Table("") },
		"a table with a quoted name":  func() { sqlstore.Table(`"records"`) },
		"sweeping without a pause":    func() { store.RunSweeper(t.Context(), 10) },
		"migrations without dialects": func() { sqlstore.Migrations(sqlstore.Dialect{}) },
	})
	testkit.PanicsWith(t, func() { sqlstore.Migrations(sqlstore.SQLite(), nil) }, "sqlstore: option 1 is nil: leave it out")
	for _, batch := range []int{-1, 0, 10_001} {
		if _, err := store.Sweep(t.Context(), batch); err == nil || !strings.Contains(err.Error(), fmt.Sprint(batch)) {
			t.Errorf("a sweep in batches of %d returned %v, want an error", batch, err)
		}
	}
}
