package availability

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core/internal/system/service"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/internal/testkit"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
	faultproxy "github.com/oncekey/oncekey/internal/testkit/proxy"
)

// connections is the size of each service's pool.
const connections = 20

// postgresFailover kills a primary behind a proxy, promotes its synchronous standby after the
// outage, and moves the proxy to it, as an operator by hand would.
func postgresFailover(t *testing.T, outage time.Duration) scenario {
	t.Helper()
	primary := postgrestest.Start(t)
	standby := primary.Standby()
	operator := connect(t, primary.DSN())
	execute(t, operator, `ALTER SYSTEM SET synchronous_standby_names = '*'`)
	execute(t, operator, `SELECT pg_reload_conf()`)
	testkit.Await(t, "for the standby", func() bool {
		return one[int](t, operator, `SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'`) == 1
	})
	proxy := faultproxy.Start(t, hostOf(t, primary.DSN()))
	address, err := url.Parse(primary.DSN())
	testkit.Must(t, err)
	address.Host = proxy.Addr()
	e := inPostgres(t, address.String())
	e.name = "PostgreSQL: the primary is killed, its synchronous standby is promoted by hand"
	e.strike = func(l *load) time.Time {
		began := time.Now()
		primary.Kill()
		l.awaitOutage(t, began)
		wait(time.Until(began.Add(outage)))
		execute(t, connect(t, standby.DSN()), `SELECT pg_promote()`)
		proxy.Move(hostOf(t, standby.DSN()))
		return began
	}
	return e
}

// patroniFailover kills the primary of two servers and its Patroni. The other Patroni
// promotes the synchronous standby by itself, when the leader's key in etcd has expired.
func patroniFailover(t *testing.T, _ time.Duration) scenario {
	t.Helper()
	group := postgrestest.StartPatroni(t)
	e := inPostgres(t, group.DSN())
	e.name = "PostgreSQL with Patroni and etcd: the primary's machine dies"
	e.strike = func(l *load) time.Time {
		began := time.Now()
		group.KillPrimary()
		l.awaitOutage(t, began)
		return began
	}
	return e
}

// inPostgres returns both services with pools of their own. The guarded handler writes in
// the transaction of its record.
func inPostgres(t *testing.T, dsn string) scenario {
	t.Helper()
	pool, other := connect(t, dsn), connect(t, dsn)
	testkit.Must(t, pgstore.Migrate(t.Context(), pool))
	execute(t, pool, `CREATE TABLE effects (request text)`)
	execute(t, pool, `CREATE TABLE effects_without_guard (request text)`)
	return scenario{
		guarded: guarded(t, pgstore.New(pool), func(ctx context.Context, key string) error {
			tx, err := pgstore.Tx(ctx)
			if err != nil {
				return err
			}
			_, err = tx.Exec(ctx, `INSERT INTO effects VALUES ($1)`, key)
			return err
		}, pgstore.Transactional()),
		bare: bare(func(ctx context.Context, key string) error {
			_, err := other.Exec(ctx, `INSERT INTO effects_without_guard VALUES ($1)`, key)
			return err
		}),
		effects: func(t *testing.T) map[string]int {
			t.Helper()
			counts := make(map[string]int)
			var key string
			var n int
			rows, err := pool.Query(t.Context(), `SELECT request, count(*) FROM effects GROUP BY request`)
			if err == nil {
				_, err = pgx.ForEachRow(rows, []any{&key, &n}, func() error { counts[key] = n; return nil })
			}
			testkit.Must(t, err)
			return counts
		},
	}
}

func connect(t *testing.T, dsn string) *pgxpool.Pool {
	t.Helper()
	return service.Pool(t, dsn, func(c *pgxpool.Config) { c.MaxConns = connections })
}

func execute(t *testing.T, pool *pgxpool.Pool, statement string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func one[T any](t *testing.T, pool *pgxpool.Pool, query string) (value T) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), query).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}

func hostOf(t *testing.T, dsn string) string {
	t.Helper()
	address, err := url.Parse(dsn)
	testkit.Must(t, err)
	return address.Host
}
