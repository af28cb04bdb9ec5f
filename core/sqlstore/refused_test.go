package sqlstore_test

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"modernc.org/sqlite"

	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/core/storage"
)

// refusal is a database that refuses long responses.
type refusal struct {
	name    string
	on      []setUp
	prepare func(t *testing.T, s setUp, db *sql.DB)
	passes  bool // the fault may pass: the call is worth a repetition
}

const longest = 100 // bytes of a body that refusals allow

// raises lets a trigger raise an error of PostgreSQL.
func raises(code string) func(*testing.T, setUp, *sql.DB) {
	return func(t *testing.T, _ setUp, db *sql.DB) {
		execute(t, db, fmt.Sprintf(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF octet_length(NEW.body) > %d THEN RAISE 'refused' USING ERRCODE = '%s'; END IF; RETURN NEW; END $$`, longest, code))
		execute(t, db, `CREATE TRIGGER refuse BEFORE UPDATE ON oncekey_records FOR EACH ROW EXECUTE FUNCTION refuse()`)
	}
}

// signals lets a trigger signal an error of MySQL.
func signals(number int) func(*testing.T, setUp, *sql.DB) {
	return func(t *testing.T, _ setUp, db *sql.DB) {
		execute(t, db, fmt.Sprintf(`CREATE TRIGGER refuse BEFORE UPDATE ON oncekey_records FOR EACH ROW
			IF length(NEW.body) > %d THEN SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = %d, MESSAGE_TEXT = 'refused'; END IF`, longest, number))
	}
}

// runs executes statements.
func runs(statements ...string) func(*testing.T, setUp, *sql.DB) {
	return func(t *testing.T, _ setUp, db *sql.DB) {
		for _, statement := range statements {
			execute(t, db, strings.ReplaceAll(statement, "{longest}", fmt.Sprint(longest)))
		}
	}
}

func refusals() (all []refusal) {
	ofPostgreSQL, ofSQLite := []setUp{postgresql, libpq}, []setUp{sqliteWAL}
	ofSQLite = append(ofSQLite, cgo...)
	for _, code := range []string{"22001", "22021", "22P05", "23502", "23503", "23505", "23514", "44000", "54000", "P0001"} {
		all = append(all, refusal{name: "SQLSTATE " + code, on: ofPostgreSQL, prepare: raises(code)})
	}
	for _, code := range []string{"53100", "53200", "55000", "57014", "58030", "XX000"} {
		all = append(all, refusal{name: "SQLSTATE " + code, on: ofPostgreSQL, prepare: raises(code), passes: true})
	}
	for _, number := range []int{1048, 1118, 1264, 1265, 1292, 1364, 1366, 1406, 1452, 1644, 1690, 3819, 4025} {
		all = append(all, refusal{name: fmt.Sprint("error ", number), on: ofMySQL, prepare: signals(number)})
	}
	for _, number := range []int{1021, 1037, 1041, 1114, 1180, 1290, 3024} {
		all = append(all, refusal{name: fmt.Sprint("error ", number), on: ofMySQL, prepare: signals(number), passes: true})
	}
	return append(all, []refusal{
		{name: "a constraint", on: ofPostgreSQL, prepare: runs(`ALTER TABLE oncekey_records ADD CHECK (octet_length(body) <= {longest})`)},
		{name: "a narrow column", on: ofPostgreSQL, prepare: runs(
			`ALTER TABLE oncekey_records ALTER header TYPE varchar(20)`,
			`ALTER TABLE oncekey_records ADD CHECK (octet_length(body) <= {longest})`)},
		{name: "a constraint", on: ofMySQL, prepare: runs(`ALTER TABLE oncekey_records ADD CHECK (length(body) <= {longest})`)},
		{name: "a narrow column", on: ofMySQL, prepare: runs(`ALTER TABLE oncekey_records MODIFY body tinyblob`)},
		{name: "a trigger", on: ofSQLite, prepare: runs(`CREATE TRIGGER refuse BEFORE UPDATE ON oncekey_records WHEN length(NEW.body) > {longest}
			BEGIN SELECT RAISE(ABORT, 'too long'); END`)},
		{name: "the length of a value", on: []setUp{sqliteMemory}, prepare: func(t *testing.T, _ setUp, db *sql.DB) {
			connection, err := db.Conn(t.Context()) // the only one
			must(t, err)
			const sqliteLimitLength = 0
			_, err = sqlite.Limit(connection, sqliteLimitLength, 10_000)
			must(t, err)
			must(t, connection.Close())
		}},
	}...)
}

// Case 95: a response that the database can never keep is storage.ErrNotStorable, and the
// outcome is kept without it. Other errors may pass, and are not.
func TestResponseThatCannotBeStored(t *testing.T) {
	t.Parallel()
	for _, r := range refusals() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			over(t, r.on, func(t *testing.T, s setUp) {
				store, db := s.open(t)
				lease := win(t, store, claim("key"))
				r.prepare(t, s, db)
				err := store.Complete(t.Context(), lease, large(20_000))
				if err == nil || errors.Is(err, storage.ErrNotStorable) == r.passes {
					t.Errorf("Complete returned %v, want ErrNotStorable: %t", err, !r.passes)
				}
				keepsWithout(t, store, lease)
			})
		})
	}
}

// large is a response with so many bytes.
func large(size int) storage.Result {
	res := result("")
	res.Body = []byte(strings.Repeat("x", size))
	return res
}

// keepsWithout expects the outcome of a lease to be kept without its response.
func keepsWithout(t *testing.T, store *sqlstore.Store, lease storage.Lease) {
	t.Helper()
	must(t, store.Complete(t.Context(), lease, storage.Result{State: storage.Unreplayable, Status: 201, Retain: lease.Retain}))
	if r := find(t, store, takeOver(lease.Key)); r.State != storage.Unreplayable || r.Status != 201 {
		t.Errorf("the record is %+v, want an Unreplayable one", r)
	}
}

// Case 95: a packet that is larger than the server's max_allowed_packet. The server ends
// the connection, often before the driver has read the reason.
func TestPacketThatIsTooLarge(t *testing.T) {
	t.Parallel()
	over(t, ofMySQL, func(t *testing.T, s setUp) {
		const limit = 1 << 20
		server := s.start(t, fmt.Sprint("max_allowed_packet=", limit))
		for _, setting := range []string{"", "?interpolateParams=true", "?maxAllowedPacket=0"} {
			t.Run(setting, func(t *testing.T) {
				t.Parallel()
				table := sqlstore.Table("packets" + strings.Trim(setting, "?=truePams0"))
				db := s.connect(t, server.DSN()+setting)
				must(t, sqlstore.Migrate(t.Context(), db, s.dialect, table))
				store := sqlstore.New(db, s.dialect, table)
				for i, size := range []int{limit - 100, limit + 1, 2 * limit, 20 * limit} {
					lease := win(t, store, claim(fmt.Sprint("key", i)))
					err := store.Complete(t.Context(), lease, large(size))
					if err == nil && size < limit {
						continue
					}
					fails(t, fmt.Sprintf("Complete of %d bytes", size), err, storage.ErrNotStorable)
					keepsWithout(t, store, lease)
				}
			})
		}
	})
}

// Case 95: in a transaction such a response is rolled back with the handler's writes.
func TestTransactionWhoseResponseCannotBeStored(t *testing.T) {
	t.Parallel()
	over(t, servers, func(t *testing.T, s setUp) {
		h := s.begin(t)
		narrow(t, h.db, sqlstore.DefaultTable)
		err := h.Commit(t.Context(), h.lease, large(tooLarge))
		fails(t, "Commit", err, storage.ErrRolledBack)
		fails(t, "Commit", err, storage.ErrNotStorable)
		h.ends(t, false)
		must(t, h.store.Release(t.Context(), h.lease))
	})
}

// Case 95: Examine names what may refuse a response, before it does.
func TestExamineOfRefusals(t *testing.T) {
	t.Parallel()
	over(t, all, func(t *testing.T, s setUp) {
		store, db := s.open(t)
		for _, check := range []string{"constraints and triggers", "canary"} {
			wantFinding(t, examined(t, store), check, storage.Good, "")
		}
		narrow(t, db, sqlstore.DefaultTable)
		if f := examined(t, store)["constraints and triggers"]; f.Grade != storage.Look || f.Seen == "none" {
			t.Errorf("the finding of a narrow table is %+v, want the name of what may refuse", f)
		}
	})
	t.Run("max_allowed_packet", func(t *testing.T) {
		t.Parallel()
		db := mariadb.connect(t, mariadb.start(t, "max_allowed_packet=1M").DSN())
		must(t, sqlstore.Migrate(t.Context(), db, mariadb.dialect))
		for _, check := range []string{"max_allowed_packet", "canary"} {
			wantFinding(t, examined(t, sqlstore.New(db, mariadb.dialect)), check, storage.Mend, "")
		}
	})
}

// A trigger may drop what is written, without an error: no other caller is to blame.
func TestTriggerThatDropsRows(t *testing.T) {
	t.Parallel()
	over(t, []setUp{postgresql, sqliteWAL}, func(t *testing.T, s setUp) {
		store, db := s.open(t)
		lease, drop := win(t, store, claim("running")), `BEGIN SELECT RAISE(IGNORE); END`
		if s.database == "postgresql" {
			execute(t, db, `CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$`)
			drop = `EXECUTE FUNCTION nothing()`
		}
		for _, change := range []string{"INSERT", "UPDATE", "DELETE"} {
			execute(t, db, fmt.Sprintf(`CREATE TRIGGER before_%[1]s BEFORE %[1]s ON oncekey_records FOR EACH ROW %[2]s`, change, drop))
		}
		_, _, err := store.Acquire(t.Context(), claim("new"))
		fails(t, "Acquire", err, storage.ErrNotStorable, "a trigger or a rule")
		fails(t, "Complete", store.Complete(t.Context(), lease, result("answer")), nil, "a trigger or a rule")
		_, err = store.Forget(t.Context(), "running", storage.RerunIsSafe)
		fails(t, "Forget", err, nil, "a trigger or a rule")
	})
}
