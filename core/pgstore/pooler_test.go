package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	postgrestest "github.com/oncekey/oncekey/core/internal/testkit/postgres"
	serverproc "github.com/oncekey/oncekey/core/internal/testkit/server"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
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
			if slices.ContainsFunc(process.Output(), func(line string) bool { return strings.Contains(line, "process up") }) {
				return nil
			}
			return errNotUp
		})
	}
	serverproc.StartOnFreePort(t, launch, func() bool {
		return slices.ContainsFunc(process.Output(), func(line string) bool { return strings.Contains(line, "in use") })
	})
	return address
}

// Case 45: pgbouncer in transaction mode. Each statement may meet another session.
func TestTransactionMode(t *testing.T) {
	t.Parallel()
	dsn := bouncer(t, postgrestest.Shared(t))
	pool := connect(t, dsn, nil)
	must(t, pgstore.Migrate(t.Context(), pool))
	must(t, pgstore.Migrate(t.Context(), pool))
	store := pgstore.New(pool, pgstore.AsynchronousClaims()).AlwaysBatch()
	const callers, rounds = 8, 10
	var running sync.WaitGroup
	for caller := range callers {
		running.Go(func() {
			for round := range rounds {
				key := fmt.Sprint(caller, "-", round)
				for name, err := range map[string]error{"serve": servedThrough(t.Context(), store, key), "inspect": inspectedThrough(t.Context(), store, key)} {
					if err != nil {
						t.Errorf("%s %s: %v", name, key, err)
						return
					}
				}
			}
		})
	}
	running.Wait()
}

// servedThrough makes the calls of requests.
func servedThrough(ctx context.Context, store storage.Store, key string) error {
	lease, found, err := store.Acquire(ctx, claim(key))
	if err == nil && found == nil {
		err = store.Extend(ctx, lease, time.Minute)
	}
	if err == nil {
		err = store.Release(ctx, lease)
	}
	if err == nil {
		lease, _, err = store.Acquire(ctx, claim(key))
	}
	if err == nil {
		err = store.Complete(ctx, lease, result(key))
	}
	if err == nil {
		_, found, err = store.Acquire(ctx, claim(key))
	}
	if err == nil && (found == nil || string(found.Body) != key) {
		err = fmt.Errorf("found %+v, want the response", found)
	}
	return err
}

// inspectedThrough makes the calls of operators.
func inspectedThrough(ctx context.Context, store *pgstore.Store, key string) error {
	_, err := store.Lookup(ctx, key)
	if err == nil {
		_, err = store.List(ctx, storage.Filter{States: []storage.State{storage.Completed}}, storage.Page{Limit: 10})
	}
	if err == nil {
		_, err = store.Sweep(ctx, 10)
	}
	return err
}

// Case 45: handlers' statements need the setting of docs/postgres.md.
func TestTransactionsInTransactionMode(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/postgres.md")
	must(t, err)
	block := regexp.MustCompile("(?s)<!-- dsn -->\n```\n(.*?)\n```").FindSubmatch(page)
	if block == nil {
		t.Fatal("docs/postgres.md has no DSN for a pooler")
	}
	documented, err := url.Parse(string(block[1]))
	must(t, err)
	pool := migrated(t, bouncer(t, postgrestest.Shared(t))+"&"+documented.RawQuery, nil)
	execute(t, pool, `CREATE TABLE payments (key text)`)
	store := pgstore.New(pool)
	const callers, rounds = 4, 10
	var running sync.WaitGroup
	for caller := range callers {
		running.Go(func() {
			for round := range rounds {
				if err := paidThrough(t.Context(), store, fmt.Sprint(caller, "-", round)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
	if payments := queryOne[int](t, pool, `SELECT count(*) FROM payments`); payments != callers*rounds {
		t.Errorf("there are %d payments, want %d", payments, callers*rounds)
	}
}

func paidThrough(ctx context.Context, store *pgstore.Store, key string) error {
	lease, _, err := store.Acquire(ctx, claim(key))
	if err != nil {
		return err
	}
	inTransaction, transaction, err := store.BeginTransaction(ctx, lease)
	if err != nil {
		return err
	}
	tx, err := pgstore.Tx(inTransaction)
	if err == nil {
		_, err = tx.Exec(inTransaction, `INSERT INTO payments VALUES ($1)`, key)
	}
	if err == nil {
		err = transaction.Commit(ctx, lease, result(key))
	}
	return err
}

// Case 45: where a pooler cannot be noticed the error names the missing setting.
func TestLostPreparedStatementNamesTheSetting(t *testing.T) {
	t.Parallel()
	_, pool := open(t)
	store := pgstore.New(pool)
	pool.Reset()
	lease := win(t, store, claim("key"))
	execute(t, pool, `DEALLOCATE ALL`) // as a pooler that hands the client another session
	err := store.Complete(t.Context(), lease, result("response"))
	if err == nil || !strings.Contains(err.Error(), "default_query_exec_mode=exec") {
		t.Errorf("Complete returned %v, want the setting", err)
	}
	must(t, store.Complete(t.Context(), lease, result("response"))) // on a new connection
}
