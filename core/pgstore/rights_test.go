package pgstore_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	postgrestest "github.com/oncekey/oncekey/core/internal/testkit/postgres"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
)

// documented returns a block of docs/postgres.md, for roles of the test's own: roles
// belong to the whole server.
func documented(t *testing.T, name, suffix string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/postgres.md")
	must(t, err)
	block := regexp.MustCompile("(?s)<!-- " + name + " -->\n```sql\n(.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatalf("docs/postgres.md has no block %q", name)
	}
	return regexp.MustCompile(`\bshop(_owner)?\b`).ReplaceAllString(string(block[1]), "${0}_"+suffix)
}

// inSchema is the table of docs/postgres.md.
var inSchema = pgstore.Table("oncekey.records")

// roles are a database with the roles of docs/postgres.md.
type roles struct {
	admin          *pgxpool.Pool
	dsn, suffix    string
	service, owner string
}

func newRoles(t *testing.T) roles {
	t.Helper()
	dsn := postgrestest.Shared(t)
	r := roles{admin: connect(t, dsn, nil), dsn: dsn}
	r.suffix = queryOne[string](t, r.admin, `SELECT current_database()`)
	r.service, r.owner = "shop_"+r.suffix, "shop_owner_"+r.suffix
	execute(t, r.admin, `CREATE ROLE `+r.service+`; CREATE ROLE `+r.owner)
	return r
}

// as returns a pool whose sessions have the role.
func (r roles) as(t *testing.T, role string) *pgxpool.Pool {
	t.Helper()
	return connect(t, r.dsn, func(config *pgxpool.Config) { config.ConnConfig.RuntimeParams["role"] = role })
}

// granted has tables, and the rights of docs/postgres.md for the service.
func granted(t *testing.T) roles {
	t.Helper()
	r := newRoles(t)
	execute(t, r.admin, documented(t, "schema of an owner", r.suffix))
	must(t, pgstore.Migrate(t.Context(), r.as(t, r.owner), inSchema))
	execute(t, r.admin, documented(t, "grants", r.suffix))
	return r
}

// serves uses every right that a service needs.
func serves(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	store := pgstore.New(pool, inSchema)
	must(t, store.Check(t.Context()))
	must(t, store.Release(t.Context(), win(t, store, claim("released"))))
	lease := win(t, store, claim("key"))
	must(t, store.Extend(t.Context(), lease, time.Minute))
	must(t, store.Complete(t.Context(), lease, result("response")))
	find(t, store, claim("key"))
	if _, err := store.Sweep(t.Context(), 10); err != nil {
		t.Error(err)
	}
	if _, err := store.List(t.Context(), storage.Filter{States: []storage.State{storage.Completed}}, storage.Page{Limit: 10}); err != nil {
		t.Error(err)
	}
}

// Case 44: a role with the documented rights and no others migrates and serves.
func TestDocumentedGrants(t *testing.T) {
	t.Parallel()
	t.Run("one role", func(t *testing.T) {
		t.Parallel()
		r := newRoles(t)
		execute(t, r.admin, documented(t, "schema of the service", r.suffix))
		pool := r.as(t, r.service)
		must(t, pgstore.Migrate(t.Context(), pool, inSchema))
		must(t, pgstore.Migrate(t.Context(), pool, inSchema))
		serves(t, pool)
	})
	t.Run("an owner and a service", func(t *testing.T) {
		t.Parallel()
		r := granted(t)
		pool := r.as(t, r.service)
		must(t, pgstore.Migrate(t.Context(), pool, inSchema)) // at each start
		serves(t, pool)
	})
}

