package sqlstore_test

import (
	"fmt"
	"testing"
	"time"
)

// A pool without idle connections prepares each statement for each call.
func TestPoolWithoutIdleConnections(t *testing.T) {
	t.Parallel()
	over(t, outlasting, func(t *testing.T, s setUp) {
		store, db := s.open(t)
		db.SetMaxIdleConns(-1)
		goThroughLife(t, store)
		if winners := race(t, store, "raced"); winners != 1 {
			t.Errorf("%d callers got the lease, want 1", winners)
		}
		if open := db.Stats().OpenConnections; open != 0 {
			t.Errorf("%d connections are open, want none", open)
		}
	})
}

// A table may change while its statements are prepared: columns are added or get
// another type, or the table is made anew.
func TestTableChangesUnderPreparedStatements(t *testing.T) {
	t.Parallel()
	over(t, outlasting, func(t *testing.T, s setUp) {
		store, db := s.open(t)
		use := func(key string) {
			must(t, store.Release(t.Context(), win(t, store, claim(key))))
			lease := win(t, store, claim(key))
			must(t, store.Extend(t.Context(), lease, 0))
			must(t, store.Complete(t.Context(), win(t, store, takeOver(key)), result(key)))
		}
		use("before")
		changes := map[string][]string{
			"postgresql": {
				`ALTER TABLE oncekey_records ADD COLUMN extra int`, `ALTER TABLE oncekey_records ALTER COLUMN sketch TYPE text USING encode(sketch, 'escape')`,
				`ALTER TABLE oncekey_records ALTER COLUMN sketch TYPE bytea USING sketch::bytea`,
			},
			"mysql": {
				`ALTER TABLE oncekey_records ADD COLUMN extra int FIRST`, `ALTER TABLE oncekey_records MODIFY sketch longtext`,
				`ALTER TABLE oncekey_records MODIFY sketch blob`,
			},
			"sqlite": {
				`ALTER TABLE oncekey_records ADD COLUMN extra int`, `CREATE TABLE copied AS SELECT * FROM oncekey_records`,
				`DROP TABLE oncekey_records`, `ALTER TABLE copied RENAME TO oncekey_records`, `CREATE UNIQUE INDEX k ON oncekey_records (record_key)`,
			},
		}[s.database]
		for i, change := range changes {
			execute(t, db, change)
			if s.database == "sqlite" && i > 0 && i < len(changes)-1 {
				continue // the table is not whole
			}
			if r := find(t, store, claim("before")); string(r.Body) != "before" || string(r.Sketch) != "sketch of before" {
				t.Errorf("after %s the record is %+v, want it whole", change, r)
			}
			use(fmt.Sprint("after ", i))
		}
	})
}

// MySQL's errors 1615 and 1243: the server or a proxy has lost a prepared statement.
func TestLostStatementIsPreparedAgain(t *testing.T) {
	t.Parallel()
	store, db := mariadb.open(t)
	must(t, store.Check(t.Context()))
	execute(t, db, `CREATE TABLE tries (n int) ENGINE = MyISAM`) // its rows outlive the rollback
	execute(t, db, `CREATE TRIGGER refuse BEFORE INSERT ON oncekey_records FOR EACH ROW BEGIN
DECLARE seen int DEFAULT (SELECT count(*) FROM tries); INSERT INTO tries VALUES (1);
IF seen = 0 THEN SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1615, MESSAGE_TEXT = 'Prepared statement needs to be re-prepared'; END IF;
IF seen = 1 THEN SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1243, MESSAGE_TEXT = 'Unknown prepared statement handler'; END IF; END`)
	lease := win(t, store, claim("key"))
	if tries := queryOne[int](t, db, `SELECT count(*) FROM tries`); tries != 3 {
		t.Errorf("the claim was tried %d times, want 3", tries)
	}
	must(t, store.Extend(t.Context(), lease, time.Minute))
}
