package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
)

// passing is a Retain that is over when the next statement runs.
const passing = time.Millisecond

// tombstones measures what stays of a record while its key is remembered.
func tombstones(ctx context.Context, s *suite) (report.Section, error) {
	section := report.Section{
		Title: "Tombstones",
		Text: []string{"A remembered key takes these bytes before and after its response has expired. The response has " +
			fmt.Sprint(size) + " bytes and one header. memstore: heap in use, for each record, with the index. Redis: MEMORY USAGE of " +
			"all keys of the record, and of an empty value under the same name. PostgreSQL: pg_column_size of the row, and of a row " +
			"with nothing but the columns of a key."},
	}
	table := report.Table{Head: []string{"store", "finished record", "tombstone", "nothing but a key"}}
	for _, measure := range []func(context.Context, *suite) (remains, error){memoryTombstone, redisTombstone, postgresTombstone} {
		kept, err := measure(ctx, s)
		if err != nil {
			return section, err
		}
		if kept.store == "" {
			continue
		}
		key := ""
		if kept.key > 0 {
			key = report.Number(kept.key)
		}
		table.Rows = append(table.Rows, []string{kept.store, report.Number(kept.record), report.Number(kept.tombstone), key})
		s.results.figures[recordFigure(kept.store)], s.results.figures[tombstoneFigure(kept.store)] = kept.record, kept.tombstone
	}
	section.Tables = []report.Table{table}
	return section, nil
}

// remains are the bytes that a key takes at a store: with its response, as a tombstone, and
// as nothing but a key (zero: not measured). Without a server, store is empty.
type remains struct {
	store                  string
	record, tombstone, key float64
}

func recordFigure(store string) string { return "bytes of a finished record, " + store }

func tombstoneFigure(store string) string { return "bytes of a tombstone, " + store }

// remembered makes finished records that are remembered for a day.
func (w storeWork) remembered(claims []storage.Claim, retain time.Duration) error {
	result := newResult()
	result.Retain, result.Remember = retain, 24*time.Hour
	return w.finish(claims, result)
}

// findExpired expects a tombstone.
func (w storeWork) findExpired(c storage.Claim) error {
	_, found, err := w.store.Acquire(w.ctx, c)
	if err == nil && (found == nil || found.State != storage.Expired) {
		err = errNotFound
	}
	return err
}

func memoryTombstone(ctx context.Context, s *suite) (kept remains, err error) {
	claims := newClaims(s.records)
	weigh := func(retain time.Duration, find func(storeWork, storage.Claim) error) (float64, error) {
		weight, err := s.weigh(func() (any, error) {
			work := storeWork{ctx: ctx, store: newMemory(), workers: 1}
			if err := work.remembered(claims, retain); err != nil {
				return nil, err
			}
			time.Sleep(passing) //nolint:forbidigo // until the last record has expired
			for _, claim := range claims {
				if err := find(work, claim); err != nil {
					return nil, err
				}
			}
			return work.store, nil
		})
		return math.Floor(weight.bytes), err
	}
	kept.store = inMemory
	if kept.record, err = weigh(24*time.Hour, storeWork.find); err != nil {
		return kept, err
	}
	kept.tombstone, err = weigh(passing, storeWork.findExpired)
	runtime.KeepAlive(claims) // a collection of the claims would count as memory that the store has given back
	return kept, err
}

func redisTombstone(ctx context.Context, s *suite) (kept remains, err error) {
	if s.redis == nil {
		return kept, nil
	}
	client := s.redisClient(0)
	defer client.Close()
	if err := client.FlushDB(ctx).Err(); err != nil {
		return kept, err
	}
	usage := func() (sum float64, err error) {
		for keys := client.Scan(ctx, 0, "*", 1000).Iterator(); keys.Next(ctx); {
			bytes, err := client.MemoryUsage(ctx, keys.Val()).Result()
			if err != nil {
				return 0, err
			}
			sum += float64(bytes)
		}
		return sum, nil
	}
	kept.store = "redisstore"
	claim, work := newClaim(newKey()), storeWork{ctx: ctx, store: redisstore.New(client), workers: 1}
	for _, step := range []struct {
		into  *float64
		write func() error
	}{
		{&kept.record, func() error { return work.remembered([]storage.Claim{claim}, 24*time.Hour) }},
		{&kept.tombstone, func() error { return work.remembered([]storage.Claim{claim}, 10*passing) }},
		{&kept.key, func() error { return client.Set(ctx, redisstore.DefaultPrefix+claim.Key, "", time.Hour).Err() }},
	} {
		if err := client.FlushDB(ctx).Err(); err != nil {
			return kept, err
		}
		if err := step.write(); err != nil {
			return kept, err
		}
		time.Sleep(20 * passing) //nolint:forbidigo // until the server has dropped the response
		if *step.into, err = usage(); err != nil {
			return kept, err
		}
	}
	return kept, nil
}

func postgresTombstone(ctx context.Context, s *suite) (remains, error) {
	kept := remains{}
	if s.postgres == nil {
		return kept, nil
	}
	pool, err := s.pool(ctx, 1, nil)
	if err != nil {
		return kept, err
	}
	defer pool.Close()
	const table = "tombstones"
	if err := pgstore.Migrate(ctx, pool, pgstore.Table(table)); err != nil {
		return kept, err
	}
	store := pgstore.New(pool, pgstore.Table(table))
	work := storeWork{ctx: ctx, store: store, workers: 1}
	sizeOf := func(claim storage.Claim, columns string) (bytes float64, err error) {
		err = pool.QueryRow(ctx, `SELECT pg_column_size(`+columns+`) FROM tombstones AS r WHERE record_key = $1`, claim.Key).Scan(&bytes)
		return bytes, err
	}
	living, passed := newClaim(newKey()), newClaim(newKey())
	if err := work.remembered([]storage.Claim{living}, 24*time.Hour); err != nil {
		return kept, err
	}
	if err := work.remembered([]storage.Claim{passed}, passing); err != nil {
		return kept, err
	}
	// Sweep looks at rows whose hour is over.
	if _, err := pool.Exec(ctx, `UPDATE tombstones SET sweep_after = 1 WHERE record_key = $1`, passed.Key); err != nil {
		return kept, err
	}
	if _, err := store.Sweep(ctx, 1000); err != nil {
		return kept, err
	}
	if err := work.findExpired(passed); err != nil {
		return kept, err
	}
	kept.store = "pgstore"
	for _, one := range []struct {
		into    *float64
		claim   storage.Claim
		columns string
	}{
		{&kept.record, living, "r.*"},
		{&kept.tombstone, passed, "r.*"},
		{&kept.key, passed, "ROW(r.record_key, r.version, r.took_over, r.token, r.revision, r.expires_at, r.claimed_at, r.sweep_after)"},
	} {
		if *one.into, err = sizeOf(one.claim, one.columns); err != nil {
			return kept, err
		}
	}
	return kept, nil
}