// Case 44: Migrate names the schema or the table that the role has no right to.
func TestMigrateNamesTheMissingRight(t *testing.T) {
	t.Parallel()
	names := func(t *testing.T, pool *pgxpool.Pool, want string) {
		t.Helper()
		if err := pgstore.Migrate(t.Context(), pool, inSchema); !errors.Is(err, storage.ErrStoreForbidden) || !strings.Contains(err.Error(), want) {
			t.Errorf("Migrate returned %v, want ErrStoreForbidden with %q", err, want)
		}
	}
	r := newRoles(t)
	pool := r.as(t, r.service)
	execute(t, r.admin, documented(t, "schema of an owner", r.suffix))
	names(t, pool, "schema oncekey")
	execute(t, r.admin, `GRANT USAGE ON SCHEMA oncekey TO `+r.service)
	names(t, pool, "schema oncekey")
	must(t, pgstore.Migrate(t.Context(), r.as(t, r.owner), inSchema))
	execute(t, r.admin, `GRANT CREATE ON SCHEMA oncekey TO `+r.service)
	names(t, pool, "table records_migrations")
	execute(t, r.admin, documented(t, "grants", r.suffix)+`; REVOKE CREATE ON SCHEMA oncekey FROM `+r.service)
	must(t, pgstore.Migrate(t.Context(), pool, inSchema))
}

// Case 38: a missing right is found before the first claim, and named. The GRANT of
// the error helps without a restart.
func TestMissingRightIsFoundBeforeTheFirstClaim(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ revoke, from, grant string }{
		{"USAGE", `SCHEMA oncekey`, `GRANT USAGE ON SCHEMA oncekey`},
		{"SELECT", `oncekey.records`, `GRANT SELECT ON oncekey.records`},
		{"INSERT", `oncekey.records`, `GRANT INSERT ON oncekey.records`},
		{"UPDATE", `oncekey.records`, `GRANT UPDATE ON oncekey.records`},
		{"DELETE", `oncekey.records`, `GRANT DELETE ON oncekey.records`},
		{"UPDATE, DELETE", `oncekey.records`, `GRANT UPDATE, DELETE ON oncekey.records`},
	} {
		t.Run(test.revoke, func(t *testing.T) {
			t.Parallel()
			r := granted(t)
			execute(t, r.admin, `REVOKE `+test.revoke+` ON `+test.from+` FROM `+r.service)
			store := pgstore.New(r.as(t, r.service), inSchema)
			grant := fmt.Sprintf("%s TO %q", test.grant, r.service)
			_, _, err := store.Acquire(t.Context(), claim("key"))
			for operation, err := range map[string]error{"Acquire": err, "Check": store.Check(t.Context())} {
				if !errors.Is(err, storage.ErrStoreForbidden) || !strings.HasSuffix(err.Error(), ": "+grant) {
					t.Errorf("%s returned %v, want ErrStoreForbidden with %q", operation, err, grant)
				}
			}
			if rows := queryOne[int](t, r.admin, `SELECT count(*) FROM oncekey.records`); rows != 0 {
				t.Errorf("there are %d records, want none", rows)
			}
			execute(t, r.admin, grant)
			finish(t, store, "key")
		})
	}
}

// Case 38: a right that is revoked while a process serves is permanent from then on,
// and the next claim names it.
func TestRightThatIsRevokedLater(t *testing.T) {
	t.Parallel()
	r := granted(t)
	store := pgstore.New(r.as(t, r.service), inSchema)
	lease := win(t, store, claim("key"))
	execute(t, r.admin, `REVOKE UPDATE ON oncekey.records FROM `+r.service)
	if err := store.Complete(t.Context(), lease, result("response")); !errors.Is(err, storage.ErrStoreForbidden) {
		t.Errorf("Complete returned %v, want ErrStoreForbidden", err)
	}
	if _, _, err := store.Acquire(t.Context(), claim("other")); !errors.Is(err, storage.ErrStoreForbidden) || !strings.Contains(err.Error(), "GRANT UPDATE") {
		t.Errorf("Acquire returned %v, want ErrStoreForbidden that names the right", err)
	}
	execute(t, r.admin, `GRANT UPDATE ON oncekey.records TO `+r.service)
	must(t, store.Complete(t.Context(), lease, result("response")))
}
