package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
	faultproxy "github.com/oncekey/oncekey/internal/testkit/proxy"
	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

var errNotUp = errors.New("pgbouncer is not up")

// bouncer starts a pgbouncer in transaction mode before the server, with fewer
// connections to it than clients have, and returns its DSN.
func bouncer(t *testing.T, dsn string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/pgbouncer") // Debian's place, not on every PATH
	}
	if err != nil {
		serverproc.Missing(t, "pgbouncer not found: install it (Debian: apt-get install pgbouncer)")
	}
	server, err := pgx.ParseConfig(dsn)
	must(t, err)
	account := ""
	if os.Geteuid() == 0 {
		account = "user = nobody" // pgbouncer does not run as root
	}
	var process *serverproc.Process
	says := func(text string) bool {
		return slices.ContainsFunc(process.Output(), func(line string) bool { return strings.Contains(line, text) })
	}
	var address string
	launch := func(port int) error {
		config := filepath.Join(t.TempDir(), "pgbouncer.ini")
		must(t, os.WriteFile(config, fmt.Appendf(nil, `
[databases]
* = host=%s port=%d user=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
server_round_robin = 1
%s
`, server.Host, server.Port, server.User, port, account), 0o600))
		process = serverproc.Start(t, "pgbouncer", exec.CommandContext(context.WithoutCancel(t.Context()), program, config))
		address = fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s?sslmode=disable", server.User, port, server.Database)
		return process.Await(func(context.Context) error {
			if !says("process up") {
				return errNotUp
			}
			return nil
		})
	}
	serverproc.StartOnFreePort(t, launch, func() bool { return says("in use") })
	return address
}

// Case 45: pgbouncer in transaction mode. Each statement may meet another session.
func TestTransactionMode(t *testing.T) {
	t.Parallel()
	pool := connect(t, bouncer(t, postgrestest.Shared(t)))
	must(t, pgstore.Migrate(t.Context(), pool))
	must(t, pgstore.Migrate(t.Context(), pool))
	store := pgstore.New(pool, pgstore.AsynchronousClaims(), pgstore.AlwaysBatch)
	const callers, rounds = 8, 10
	concurrently(callers, func(caller int) {
		for round := range rounds {
			goThroughLife(t, store, fmt.Sprint(caller, "-", round))
		}
	})
}

// Behind a pooler a batch has a COMMIT of its own. One that never arrives is no success of
// its calls, whose rows the server has sent before.
func TestLostCommitOfABatch(t *testing.T) {
	t.Parallel()
	dsn := bouncer(t, postgrestest.Shared(t))
	proxy, through := proxied(t, dsn)
	tracer := &queryTracer{}
	store, elsewhere := pgstore.New(connect(t, dsn, through, tracer.traces)), pgstore.New(migrated(t, dsn))
	must(t, store.Check(t.Context()))
	lost := func(calls func()) {
		tracer.before = func(data pgx.TraceQueryStartData) {
			if strings.EqualFold(data.SQL, "commit") {
				proxy.Set(faultproxy.LoseRequests())
			}
		}
		calls()
		tracer.before = nil
		proxy.Set(faultproxy.None())
	}
	all := claims(2)
	lost(func() {
		for n, o := range claimTogether(t, store, all...) {
			fails(t, "Acquire", o.err, nil, all[n].Key)
		}
	})
	leases := []storage.Lease{win(t, elsewhere, all[0]), win(t, elsewhere, all[1])}
	lost(func() {
		for n, err := range completeTogether(t, store, leases...) {
			fails(t, "Complete", err, nil, all[n].Key)
		}
	})
	must(t, errors.Join(completeTogether(t, store, leases...)...))
}

