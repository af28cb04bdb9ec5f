package pgstore_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	postgrestest "github.com/oncekey/oncekey/core/internal/testkit/postgres"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
)

// BenchmarkAgainstBareStatements compares a first-time request (a claim and its
// completion) with an INSERT of a row of equal size, and a replay with a SELECT of that
// row by its key. All use one pool. A round gives each of them an equal time, one after
// the other, and a figure is the median of the rounds:
//
//	go test -run - -bench AgainstBareStatements -benchtime 15x ./core/pgstore
func BenchmarkAgainstBareStatements(b *testing.B) {
	server := postgrestest.Start(b, append(postgrestest.Durable(), "max_wal_size=4GB", "shared_buffers=256MB")...)
	for _, callers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) { compare(b, server.DSN(), callers) })
	}
}

func compare(b *testing.B, dsn string, callers int) {
	b.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	must(b, err)
	config.MaxConns = 32
	pool, err := pgxpool.NewWithConfig(b.Context(), config)
	must(b, err)
	defer pool.Close()
	must(b, pgstore.Migrate(b.Context(), pool))
	_, err = pool.Exec(b.Context(), `CREATE TABLE IF NOT EXISTS bare (key text COLLATE "C" PRIMARY KEY, payload bytea NOT NULL)`)
	must(b, err)
	arms, rounds := armsOf(b, pool), map[string][]sample{}
	for range b.N {
		for _, arm := range arms {
			rounds[arm.name] = append(rounds[arm.name], arm.round(b, callers))
		}
	}
	figure := func(name string, of func(sample) float64) float64 {
		var figures []float64
		for _, s := range rounds[name] {
			figures = append(figures, of(s))
		}
		slices.Sort(figures)
		return figures[len(figures)/2]
	}
	rate := func(s sample) float64 { return float64(len(s)) }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(figure("first", rate)/figure("INSERT", rate), "first/INSERT")
	b.ReportMetric(figure("replay", rate)/figure("SELECT", rate), "replay/SELECT")
	b.ReportMetric(figure("first", sample.p99)/figure("INSERT", sample.p99), "p99-first/INSERT")
	b.ReportMetric(figure("first", sample.p99)/1e6, "p99-ms")
}

// arm is one of the operations to compare.
type arm struct {
	name string
	run  func(ctx context.Context) error
}

func armsOf(b *testing.B, pool *pgxpool.Pool) []arm {
	b.Helper()
	store, payload := pgstore.New(pool), make([]byte, 800) //nolint:mnd // about a record with a body of 300 bytes
	rand.Read(payload)
	key := func() string { return storage.NewToken().String() + storage.NewToken().String() }
	insert := func(ctx context.Context, key string) error {
		_, err := pool.Exec(ctx, `INSERT INTO bare (key, payload) VALUES ($1, $2)`, key, payload)
		return err
	}
	first := func(ctx context.Context, key string) error {
		lease, _, err := store.Acquire(ctx, claim(key))
		if err != nil {
			return err
		}
		return store.Complete(ctx, lease, result(string(payload[:300])))
	}
	known := key()
	must(b, insert(b.Context(), known))
	must(b, first(b.Context(), known))
	return []arm{
		{"INSERT", func(ctx context.Context) error { return insert(ctx, key()) }},
		{"first", func(ctx context.Context) error { return first(ctx, key()) }},
		{"SELECT", func(ctx context.Context) error {
			var found []byte
			return pool.QueryRow(ctx, `SELECT payload FROM bare WHERE key = $1`, known).Scan(&found)
		}},
		{"replay", func(ctx context.Context) error {
			_, _, err := store.Acquire(ctx, claim(known))
			return err
		}},
	}
}

// sample holds how long each operation of a round took, in order of length.
type sample []time.Duration

func (s sample) p99() float64 { return float64(s[len(s)*99/100]) }

// round repeats the operation from so many goroutines.
func (a arm) round(b *testing.B, callers int) (all sample) {
	b.Helper()
	const length = 300 * time.Millisecond
	var running sync.WaitGroup
	var mutex sync.Mutex
	end := time.Now().Add(length)
	for range callers {
		running.Go(func() {
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
	}
	running.Wait()
	slices.Sort(all)
	return all
}
