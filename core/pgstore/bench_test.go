package pgstore_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
)

// BenchmarkAgainstBareStatements compares a first-time request (a claim and its
// completion) with an INSERT of a row of equal size, and a replay with a SELECT of that
// row by its key. All use one pool of 32 connections. A round gives each of them 300 ms,
// one after the other. A figure is the median of the rounds' ratios:
//
//	go test -run - -bench AgainstBareStatements -benchtime 15x ./core/pgstore
func BenchmarkAgainstBareStatements(b *testing.B) {
	server := postgrestest.Start(b, append(postgrestest.Durable(), "min_wal_size=2GB", "max_wal_size=4GB", "shared_buffers=256MB")...)
	pool := benchmarkPool(b, server.DSN())
	// A young server creates a file of its log for each 16 MB, and all commits wait for it. After
	// this it has a gigabyte of used ones.
	prepare(b, pool, `SELECT pg_logical_emit_message(false, '', repeat(' ', 1 << 20)) FROM generate_series(1, 1024)`, `CHECKPOINT`)
	arms := armsOf(b, pool)
	for _, callers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) { compare(b, arms, callers) })
	}
}

func benchmarkPool(b *testing.B, dsn string) *pgxpool.Pool {
	b.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	must(b, err)
	config.MaxConns = 32
	pool, err := pgxpool.NewWithConfig(b.Context(), config)
	must(b, err)
	b.Cleanup(pool.Close)
	must(b, pgstore.Migrate(b.Context(), pool))
	prepare(b, pool, `CREATE TABLE bare (key text COLLATE "C" PRIMARY KEY, payload bytea NOT NULL)`)
	return pool
}

func prepare(b *testing.B, pool *pgxpool.Pool, statements ...string) {
	b.Helper()
	for _, statement := range statements {
		_, err := pool.Exec(b.Context(), statement)
		must(b, err)
	}
}

func compare(b *testing.B, arms []arm, callers int) {
	b.Helper()
	ratios := map[string][]float64{}
	add := func(name string, ratio float64) { ratios[name] = append(ratios[name], ratio) }
	for range b.N {
		round := map[string]sample{}
		for _, arm := range arms {
			round[arm.name] = arm.round(b, callers)
		}
		for _, arm := range arms {
			if arm.name == arm.bare {
				continue
			}
			add(arm.name+"/"+arm.bare, float64(len(round[arm.name]))/float64(len(round[arm.bare])))
			add("p99-"+arm.name+"/"+arm.bare, round[arm.name].p99()/round[arm.bare].p99())
		}
	}
	b.ReportMetric(0, "ns/op")
	for name, all := range ratios {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], name)
	}
}

// arm is one of the operations to compare, with the name of its bare statement.
type arm struct {
	name, bare string
	run        func(ctx context.Context) error
}

func armsOf(b *testing.B, pool *pgxpool.Pool) []arm {
	b.Helper()
	const known = 1000 // keys to read
	store, alone := pgstore.New(pool), pgstore.New(pool, pgstore.WithoutBatches())
	body := strings.Repeat("n", 300)
	first := func(ctx context.Context, store storage.Store, key string) error {
		lease, _, err := store.Acquire(ctx, originated(digested(claim(key), key)))
		if err != nil {
			return err
		}
		return store.Complete(ctx, lease, result(body))
	}
	keys := make([]string, known)
	must(b, first(b.Context(), store, newKey()))
	insert := inserting(b, pool)
	for i := range keys {
		keys[i] = newKey()
		must(b, insert(b.Context(), keys[i]))
		must(b, first(b.Context(), store, keys[i]))
	}
	var next atomic.Uint64
	replay := func(ctx context.Context, store storage.Store) error {
		_, _, err := store.Acquire(ctx, claim(keys[next.Add(1)%known]))
		return err
	}
	return []arm{
		{"INSERT", "INSERT", func(ctx context.Context) error { return insert(ctx, newKey()) }},
		{"first", "INSERT", func(ctx context.Context) error { return first(ctx, store, newKey()) }},
		{"first-alone", "INSERT", func(ctx context.Context) error { return first(ctx, alone, newKey()) }},
		{"SELECT", "SELECT", func(ctx context.Context) error {
			var found []byte
			return pool.QueryRow(ctx, `SELECT payload FROM bare WHERE key = $1`, keys[next.Add(1)%known]).Scan(&found)
		}},
		{"replay", "SELECT", func(ctx context.Context) error { return replay(ctx, store) }},
		{"replay-alone", "SELECT", func(ctx context.Context) error { return replay(ctx, alone) }},
	}
}

func newKey() string { return storage.NewToken().String() + storage.NewToken().String() }

// inserting returns an INSERT of a row that has the size of the only record.
func inserting(b *testing.B, pool *pgxpool.Pool) func(ctx context.Context, key string) error {
	b.Helper()
	var size int
	must(b, pool.QueryRow(b.Context(), `SELECT pg_column_size(r.*) FROM oncekey_records AS r`).Scan(&size))
	payload := make([]byte, size-64-32) // without the key and the row's own header
	rand.Read(payload)
	return func(ctx context.Context, key string) error {
		_, err := pool.Exec(ctx, `INSERT INTO bare (key, payload) VALUES ($1, $2)`, key, payload)
		return err
	}
}

// sample holds how long each operation of a round took, in order of length.
type sample []time.Duration

func (s sample) p99() float64 { return float64(s[len(s)*99/100]) }

// round repeats the operation from so many goroutines.
func (a arm) round(b *testing.B, callers int) (all sample) {
	b.Helper()
	const length = 300 * time.Millisecond
	var mutex sync.Mutex
	end := time.Now().Add(length)
	concurrently(callers, func(int) {
		var own sample
		for start := time.Now(); start.Before(end); {
			if err := a.run(b.Context()); err != nil {
				b.Errorf("%s: %v", a.name, err)
				return
			}
			now := time.Now()
			own, start = append(own, now.Sub(start)), now
		}
		mutex.Lock()
		defer mutex.Unlock()
		all = append(all, own...)
	})
	slices.Sort(all)
	return all
}
