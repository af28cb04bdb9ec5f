package availability

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/internal/system/service"
	"github.com/oncekey/oncekey/core/internal/system/soak"
	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/storetest"
	"github.com/oncekey/oncekey/internal/testkit"
	mysqltest "github.com/oncekey/oncekey/internal/testkit/mysql"
	faultproxy "github.com/oncekey/oncekey/internal/testkit/proxy"
	"github.com/oncekey/oncekey/policy"
)

// galeraNode kills the node of three that serves all connections of the service, and moves
// the proxy in front to the next node at once. The two others commit again when they have
// agreed that the node is gone.
func galeraNode(t *testing.T, _ time.Duration) scenario {
	t.Helper()
	nodes := mysqltest.StartGalera(t)
	nodes[0].Execute("CREATE DATABASE shop")
	proxy := faultproxy.Start(t, nodes[0].Addr())
	open := func() *sql.DB {
		db := service.SQL(t, "mysql", fmt.Sprintf("root@tcp(%s)/shop", proxy.Addr()))
		db.SetMaxOpenConns(connections)
		db.SetMaxIdleConns(connections)
		return db
	}
	e := inSQL(t, sqlstore.MySQL(), open(), open(), sqlstore.Transactional())
	e.name = "MariaDB with Galera: one node of three is killed"
	e.strike = func(l *load) time.Time {
		began := time.Now()
		nodes[0].Kill()
		proxy.Move(nodes[1].Addr())
		l.awaitOutage(t, began)
		return began
	}
	return e
}

// inSQL returns both services with pools of their own, which may lead to different
// databases. The guarded handler writes in the transaction of its record, where it has one.
func inSQL(t *testing.T, dialect sqlstore.Dialect, db, other *sql.DB, opts ...policy.Option) scenario {
	t.Helper()
	testkit.Must(t, sqlstore.Migrate(t.Context(), db, dialect))
	for _, pool := range []*sql.DB{db, other} {
		if _, err := pool.ExecContext(t.Context(), `CREATE TABLE IF NOT EXISTS effects (service varchar(10), request varchar(100))`); err != nil {
			t.Fatal(err)
		}
	}
	const insert = `INSERT INTO effects (service, request) VALUES (?, ?)`
	into := func(db *sql.DB, service string) write {
		return func(ctx context.Context, key string) error {
			_, err := db.ExecContext(ctx, insert, service, key)
			return err
		}
	}
	e := scenario{bare: bare(into(other, "bare"))}
	if len(opts) == 0 {
		counted := new(ledger)
		e.guarded, e.effects = guarded(t, sqlstore.New(db, dialect), counted.counted(into(db, "guarded"))), counted.effects
		return e
	}
	e.guarded = guarded(t, sqlstore.New(db, dialect), func(ctx context.Context, key string) error {
		tx, err := sqlstore.Tx(ctx)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, insert, "guarded", key)
		return err
	}, opts...)
	e.effects = func(t *testing.T) map[string]int { t.Helper(); return effectsIn(t, db) }
	return e
}

func effectsIn(t *testing.T, db *sql.DB) map[string]int {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT request, count(*) FROM effects WHERE service = 'guarded' GROUP BY request`)
	testkit.Must(t, err)
	defer rows.Close()
	counts := make(map[string]int)
	for rows.Next() {
		var key string
		var n int
		testkit.Must(t, rows.Scan(&key, &n))
		counts[key] = n
	}
	testkit.Must(t, rows.Err())
	return counts
}

// unit is the time that the contract's cases take for short.
const unit = 400 * time.Millisecond

// TestSoakGalera runs the contract of a store over one node of a cluster, and then claims
// the same keys at all nodes at once: nodes that accept writes of the same row find the
// conflict only at its commit.
//
//nolint:paralleltest,tparallel // the cases run in parallel, and their cluster is one
func TestSoakGalera(t *testing.T) {
	soak.Duration(t)
	nodes := mysqltest.StartGalera(t)
	t.Run("contract", func(t *testing.T) {
		var databases atomic.Int64
		storetest.Run(t, storetest.Config{Unit: unit, New: func(tb testing.TB) storage.Store {
			tb.Helper()
			name := fmt.Sprint("contract", databases.Add(1))
			nodes[0].Execute("CREATE DATABASE " + name)
			return storeAt(tb, nodes[0], name, true)
		}})
	})
	t.Run("one winner", func(t *testing.T) {
		nodes[0].Execute("CREATE DATABASE winner")
		stores := []storage.Store{storeAt(t, nodes[0], "winner", true)}
		for _, node := range nodes[1:] {
			stores = append(stores, storeAt(t, node, "winner", false))
		}
		for n := range 300 {
			claimAtEach(t, stores, fmt.Sprint("key-", n))
		}
	})
}

func storeAt(t testing.TB, node *mysqltest.Server, database string, migrate bool) storage.Store {
	t.Helper()
	db := service.SQL(t, "mysql", fmt.Sprintf("root@tcp(%s)/%s", node.Addr(), database))
	db.SetMaxOpenConns(connections / 2)
	if migrate {
		testkit.Must(t, sqlstore.Migrate(t.Context(), db, sqlstore.MySQL()))
	}
	return sqlstore.New(db, sqlstore.MySQL())
}

// claimAtEach claims a key at all stores at once, and expects one lease, and its result at
// each store.
func claimAtEach(t *testing.T, stores []storage.Store, key string) {
	t.Helper()
	leases := make([]storage.Lease, len(stores))
	failures := make([]error, len(stores))
	var claims sync.WaitGroup
	for n, store := range stores {
		claims.Go(func() {
			lease, record, err := store.Acquire(t.Context(), testkit.Claim(key))
			if err == nil && record == nil {
				leases[n] = lease
			}
			failures[n] = err
		})
	}
	claims.Wait()
	winner := slices.IndexFunc(leases, func(l storage.Lease) bool { return l.Key != "" })
	if err := errors.Join(failures...); winner < 0 || err != nil {
		t.Fatalf("%s: no claim got the lease, or one failed: %v", key, err)
	}
	for n := range leases[winner+1:] {
		testkit.Equal(t, leases[winner+1+n].Key, "", "%s: nodes %d and %d both gave a lease", key, winner, winner+1+n)
	}
	testkit.Must(t, stores[winner].Complete(t.Context(), leases[winner], testkit.Result(key)))
	for _, store := range stores {
		testkit.Eventually(t, func() bool { // a node applies the writes of others a moment later
			_, record, err := store.Acquire(t.Context(), testkit.Claim(key))
			return err == nil && record != nil && string(record.Body) == key
		})
	}
}
