//go:build unix

package reconcile

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite"

	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/sealedstore"
	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/core/tieredstore"
	"github.com/oncekey/oncekey/internal/testkit"
	mysqltest "github.com/oncekey/oncekey/internal/testkit/mysql"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

// place says where the records are. A child gets it as JSON.
type place struct{ Store, Redis, Database string }

// places start the servers of each store, or create a database at shared ones.
var places = map[string]func(t *testing.T) place{
	"redis":    func(t *testing.T) place { return place{Redis: redistest.Start(t).Addr()} },
	"sealed":   func(t *testing.T) place { return place{Redis: redistest.Start(t).Addr()} },
	"postgres": func(t *testing.T) place { return place{Database: postgrestest.Shared(t)} },
	"tiered": func(t *testing.T) place {
		return place{Redis: redistest.Start(t).Addr(), Database: postgrestest.Shared(t)}
	},
	"mariadb": func(t *testing.T) place { return place{Database: mysqltest.MariaDB.Shared(t)} },
	"sqlite": func(t *testing.T) place {
		file := filepath.Join(serverproc.Folder(t), "records.db")
		return place{Database: "file:" + file + "?_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)&_pragma=busy_timeout(20000)"}
	},
}

// open connects to the store. The tables exist already, or migrates is true.
func (p place) open(ctx context.Context, migrates bool) (store testkit.Inspectable, closes func(), err error) {
	switch p.Store {
	case "redis", "sealed":
		client := redis.NewClient(&redis.Options{Addr: p.Redis})
		closes = func() { _ = client.Close() }
		if p.Store == "sealed" {
			return sealedstore.New(redisstore.New(client), testkit.NewGCM(1)), closes, nil
		}
		return redisstore.New(client), closes, nil
	case "postgres", "tiered":
		return p.openPostgres(ctx, migrates)
	case "mariadb":
		return p.openSQL(ctx, "mysql", sqlstore.MySQL(), migrates)
	case "sqlite":
		return p.openSQL(ctx, "sqlite", sqlstore.SQLite(), migrates)
	}
	return nil, nil, fmt.Errorf("the store is %q, which is none of the table's", p.Store)
}

func (p place) openPostgres(ctx context.Context, migrates bool) (testkit.Inspectable, func(), error) {
	pool, err := pgxpool.New(ctx, p.Database)
	if err == nil && migrates {
		err = pgstore.Migrate(ctx, pool)
	}
	if err != nil || p.Store == "postgres" {
		return pgstore.New(pool), pool.Close, err
	}
	client := redis.NewClient(&redis.Options{Addr: p.Redis})
	return tieredstore.New(redisstore.New(client), pgstore.New(pool)), func() { _ = client.Close(); pool.Close() }, nil
}

func (p place) openSQL(ctx context.Context, driver string, dialect sqlstore.Dialect, migrates bool) (testkit.Inspectable, func(), error) {
	db, err := sql.Open(driver, p.Database)
	if err == nil && migrates {
		err = sqlstore.Migrate(ctx, db, dialect)
	}
	return sqlstore.New(db, dialect), func() { _ = db.Close() }, err
}
