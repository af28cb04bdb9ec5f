package soak

import (
	"context"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/internal/explore"
	"github.com/oncekey/oncekey/core/internal/system/service"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/tieredstore"
	"github.com/oncekey/oncekey/internal/testkit"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
	faultproxy "github.com/oncekey/oncekey/internal/testkit/proxy"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// server is a server that a soak kills, freezes and restarts.
type server interface {
	Kill()
	Restart()
	Pause()
	Resume()
}

// setting is one kind of store with its servers.
type setting struct {
	explore.Backend
	servers []server
	// together is the number of concurrent plans on each core.
	together int

	began           time.Time
	plans, unsteady atomic.Uint64
}

// settings are the stores to soak.
var settings = map[string]func(t *testing.T) *setting{
	"redis":    newRedis,
	"postgres": newPostgres,
	"tiered":   newTiered,
	"mariadb":  newMariaDB,
	"sqlite":   newSQLite,
}

func newRedis(t *testing.T) *setting {
	t.Helper()
	hot := redistest.Start(t, redistest.Persistent()...)
	operator := service.Redis(t, redis.Options{Addr: hot.Addr()})
	return &setting{
		Backend: explore.Backend{
			Inspector: redisstore.New(operator),
			Connect: func() (*explore.Connection, error) {
				client, proxy, err := dialRedis(hot)
				if err != nil {
					return nil, err
				}
				return &explore.Connection{
					Store: redisstore.New(client), Networks: []*faultproxy.Proxy{proxy},
					Close: func() { client.Close(); proxy.Close() },
				}, nil
			},
		},
		servers: []server{hot}, together: 20,
	}
}

func dialRedis(server *redistest.Server) (*redis.Client, *faultproxy.Proxy, error) {
	proxy, err := faultproxy.Open(server.Addr())
	if err != nil {
		return nil, nil, err
	}
	return redis.NewClient(&redis.Options{Addr: proxy.Addr(), ContextTimeoutEnabled: true}), proxy, nil
}

func newPostgres(t *testing.T) *setting {
	t.Helper()
	p := startPostgres(t)
	return &setting{
		Backend: explore.Backend{
			Inspector: pgstore.New(p.operator), Written: p.written,
			Connect: func() (*explore.Connection, error) {
				pool, proxy, err := p.dial()
				if err != nil {
					return nil, err
				}
				return &explore.Connection{
					Store: pgstore.New(pool), Networks: []*faultproxy.Proxy{proxy}, Write: write,
					Close: func() { proxy.Close(); pool.Close() },
				}, nil
			},
		},
		servers: []server{p.server}, together: 8,
	}
}

// newTiered has a Redis that loses all data at a restart.
func newTiered(t *testing.T) *setting {
	t.Helper()
	p, hot := startPostgres(t), redistest.Start(t)
	operator := service.Redis(t, redis.Options{Addr: hot.Addr()})
	return &setting{
		Backend: explore.Backend{
			Inspector: tieredstore.New(redisstore.New(operator), pgstore.New(p.operator)), Written: p.written,
			Connect: func() (*explore.Connection, error) {
				pool, durable, err := p.dial()
				if err != nil {
					return nil, err
				}
				client, proxy, err := dialRedis(hot)
				if err != nil {
					return nil, err
				}
				return &explore.Connection{
					Store:    tieredstore.New(redisstore.New(client), pgstore.New(pool)),
					Networks: []*faultproxy.Proxy{durable, proxy}, Write: write,
					Close: func() { client.Close(); proxy.Close(); durable.Close(); pool.Close() },
				}, nil
			},
		},
		servers: []server{p.server, hot}, together: 8,
	}
}

// database is a PostgreSQL server with a table for the effects of transactions.
type database struct {
	server   *postgrestest.Server
	operator *pgxpool.Pool

	dials, batches atomic.Uint64
}

// TraceQueryStart implements pgx.QueryTracer, for every second pod. It delays statements of
// single claims and results, so that the calls that come meanwhile are in batches.
func (d *database) TraceQueryStart(ctx context.Context, _ *pgx.Conn, query pgx.TraceQueryStartData) context.Context {
	if strings.Contains(query.SQL, "oncekey_records") {
		pass(company)
	}
	return ctx
}

// TraceBatchStart implements pgx.BatchTracer.
func (d *database) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	d.batches.Add(1)
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer.
func (*database) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (*database) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// TraceQueryEnd implements pgx.QueryTracer.
func (*database) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func startPostgres(t *testing.T) *database {
	t.Helper()
	server := postgrestest.Start(t, "max_connections=800", "idle_in_transaction_session_timeout=5s")
	operator := service.Pool(t, server.DSN())
	testkit.Must(t, pgstore.Migrate(t.Context(), operator))
	if _, err := operator.Exec(t.Context(), `CREATE TABLE effects (tenant text, request int)`); err != nil {
		t.Fatal(err)
	}
	d := &database{server: server, operator: operator}
	t.Cleanup(func() { t.Logf("%d batches", d.batches.Load()) })
	return d
}

// dial opens a new pool behind a new proxy.
func (d *database) dial() (*pgxpool.Pool, *faultproxy.Proxy, error) {
	address, err := url.Parse(d.server.DSN())
	if err != nil {
		return nil, nil, err
	}
	proxy, err := faultproxy.Open(address.Host)
	if err != nil {
		return nil, nil, err
	}
	address.Host = proxy.Addr()
	config, err := pgxpool.ParseConfig(address.String())
	if err != nil {
		return nil, nil, err
	}
	config.MaxConns = connections
	if d.dials.Add(1)%2 == 0 {
		config.MaxConns, config.ConnConfig.Tracer = few, d
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	return pool, proxy, err
}

// A pool of few connections sends one statement of single claims at a time. company is how
// long such a statement waits for others to come.
const (
	few     = 7
	company = 5 * time.Millisecond
)

// connections is enough for all concurrent transactions of a plan, and for leases beside
// them.
const connections = 10

func write(ctx, handler context.Context, tenant string, request int) error {
	tx, err := pgstore.Tx(handler)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO effects VALUES ($1, $2)`, tenant, request)
	return err
}

func (d *database) written(ctx context.Context, tenant string) ([]int, error) {
	rows, err := d.operator.Query(ctx, `SELECT request FROM effects WHERE tenant = $1`, tenant)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int])
}
