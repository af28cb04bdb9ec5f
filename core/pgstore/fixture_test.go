package pgstore_test

import (
	"context"
	"net"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/core/internal/testkit"
	postgrestest "github.com/oncekey/oncekey/core/internal/testkit/postgres"
	faultproxy "github.com/oncekey/oncekey/core/internal/testkit/proxy"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/fingerprint"
)

var (
	claim, takeOver, result, finish = testkit.Claim, testkit.TakeOver, testkit.Result, testkit.Finish
	win, find, must, tryAll         = testkit.Win, testkit.Find, testkit.Must, testkit.TryAll
	eventually, wantFinding         = testkit.Eventually, testkit.WantFinding
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Main(m)) }

// connect returns a pool that is closed after the test.
func connect(t *testing.T, dsn string, change func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	must(t, err)
	config.MaxConns = 8
	if change != nil {
		change(config)
	}
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(t.Context()), config)
	must(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// addressOf is the server's address in a DSN.
func addressOf(t *testing.T, dsn string) string {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	must(t, err)
	return net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))
}

// through leads a pool's connections through the proxy.
func through(config *pgxpool.Config, proxy *faultproxy.Proxy) {
	config.ConnConfig.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "tcp", proxy.Addr())
	}
}

// migrated returns a pool with the tables.
func migrated(t *testing.T, dsn string, change func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	pool := connect(t, dsn, change)
	must(t, pgstore.Migrate(t.Context(), pool))
	return pool
}

// open returns a store in a database of its own.
func open(t *testing.T) (*pgstore.Store, *pgxpool.Pool) {
	t.Helper()
	pool := migrated(t, postgrestest.Shared(t), nil)
	return pgstore.New(pool), pool
}

// execute runs a statement past the store, and returns how many rows it affected.
func execute(t *testing.T, pool *pgxpool.Pool, statement string, arguments ...any) int64 {
	t.Helper()
	tag, err := pool.Exec(t.Context(), statement, arguments...)
	must(t, err)
	return tag.RowsAffected()
}

// queryOne returns the only value that a query finds.
func queryOne[T any](t *testing.T, pool *pgxpool.Pool, query string, arguments ...any) T {
	t.Helper()
	var value T
	must(t, pool.QueryRow(t.Context(), query, arguments...).Scan(&value))
	return value
}

// digested gives a claim the digest of a request, and a fingerprint that only this
// claim has.
func digested(c storage.Claim, request string) storage.Claim {
	c.Digest, c.Fingerprint = fingerprint.Digest(fingerprint.Request{Path: request}), c.Token.String()
	return c
}

// now is the server's time in the unit of the table.
const now = `(date_part('epoch', clock_timestamp()) * 1000000)::bigint`

// abandon lets the lease of a key run out.
func abandon(t *testing.T, pool *pgxpool.Pool, key string) {
	t.Helper()
	if execute(t, pool, `UPDATE oncekey_records SET lease_until = `+now+` - 1000000 WHERE record_key = $1`, key) != 1 {
		t.Fatalf("there is no record %q", key)
	}
}

// expire puts the end of records into the past.
func expire(t *testing.T, pool *pgxpool.Pool, pattern string) {
	t.Helper()
	execute(t, pool, `UPDATE oncekey_records SET expires_at = `+now+` - 7200000000, sweep_after = 1 WHERE record_key LIKE $1`, pattern)
}

// isWaiting reports whether some statement waits for a lock in the pool's database.
func isWaiting(t *testing.T, pool *pgxpool.Pool) bool {
	t.Helper()
	var waiting int
	if err := pool.QueryRow(t.Context(), `
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting); err != nil {
		t.Error(err)
	}
	return waiting > 0
}
