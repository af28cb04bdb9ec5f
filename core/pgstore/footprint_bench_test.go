package pgstore_test

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
)

// BenchmarkFootprint reports the traces and costs of a first-time request at the server, beside
// an INSERT of a row of equal size: bytes of the table, of its indexes and of WAL,
// transactions, and waits for the WAL to be on disk, for each record in tables that were
// empty. The fillfactor of the store's table is 25. The figures have next to no noise:
//
//	go test -run - -bench Footprint -benchtime 1x ./core/pgstore
func BenchmarkFootprint(b *testing.B) {
	server := postgrestest.Start(b, append(postgrestest.Durable(), "autovacuum=off", "max_wal_size=4GB")...) // autovacuum writes WAL too
	pool := benchmarkPool(b, server.DSN()+"&application_name=weighed")
	watcher, err := pgxpool.New(b.Context(), server.DSN()+"&pool_max_conns=1")
	must(b, err)
	b.Cleanup(watcher.Close)
	insert, first := plainArms(b, pool)
	for _, callers := range []int{1, 16, 64, 256} {
		for _, of := range []struct {
			arm   arm
			table string
			fill  int
		}{{insert, "bare", 100}, {first, "oncekey_records", 25}, {first, "oncekey_records", 50}} {
			b.Run(fmt.Sprintf("%s/callers=%d/fillfactor=%d", of.arm.name, callers, of.fill), func(b *testing.B) {
				const records = 10_000
				prepare(b, watcher, "TRUNCATE "+of.table, fmt.Sprintf("ALTER TABLE %s SET (fillfactor = %d)", of.table, of.fill), "CHECKPOINT")
				before := weighed(b, watcher, pool)
				for range b.N {
					of.arm.repeat(b, callers, records)
				}
				after := weighed(b, watcher, pool)
				b.ReportMetric(0, "ns/op")
				all := float64(b.N * records)
				var heap, indexes int64
				must(b, watcher.QueryRow(b.Context(), "SELECT pg_table_size($1::regclass), pg_indexes_size($1::regclass)", of.table).Scan(&heap, &indexes))
				b.ReportMetric(float64(heap)/all, "B/record")
				b.ReportMetric(float64(indexes)/all, "B-of-indexes/record")
				for i, unit := range []string{"B-of-WAL/record", "commits/record", "fsyncs/record"} {
					b.ReportMetric(float64(after[i]-before[i])/all, unit)
				}
			})
		}
	}
}

// plainArms are a first-time request with a response of 300 bytes, whose record has nothing
// that depends on the service, and an INSERT of a row of its size.
func plainArms(b *testing.B, pool *pgxpool.Pool) (insert, first arm) {
	b.Helper()
	store := pgstore.New(pool)
	response := storage.Result{
		State: storage.Completed, Status: 201, Retain: time.Hour, Body: bytes.Repeat([]byte("n"), 300),
		Header: storage.Header{{Name: "Content-Type", Value: "application/json"}},
	}
	first = arm{name: "first", run: func(ctx context.Context) error {
		c := claim(newKey())
		c.Fingerprint = "sha256:" + c.Key
		lease, _, err := store.Acquire(ctx, c)
		if err != nil {
			return err
		}
		return store.Complete(ctx, lease, response)
	}}
	must(b, first.run(b.Context()))
	row := inserting(b, pool)
	return arm{name: "INSERT", run: func(ctx context.Context) error { return row(ctx, newKey()) }}, first
}

// repeat does the operation n times from so many goroutines.
func (a arm) repeat(b *testing.B, callers, n int) {
	b.Helper()
	var begun atomic.Int64
	concurrently(callers, func(int) {
		for begun.Add(1) <= int64(n) {
			if err := a.run(context.WithoutCancel(b.Context())); err != nil {
				b.Errorf("%s: %v", a.name, err)
				return
			}
		}
	})
}

// weighed reads the server's counters of bytes of WAL, transactions and fsyncs of WAL. The
// pool's connections end before, because a server process counts its work for all to see
// when it ends.
func weighed(b *testing.B, watcher, pool *pgxpool.Pool) (counters [3]int64) {
	b.Helper()
	pool.Reset()
	testkit.Eventually(b, func() bool {
		var ended bool
		err := watcher.QueryRow(b.Context(), `SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'weighed'`).Scan(&ended)
		return err == nil && ended
	})
	must(b, watcher.QueryRow(b.Context(), `
SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint, d.xact_commit, coalesce((to_jsonb(w) ->> 'wal_sync')::bigint, 0)
FROM pg_stat_database AS d, pg_stat_wal AS w WHERE d.datname = current_database()`).Scan(&counters[0], &counters[1], &counters[2]))
	return counters
}