// A batch whose BEGIN a pooler has kept waiting claims nothing for callers that have left: the
// keys would be in progress, and nobody would run.
func TestBatchThatAPoolerKeepsWaiting(t *testing.T) {
	t.Parallel()
	dsn := bouncer(t, postgrestest.Shared(t))
	proxy, through := proxied(t, dsn)
	tracer := &queryTracer{}
	pool, direct := connect(t, dsn, through, tracer.traces), migrated(t, dsn)
	store := pgstore.New(pool)
	must(t, store.Check(t.Context()))
	tracer.before = func(data pgx.TraceQueryStartData) {
		if strings.HasPrefix(data.SQL, "BEGIN") {
			proxy.Set(faultproxy.HoldReplies())
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), requestTime)
	defer cancel()
	together(store, 2, func(n int) {
		fails(t, "Acquire", acquire(ctx, store, claims(2)[n]).err, context.DeadlineExceeded)
	})
	proxy.Set(faultproxy.None())
	eventually(t, func() bool { return pool.Stat().AcquiredConns() == 0 })
	counts(t, direct, 0, `SELECT count(*) FROM oncekey_records`)
}

// Case 45: handlers' statements need the setting of docs/sql.md.
func TestTransactionsInTransactionMode(t *testing.T) {
	t.Parallel()
	setting, err := url.Parse(documented(t, "dsn", ""))
	must(t, err)
	pool := migrated(t, bouncer(t, postgrestest.Shared(t))+"&"+setting.RawQuery)
	execute(t, pool, `CREATE TABLE payments (amount int)`)
	store := pgstore.New(pool)
	const callers, rounds = 4, 10
	concurrently(callers, func(caller int) {
		for round := range rounds {
			r := pays(t, store, fmt.Sprint(caller, "-", round))
			must(t, r.Commit(t.Context(), r.lease, result("paid")))
		}
	})
	counts(t, pool, callers*rounds, `SELECT count(*) FROM payments`)
}

// Case 45: where a pooler cannot be noticed the error names the missing setting.
func TestLostPreparedStatementNamesTheSetting(t *testing.T) {
	t.Parallel()
	_, pool := open(t)
	store := pgstore.New(pool)
	pool.Reset()
	lease := win(t, store, claim("key"))
	execute(t, pool, `DEALLOCATE ALL`) // as a pooler that hands the client another session
	fails(t, "Complete", store.Complete(t.Context(), lease, result("response")), nil, "default_query_exec_mode=exec")
	must(t, store.Complete(t.Context(), lease, result("response"))) // on a new connection
}

// A pooler may come between a running program and its server, for example behind one name. A
// claim after an error notices it, and each connection that has prepared before fails once.
func TestPoolerThatComesLater(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.Shared(t)
	proxy, through := proxied(t, dsn)
	pool := migrated(t, dsn, through)
	store := pgstore.New(pool)
	win(t, store, claim("before"))
	pooler, err := pgx.ParseConfig(bouncer(t, dsn))
	must(t, err)
	proxy.Move(net.JoinHostPort(pooler.Host, strconv.Itoa(int(pooler.Port))))
	pool.Reset()
	const tries, callers, requests = 5, 8, 10
	for try := range tries {
		failed := atomic.Int64{}
		concurrently(callers, func(caller int) {
			for n := range requests {
				o := acquire(t.Context(), store, claim(fmt.Sprint(try, "-", caller, "-", n)))
				if o.err != nil || store.Complete(t.Context(), o.lease, result("response")) != nil {
					failed.Add(1)
				}
			}
		})
		t.Logf("%d of %d requests failed", failed.Load(), callers*requests)
		if failed.Load() == 0 {
			return
		}
	}
	t.Error("requests fail still")
}

// A connection that goes silent leaves the pool when its statement's patience ends. pgx alone
// would wait for the server's end of it for 15 seconds more.
func TestSilentConnectionLeavesThePool(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.Shared(t)
	proxy, through := proxied(t, dsn)
	healed := atomic.Bool{}
	pool := migrated(t, dsn, connections(1), through, func(config *pgxpool.Config) {
		proxied := config.ConnConfig.DialFunc
		config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			if healed.Load() {
				return new(net.Dialer).DialContext(ctx, network, address)
			}
			return proxied(ctx, network, address)
		}
	})
	store, c := pgstore.New(pool), claim("after")
	win(t, store, claim("before"))
	proxy.Set(faultproxy.Blackhole())
	healed.Store(true)
	start := time.Now()
	eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), requestTime)
		defer cancel()
		return acquire(ctx, store, c).err == nil
	})
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("the pool had a connection after %s", took)
	}
}

