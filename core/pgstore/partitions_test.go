package pgstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/storetest"
)

// partition runs the statements of docs/postgres.md.
func partition(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	execute(t, pool, documented(t, "partitions", ""))
}

// keysOf is a store within another one: its keys have a prefix there.
type keysOf struct {
	storage.Store
	prefix string
}

func (k keysOf) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	c := request.Claim()
	key := c.Key
	c.Key = k.within(key)
	lease, found, err := k.Store.Acquire(ctx, c)
	if err == nil && found == nil {
		lease.Key = key
	}
	return lease, found, err
}

func (k keysOf) Complete(ctx context.Context, l storage.Lease, r storage.Result) error {
	return k.Store.Complete(ctx, k.inner(l), r)
}

func (k keysOf) Release(ctx context.Context, l storage.Lease) error {
	return k.Store.Release(ctx, k.inner(l))
}

func (k keysOf) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) error {
	return k.Store.Extend(ctx, k.inner(l), ttl)
}

func (k keysOf) inner(l storage.Lease) storage.Lease {
	l.Key = k.within(l.Key)
	return l
}

// within keeps the length of a key, which may be the longest.
func (k keysOf) within(key string) string { return k.prefix + key[len(k.prefix):] }

// The documented hash partitions keep the contract of a store. All cases share them, because
// their tables take long to create: so there is no Inspector here, which would see the
// records of other cases.
func TestPartitions(t *testing.T) {
	t.Parallel()
	_, pool := open(t)
	partition(t, pool)
	store := pgstore.New(pool)
	var cases atomic.Int32
	t.Run("conformance", func(t *testing.T) { // all cases end before the count
		storetest.Run(t, storetest.Config{
			New:  func(testing.TB) storage.Store { return keysOf{store, fmt.Sprintf("%d ", cases.Add(1))} },
			Unit: 400 * time.Millisecond,
		})
	})
	if used := queryOne[int](t, pool, `SELECT count(DISTINCT tableoid) FROM oncekey_records`); used != 8 {
		t.Errorf("the records are in %d partitions, want 8", used)
	}
}

// A conversion keeps records, running claims, and the statements that connections have
// prepared.
func TestPartitionsOfATableInUse(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	finish(t, store, "finished")
	find(t, store, claim("finished"))
	running := win(t, store, claim("running"))
	abandoned := win(t, store, takeOver("abandoned"))
	options := queryOne[[]string](t, pool, `SELECT reloptions FROM pg_class WHERE oid = 'oncekey_records'::regclass`)

	partition(t, pool)

	if r := find(t, store, claim("finished")); string(r.Body) != "finished" {
		t.Errorf("after the conversion the record is %+v, want its response", r)
	}
	must(t, store.Complete(t.Context(), running, result("running")))
	if r := find(t, store, claim("running")); string(r.Body) != "running" {
		t.Errorf("the claim from before the conversion completed as %+v", r)
	}
	abandon(t, pool, "abandoned")
	if lease := win(t, store, takeOver("abandoned")); lease.Attempt != abandoned.Attempt+1 {
		t.Errorf("the abandoned claim was taken over as attempt %d, want %d", lease.Attempt, abandoned.Attempt+1)
	}
	different := queryOne[int](t, pool, `
SELECT count(*) FROM pg_inherits JOIN pg_class ON oid = inhrelid WHERE inhparent = 'oncekey_records'::regclass AND reloptions <> $1`, options)
	if different != 0 {
		t.Errorf("%d partitions have other options than the table had: %v", different, options)
	}
	if names := queryOne[[]string](t, pool, `
SELECT array_agg(relname::text ORDER BY relname) FROM pg_index JOIN pg_class ON oid = indexrelid WHERE indrelid = 'oncekey_records'::regclass`); fmt.Sprint(names) !=
		"[oncekey_records_pkey1 oncekey_records_sweep_after]" {
		t.Errorf("the indexes are %v", names)
	}
}
