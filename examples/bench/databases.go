package main

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver mysql
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite" // the driver sqlite

	mysqltest "github.com/oncekey/oncekey/internal/testkit/mysql"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

// databases are the servers of this program. One that is not installed is nil.
type databases struct {
	owner    serverproc.Program
	redis    *redistest.Server
	postgres *postgrestest.Server
	mysql    *mysqltest.Server
	mariadb  *mysqltest.Server
}

// walFiles is how many WAL files of 16 MB the server keeps, by min_wal_size.
const walFiles = 3 << 30 / (16 << 20)

// start starts the servers that are installed, with the settings of production except for
// memory. PostgreSQL, MySQL and MariaDB wait for the disk at each commit. Redis keeps
// nothing on disk, because the benchmark does not compare that.
func (d *databases) start() error {
	ofMySQL := []string{"innodb_buffer_pool_size=256M", "innodb_flush_method=O_DIRECT", "innodb_use_native_aio=1"}
	for _, start := range []func(){
		func() { d.redis = redistest.Start(&d.owner, "--maxmemory-policy", "noeviction") },
		func() {
			d.postgres = postgrestest.Start(&d.owner, append(postgrestest.Durable(), "shared_buffers=256MB", "min_wal_size=3GB", "max_wal_size=8GB")...)
		},
		func() {
			d.mysql = mysqltest.MySQL.Start(&d.owner, append(ofMySQL, "innodb_redo_log_capacity=256M", "log_bin=binlog")...)
			d.mysql.Execute("CREATE DATABASE bench")
		},
		func() {
			d.mariadb = mysqltest.MariaDB.Start(&d.owner, append(ofMySQL, "innodb_log_file_size=256M")...)
			d.mariadb.Execute("CREATE DATABASE bench")
		},
	} {
		if err := d.owner.Try(start); err != nil && !errors.Is(err, serverproc.ErrMissing) {
			return err
		}
	}
	return nil
}

func (d *databases) stop() { d.owner.End() }

// benchDSN leads to the database bench of a server.
func benchDSN(server *mysqltest.Server) string {
	return strings.TrimSuffix(server.DSN(), "mysql") + "bench"
}

// redisClient has a connection for each concurrent request of a pooled comparison.
func (d *databases) redisClient(database int) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: d.redis.Addr(), DB: database, ContextTimeoutEnabled: true, PoolSize: 160, DialTimeout: 10 * time.Second,
	})
}

const missing = "not installed: parts that need it are left out"

// versions are those of the servers, with the settings that matter.
func (d *databases) versions(ctx context.Context) [][2]string {
	all := [][2]string{{"Redis", missing}, {"PostgreSQL", missing}, {"MySQL", missing}, {"MariaDB", missing}}
	if d.redis != nil {
		client := d.redisClient(0)
		defer client.Close()
		all[0][1] = client.InfoMap(ctx, "server").Item("Server", "redis_version") + ", without persistence"
	}
	if d.postgres != nil {
		all[1][1] = versionOf(ctx, "pgx", d.postgres.DSN(), "SHOW server_version") + ", fsync on, with WAL files to reuse"
	}
	if d.mysql != nil {
		all[2][1] = versionOf(ctx, "mysql", d.mysql.DSN(), "SELECT @@version") + ", innodb_flush_log_at_trx_commit 1, binary log on"
	}
	if d.mariadb != nil {
		all[3][1] = versionOf(ctx, "mysql", d.mariadb.DSN(), "SELECT @@version") + ", innodb_flush_log_at_trx_commit 1"
	}
	return all
}

func versionOf(ctx context.Context, driver, dsn, query string) string {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err.Error()
	}
	defer db.Close()
	var version string
	if err := db.QueryRowContext(ctx, query).Scan(&version); err != nil {
		return err.Error()
	}
	return version
}