const (
	farAway = 180 * time.Millisecond
	// requestTime is the default StoreTimeout.
	requestTime = 500 * time.Millisecond
)

// far returns a pool whose server is 180 ms distant. TCP, TLS and authentication take
// five round trips more than the proxy sees.
func far(t *testing.T, dsn string) *pgxpool.Pool {
	t.Helper()
	proxy, through := proxied(t, dsn)
	proxy.Set(faultproxy.Latency(farAway))
	return connect(t, dsn, through, func(config *pgxpool.Config) {
		dial := config.ConnConfig.DialFunc
		config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			const handshakes = 5
			<-time.After(handshakes * farAway)
			return dial(ctx, network, address)
		}
	})
}

// Case 46: with the default policy a distant server is reached after a few attempts,
// and from then on nearly every request is served at once, unless the machine is busy. A
// client waits a second before it tries again.
func TestFarServer(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.Shared(t)
	migrated(t, dsn)
	engine, err := core.New(pgstore.New(far(t, dsn)), core.SharedScope)
	must(t, err)
	defer func() { must(t, limited(t, time.Minute, engine.Shutdown)) }()
	handler := engine.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
	const keys, few = 13, 60 // tries more; without its connections no request is ever served
	tries := 0
	for served := 0; served < keys && tries < keys+few; tries++ {
		response := testkit.Serve(handler, testkit.Post(t.Context(), "/payments", fmt.Sprint("key", served), "{}"))
		if response.Code == http.StatusCreated {
			served++
		} else {
			<-time.After(time.Second) // its Retry-After
		}
	}
	t.Logf("%d requests took %d tries", keys, tries)
	if tries == keys+few {
		t.Errorf("%d tries are not enough for %d requests", tries, keys)
	}
}

// Case 46: a program that checks its store before it serves has no slow request. On a
// busy machine it may have one, and the next program has none.
func TestCheckPreparesForTheFirstRequest(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.Shared(t)
	migrated(t, dsn)
	const programs = 10
	for n := range programs {
		pool := far(t, dsn)
		store := pgstore.New(pool)
		fails(t, "Check", limited(t, requestTime, store.Check), context.DeadlineExceeded)
		must(t, store.Check(t.Context()))
		testkit.Equal(t, pool.Stat().TotalConns(), 1, "connections")
		if limited(t, requestTime, func(ctx context.Context) error { return acquire(ctx, store, claim(fmt.Sprint(n))).err }) == nil {
			return
		}
	}
	t.Errorf("none of %d programs got its first lease within %s", programs, requestTime)
}

// Case 46: a request that is too late takes no connection with it, and its claim is
// not sent after it.
func TestLateCallKeepsItsConnection(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.Shared(t)
	migrated(t, dsn)
	proxy, through := proxied(t, dsn)
	pool := connect(t, dsn, through)
	store := pgstore.New(pool)
	lease := win(t, store, claim("key"))
	made := pool.Stat().NewConnsCount()
	proxy.Set(faultproxy.Latency(farAway))
	for operation, call := range map[string]func(ctx context.Context) error{
		"Release": func(ctx context.Context) error {
			return store.Release(ctx, storage.Lease{Claim: claim("none"), Attempt: 1})
		},
		"Extend": func(ctx context.Context) error { return store.Extend(ctx, lease, time.Minute) },
	} {
		fails(t, operation, limited(t, farAway/3, call), context.DeadlineExceeded)
		eventually(t, func() bool { return pool.Stat().AcquiredConns() == 0 })
	}
	proxy.Set(faultproxy.None())
	must(t, store.Complete(t.Context(), lease, result("response")))
	testkit.Equal(t, pool.Stat().NewConnsCount(), made, "connections that were made")
	replays(t, store, claim("key"), "response")
}
