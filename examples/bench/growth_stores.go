package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/core/storage"
)

// kinds returns the stores whose server is installed, and the names of the others.
func (s *suite) kinds(ctx context.Context) (all []kind, missing []string, err error) {
	all = append(all, kind{inMemory, growMemory, func() {}})
	if s.redis == nil {
		missing = append(missing, "Redis")
	} else {
		all = append(all, s.growRedis())
	}
	if s.postgres == nil {
		missing = append(missing, "PostgreSQL")
	} else {
		grow, err := s.growPostgres(ctx)
		if all = append(all, grow); err != nil {
			return all, missing, err
		}
	}
	folder, err := os.MkdirTemp("", "oncekey-bench-growth-")
	if err != nil {
		return all, missing, err
	}
	databases, _ := s.sqlDatabases(folder)
	for _, d := range databases {
		if d.name != "MariaDB" && d.name != "SQLite" {
			continue // PostgreSQL has a store of its own here, and MySQL is MariaDB's kin
		}
		grow, err := d.grow()
		if all = append(all, grow); err != nil {
			return all, missing, err
		}
	}
	last := &all[len(all)-1]
	end := last.end
	last.end = func() { end(); _ = os.RemoveAll(folder) } // a folder for temporary files
	if s.mariadb == nil {
		missing = append(missing, "MariaDB")
	}
	return all, missing, nil
}

// soon is when expiring record i expires: some time in the minute that the measurement lasts.
func soon(i int) time.Duration { return time.Duration(1+i%60) * time.Second }

func growMemory(ctx context.Context, records int) (grown, error) {
	before := heapInUse()
	store, err := filledMemory(ctx, records)
	if err != nil {
		return grown{}, err
	}
	weight := float64(heapInUse()-before) / float64(records)
	work := storeWork{ctx: ctx, store: store, workers: 1}
	for i := range records / expiring {
		result := newResult()
		result.Retain = soon(i)
		if err := work.finish([]storage.Claim{growthClaim(records + i)}, result); err != nil {
			return grown{}, err
		}
	}
	runtime.GC()
	return grown{store: store, weight: weight}, nil
}

// redisDatabase is the database of the first size. Other parts use 0 and 1.
const redisDatabase = 2

func (s *suite) growRedis() kind {
	var clients []*redis.Client
	return kind{"redisstore", func(ctx context.Context, records int) (grown, error) {
		client := s.redisClient(redisDatabase + len(clients))
		clients = append(clients, client)
		before, err := usedMemory(ctx, client)
		if err == nil {
			err = fillRedis(ctx, client, 0, records, func(int) time.Duration { return 24 * time.Hour })
		}
		if err != nil {
			return grown{}, err
		}
		after, err := usedMemory(ctx, client)
		if err == nil {
			err = fillRedis(ctx, client, records, records/expiring, soon)
		}
		return grown{store: redisstore.New(client), weight: float64(after-before) / float64(records)}, err
	}, func() {
		for _, client := range clients {
			client.Close()
		}
	}}
}

func usedMemory(ctx context.Context, client *redis.Client) (bytes int64, err error) {
	info, err := client.Info(ctx, "memory").Result()
	if err == nil {
		_, figure, _ := strings.Cut(info, "used_memory:")
		_, err = fmt.Sscan(figure, &bytes)
	}
	return bytes, err
}

