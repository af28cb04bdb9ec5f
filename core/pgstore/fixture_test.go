package pgstore_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
	faultproxy "github.com/oncekey/oncekey/internal/testkit/proxy"
)

var (
	claim, takeOver, result, finish  = testkit.Claim, testkit.TakeOver, testkit.Result, testkit.Finish
	win, find, must, limited, tryAll = testkit.Win, testkit.Find, testkit.Must, testkit.Limited, testkit.TryAll
	eventually, wantFinding          = testkit.Eventually, testkit.WantFinding
	fails, replays, isRunning        = testkit.Fails, testkit.Replays, testkit.IsRunning
	goThroughLife, race              = testkit.GoThroughLife, testkit.Race
	digested, originated             = testkit.Digested, testkit.Originated
	concurrently                     = testkit.Concurrently
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Main(m)) }

// connect returns a pool that is closed after the test.
func connect(t *testing.T, dsn string, changes ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	must(t, err)
	config.MaxConns = 20
	for _, change := range changes {
		change(config)
	}
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(t.Context()), config)
	must(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// connections limits a pool.
func connections(number int32) func(*pgxpool.Config) {
	return func(config *pgxpool.Config) { config.MaxConns = number }
}

// proxied returns a proxy before the server of a DSN, and what leads a pool through it.
func proxied(t *testing.T, dsn string) (*faultproxy.Proxy, func(*pgxpool.Config)) {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	must(t, err)
	proxy := faultproxy.Start(t, net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))))
	return proxy, func(config *pgxpool.Config) {
		config.ConnConfig.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, "tcp", proxy.Addr())
		}
	}
}

// migrated returns a pool with the tables.
func migrated(t *testing.T, dsn string, changes ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	pool := connect(t, dsn, changes...)
	must(t, pgstore.Migrate(t.Context(), pool))
	return pool
}

// open returns a store that is ready to claim, in a database of its own.
func open(t *testing.T, changes ...func(*pgxpool.Config)) (*pgstore.Store, *pgxpool.Pool) {
	t.Helper()
	pool := migrated(t, postgrestest.Shared(t), changes...)
	store := pgstore.New(pool)
	must(t, store.Check(t.Context()))
	return store, pool
}

// execute runs a statement past the store, and returns how many rows it affected.
func execute(t *testing.T, pool *pgxpool.Pool, statement string, arguments ...any) int64 {
	t.Helper()
	tag, err := pool.Exec(t.Context(), statement, arguments...)
	must(t, err)
	return tag.RowsAffected()
}

// holding begins a transaction with a statement.
func holding(t *testing.T, pool *pgxpool.Pool, statement string, arguments ...any) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	must(t, err)
	_, err = tx.Exec(t.Context(), statement, arguments...)
	must(t, err)
	return tx
}

// queryOne returns the only value that a query finds.
func queryOne[T any](t *testing.T, pool *pgxpool.Pool, query string, arguments ...any) T {
	t.Helper()
	var value T
	must(t, pool.QueryRow(t.Context(), query, arguments...).Scan(&value))
	return value
}

// counts expects a query to find a number.
func counts(t *testing.T, pool *pgxpool.Pool, want int, query string, arguments ...any) {
	t.Helper()
	testkit.Equal(t, queryOne[int](t, pool, query, arguments...), want, "the result of %s", query)
}

// remembered lets a claim leave a tombstone for a day.
func remembered(c storage.Claim) storage.Claim {
	c.Remember = 24 * time.Hour
	return c
}

func finishRemembered(t testing.TB, store storage.Store, key string) {
	t.Helper()
	res := result(key)
	res.Remember = 24 * time.Hour
	must(t, store.Complete(t.Context(), win(t, store, originated(remembered(digested(claim(key), key)))), res))
}

// now is the server's time in the unit of the table.
const now = `(date_part('epoch', clock_timestamp()) * 1000000)::bigint`

// The ends of records, in the past.
const (
	leaseEnded  = `lease_until = ` + now + ` - 1000000`
	expired     = `expires_at = ` + now + ` - 7200000000, sweep_after = 1`
	retainEnded = `retain_until = ` + now + ` - 7200000000, sweep_after = 1` // and Remember has not
)

// age changes the times of a record.
func age(t *testing.T, pool *pgxpool.Pool, key, change string) {
	t.Helper()
	if execute(t, pool, `UPDATE oncekey_records SET `+change+` WHERE record_key LIKE $1`, key) == 0 {
		t.Fatalf("there is no record %q", key)
	}
}

// filling writes finished records past the store.
func filling(prefix string, number int) string {
	return fmt.Sprintf(`
INSERT INTO oncekey_records (record_key, version, state, attempt, took_over, token, revision, fingerprint, expires_at, sweep_after, status, claimed_at)
SELECT '%s' || n, 1, 'completed', 1, 0, decode(md5(n::text), 'hex'), 1, 'f', `+now+` + 86400000000, `+now+` + 90000000000, 201, `+now+`
FROM generate_series(1, %d) AS n`, prefix, number)
}

const waiting = ` FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`

// awaitLock waits until a statement waits for a lock in the pool's database.
func awaitLock(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	eventually(t, func() bool { return queryOne[int](t, pool, `SELECT count(*)`+waiting) > 0 })
}

// awaitEnd waits until a backend is gone.
func awaitEnd(t *testing.T, pool *pgxpool.Pool, backend uint32) {
	t.Helper()
	eventually(t, func() bool {
		return queryOne[int](t, pool, `SELECT count(*) FROM pg_stat_activity WHERE pid = $1`, backend) == 0
	})
}

// documented returns a block of docs/sql.md, for roles of the test's own: roles
// belong to the whole server.
func documented(t *testing.T, name, suffix string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/sql.md")
	must(t, err)
	block := regexp.MustCompile("(?s)<!-- " + name + " -->\n```(?:sql)?\n(.*?)\n?```").FindSubmatch(page)
	if block == nil {
		t.Fatalf("docs/sql.md has no block %q", name)
	}
	return regexp.MustCompile(`\bshop(_owner)?\b`).ReplaceAllString(string(block[1]), "${0}"+suffix)
}

// queryTracer counts statements, and lets others in before and after each of them.
type queryTracer struct {
	inBatch    atomic.Value // the text of the last statement of the last batch
	statements atomic.Int32
	before     func(data pgx.TraceQueryStartData)
	after      func(data pgx.TraceQueryEndData)
}

func (q *queryTracer) traces(config *pgxpool.Config) { config.ConnConfig.Tracer = q }

// took expects a number of statements since the last call.
func (q *queryTracer) took(t *testing.T, want int32, what string) {
	t.Helper()
	testkit.Equal(t, q.statements.Swap(0), want, "statements of %s", what)
}

func (q *queryTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	q.statements.Add(1)
	if q.before != nil {
		q.before(data)
	}
	return ctx
}

// TraceBatchStart counts a batch as one statement: it is one round trip.
func (q *queryTracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	q.statements.Add(1)
	return ctx
}

func (q *queryTracer) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	q.inBatch.Store(data.SQL)
}

func (*queryTracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (q *queryTracer) TraceQueryEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	if q.after != nil {
		q.after(data)
	}
}
