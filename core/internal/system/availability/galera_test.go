package availability

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/sqlstore"
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
		db, err := sql.Open("mysql", fmt.Sprintf("root@tcp(%s)/shop", proxy.Addr()))
		testkit.Must(t, err)
		t.Cleanup(func() { db.Close() })
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
