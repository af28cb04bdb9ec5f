package sqlstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/core/storage"
)

// A missing right is named before the first claim. Case 38
func TestMissingRight(t *testing.T) {
	t.Parallel()
	over(t, servers, func(t *testing.T, s setUp) {
		dsn := s.dsn(t)
		db := s.connect(t, dsn)
		must(t, sqlstore.Migrate(t.Context(), db, s.dialect))
		role := "r" + strings.ToLower(storage.NewToken().String())[:12]
		if s.database == "mysql" {
			execute(t, db, `CREATE USER `+role)
			dsn = strings.Replace(dsn, "root", role, 1)
		} else {
			execute(t, db, `CREATE ROLE `+role+` LOGIN`)
			dsn = strings.Replace(dsn, "postgres@", role+"@", 1)
		}
		store := sqlstore.New(s.connect(t, dsn), s.dialect)
		for _, right := range []string{"SELECT", "INSERT", "UPDATE", "DELETE"} {
			if s.database == "mysql" && right == "SELECT" {
				execute(t, db, `GRANT SELECT ON oncekey_records TO `+role) // without any right there is no database
			}
			_, _, err := store.Acquire(t.Context(), claim("key"))
			if checkErr := store.Check(t.Context()); s.database == "postgresql" || right != "SELECT" {
				if !errors.Is(err, storage.ErrStoreForbidden) || !strings.Contains(err.Error(), "GRANT") || !errors.Is(checkErr, storage.ErrStoreForbidden) {
					t.Errorf("without %s Acquire returned %v and Check %v, want ErrStoreForbidden with the GRANT", right, err, checkErr)
				}
			}
			execute(t, db, `GRANT `+right+` ON oncekey_records TO `+role)
		}
		must(t, store.Check(t.Context()))
		lease := win(t, store, claim("key"))
		execute(t, db, `REVOKE UPDATE ON oncekey_records FROM `+role)
		fails(t, "Complete", store.Complete(t.Context(), lease, result("lost")), storage.ErrStoreForbidden)
		_, _, err := store.Acquire(t.Context(), claim("another")) // which needs no UPDATE itself
		fails(t, "Acquire", err, storage.ErrStoreForbidden)
		execute(t, db, `GRANT UPDATE ON oncekey_records TO `+role)
		if s.database == "postgresql" {
			execute(t, db, `ALTER TABLE oncekey_records ENABLE ROW LEVEL SECURITY`)
			fails(t, "Check", store.Check(t.Context()), storage.ErrNotStorable, "DISABLE ROW LEVEL SECURITY")
			execute(t, db, `ALTER TABLE oncekey_records DISABLE ROW LEVEL SECURITY`)
			must(t, store.Check(t.Context()))
			execute(t, db, `ALTER TABLE oncekey_records REPLICA IDENTITY NOTHING;
				CREATE PUBLICATION changes FOR TABLE oncekey_records`)
			fails(t, "Complete", store.Complete(t.Context(), lease, result("lost")), nil)
			_, _, err := store.Acquire(t.Context(), claim("third"))
			fails(t, "Acquire", err, storage.ErrNotStorable, "replica identity")
			fails(t, "Check", store.Check(t.Context()), storage.ErrNotStorable, "replica identity")
		}
	})
}

func TestReadOnlyFile(t *testing.T) {
	t.Parallel()
	over(t, files, func(t *testing.T, s setUp) {
		store := s.openWith(t, "&mode=ro")
		_, _, err := store.Acquire(t.Context(), claim("key"))
		fails(t, "Acquire", err, storage.ErrStoreForbidden)
	})
}