// fillRedis copies the record of the first key to the other keys.
func fillRedis(ctx context.Context, client *redis.Client, from, records int, ttl func(i int) time.Duration) error {
	if from == 0 {
		work := storeWork{ctx: ctx, store: redisstore.New(client), workers: 1}
		if err := work.finish([]storage.Claim{growthClaim(0)}, newResult()); err != nil {
			return err
		}
	}
	value, err := client.Get(ctx, redisstore.DefaultPrefix+growthKey(0)).Result()
	if err != nil {
		return err
	}
	const batch = 1000
	for start := 0; start < records; start += batch {
		if _, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i := start; i < min(start+batch, records); i++ {
				pipe.Set(ctx, redisstore.DefaultPrefix+growthKey(from+i), value, ttl(i))
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// growingTable is a table of records in a database.
type growingTable struct {
	name     string
	numbered bool   // parameters are $1 and so on
	size     string // a query for the bytes of the table and of its indexes
	analyze  string // begins the statement that brings the size up to date
}

// days are three, in microseconds.
const days = " - 259200000000"

// expired are the values of columns of a record r that has expired.
var expired = map[string]string{"expires_at": "r.expires_at" + days, "sweep_after": "r.sweep_after" + days}

func (s *suite) growPostgres(ctx context.Context) (kind, error) {
	of := kind{name: "pgstore", end: func() {}}
	pool, err := s.pool(ctx, 4, nil)
	if err != nil {
		return of, err
	}
	db := stdlib.OpenDBFromPool(pool)
	of.end = func() { _ = db.Close(); pool.Close() }
	of.fill = func(ctx context.Context, records int) (grown, error) {
		table := fmt.Sprint("growth_", records)
		if err := pgstore.Migrate(ctx, pool, pgstore.Table(table)); err != nil {
			return grown{}, err
		}
		store := pgstore.New(pool, pgstore.Table(table))
		weight, err := growingTable{
			name: table, numbered: true, size: "SELECT pg_total_relation_size('" + table + "')", analyze: "ANALYZE ",
		}.fill(ctx, db, store, records)
		return grown{store, weight, store.Sweep}, err
	}
	return of, nil
}

// grow is for databases of sqlstore.
func (d sqlDatabase) grow() (kind, error) {
	of := kind{name: "sqlstore, " + d.name, end: func() {}}
	db, err := sql.Open(d.driver, d.dsn)
	if err != nil {
		return of, err
	}
	of.end = func() { _ = db.Close() } // the database ends with the program
	of.fill = func(ctx context.Context, records int) (grown, error) {
		table := fmt.Sprint("growth_", records)
		if err := sqlstore.Migrate(ctx, db, d.dialect, sqlstore.Table(table)); err != nil {
			return grown{}, err
		}
		store := sqlstore.New(db, d.dialect, sqlstore.Table(table))
		analyze, size := "ANALYZE TABLE ", "SELECT data_length + index_length FROM information_schema.tables WHERE table_name = '"+table+"'"
		if d.server == nil {
			analyze, size = "ANALYZE ", "SELECT sum(pgsize) FROM dbstat WHERE name LIKE '%"+table+"%'"
		}
		weight, err := growingTable{
			name: table, size: size, analyze: analyze,
		}.fill(ctx, db, store, records)
		return grown{store, weight, store.Sweep}, err
	}
	return of, nil
}

// fill stores one record, and copies it to the other keys. It returns the bytes a record.
func (t growingTable) fill(ctx context.Context, db *sql.DB, store storage.Store, records int) (weight float64, err error) {
	if err := (storeWork{ctx: ctx, store: store, workers: 1}).finish([]storage.Claim{growthClaim(0)}, newResult()); err != nil {
		return 0, err
	}
	columns, err := t.columns(ctx, db)
	if err != nil {
		return 0, err
	}
	if err := t.copy(ctx, db, columns, 1, records-1, nil); err != nil {
		return 0, err
	}
	if err := t.copy(ctx, db, columns, records, records/expiring, expired); err != nil {
		return 0, err
	}
	if _, err := db.ExecContext(ctx, t.analyze+t.name); err != nil {
		return 0, err
	}
	err = db.QueryRowContext(ctx, t.size).Scan(&weight)
	return weight / float64(records+records/expiring), err
}

// columns are those of the table.
func (t growingTable) columns(ctx context.Context, db *sql.DB) ([]string, error) {
	rows, err := db.QueryContext(ctx, "SELECT * FROM "+t.name+" WHERE 1 = 0") //nolint:gosec // a table of this program
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	return columns, errors.Join(err, rows.Err())
}

// copy copies the record of the first key to n keys from a number on.
func (t growingTable) copy(ctx context.Context, db *sql.DB, columns []string, from, n int, other map[string]string) error {
	const batch = 400 // SQLite joins 500 selects at most
	values := make([]string, len(columns))
	for i, column := range columns {
		switch {
		case column == "record_key":
			values[i] = "k.name"
		case other[column] != "":
			values[i] = other[column]
		default:
			values[i] = "r." + column
		}
	}
	for start := 0; start < n; start += batch {
		names := make([]string, min(batch, n-start))
		keys := make([]any, len(names))
		for i := range names {
			names[i], keys[i] = "SELECT ?", growthKey(from+start+i)
			if t.numbered {
				names[i] = fmt.Sprintf("SELECT $%d::text", i+1)
			}
		}
		names[0] += " AS name"
		//nolint:gosec // names of this program
		statement := fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s AS r, (%s) AS k WHERE r.record_key = '%s'", t.name, strings.Join(columns, ", "),
			strings.Join(values, ", "), t.name, strings.Join(names, " UNION ALL "), growthKey(0))
		if _, err := db.ExecContext(ctx, statement, keys...); err != nil {
			return err
		}
	}
	return nil
}
