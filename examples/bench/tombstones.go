package main

import (
	"context"
	"fmt"
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
	for _, measure := range []func(context.Context, *suite) ([]string, error){memoryTombstone, redisTombstone, postgresTombstone} {
		row, err := measure(ctx, s)
		if err != nil {
			return section, err
		}
		if row != nil {
			table.Rows = append(table.Rows, row)
		}
	}
	section.Tables = []report.Table{table}
	return section, nil
}

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

func memoryTombstone(ctx context.Context, s *suite) ([]string, error) {
	claims := newClaims(s.records)
	weigh := func(retain time.Duration, find func(storeWork, storage.Claim) error) (float64, error) {
		weight, err := s.weigh(func() (any, error) {
			work := storeWork{ctx, newMemory(), 1}
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
		return weight.bytes, err
	}
	record, err := weigh(24*time.Hour, storeWork.find)
	if err != nil {
		return nil, err
	}
	tombstone, err := weigh(passing, storeWork.findExpired)
	return []string{"memstore", report.Number(float64(int(record))), report.Number(float64(int(tombstone))), ""}, err
}

func redisTombstone(ctx context.Context, s *suite) ([]string, error) {
	if s.redis == nil {
		return nil, nil
	}
	client := s.redisClient(0)
	defer client.Close()
	if err := client.FlushDB(ctx).Err(); err != nil {
		return nil, err
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
	row := []string{"redisstore"}
	claim, work := newClaim(newKey()), storeWork{ctx, redisstore.New(client), 1}
	for _, step := range []func() error{
		func() error { return work.remembered([]storage.Claim{claim}, 24*time.Hour) },
		func() error { return work.remembered([]storage.Claim{claim}, 10*passing) },
		func() error { return client.Set(ctx, redisstore.DefaultPrefix+claim.Key, "", time.Hour).Err() },
	} {
		if err := client.FlushDB(ctx).Err(); err != nil {
			return nil, err
		}
		if err := step(); err != nil {
			return nil, err
		}
		time.Sleep(20 * passing) //nolint:forbidigo // until the server has dropped the response
		bytes, err := usage()
		if err != nil {
			return nil, err
		}
		row = append(row, report.Number(bytes))
	}
	return row, nil
}

func postgresTombstone(ctx context.Context, s *suite) ([]string, error) {
	if s.postgres == nil {
		return nil, nil
	}
	pool, err := s.pool(ctx, 1, "on", nil)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	const schema = "tombstones"
	if err := pgstore.Migrate(ctx, pool, pgstore.Schema(schema)); err != nil {
		return nil, err
	}
	store := pgstore.New(pool, pgstore.Schema(schema))
	work := storeWork{ctx, store, 1}
	sizeOf := func(claim storage.Claim, columns string) (bytes int, err error) {
		err = pool.QueryRow(ctx, `SELECT pg_column_size(`+columns+`) FROM tombstones.records AS r WHERE key = $1`, claim.Key).Scan(&bytes)
		return bytes, err
	}
	kept, passed := newClaim(newKey()), newClaim(newKey())
	if err := work.remembered([]storage.Claim{kept}, 24*time.Hour); err != nil {
		return nil, err
	}
	if err := work.remembered([]storage.Claim{passed}, passing); err != nil {
		return nil, err
	}
	// Sweep looks at rows whose hour is over.
	if _, err := pool.Exec(ctx, `UPDATE tombstones.records SET retain_hour = retain_hour - interval '2 hours' WHERE key = $1`, passed.Key); err != nil {
		return nil, err
	}
	if _, err := store.Sweep(ctx, 1000); err != nil {
		return nil, err
	}
	if err := work.findExpired(passed); err != nil {
		return nil, err
	}
	row := []string{"pgstore"}
	for _, one := range []struct {
		claim   storage.Claim
		columns string
	}{{kept, "r.*"}, {passed, "r.*"}, {passed, "ROW(r.key, r.version, r.took_over, r.token, r.expires_at, r.claimed_at, r.sweep_after)"}} {
		bytes, err := sizeOf(one.claim, one.columns)
		if err != nil {
			return nil, err
		}
		row = append(row, fmt.Sprint(bytes))
	}
	return row, nil
}
