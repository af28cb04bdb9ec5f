package pgstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	postgrestest "github.com/oncekey/oncekey/core/internal/testkit/postgres"
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
	c.Key = k.prefix + key
	lease, found, err := k.Store.Acquire(ctx, c)
	lease.Key = strings.TrimPrefix(lease.Key, k.prefix)
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
	l.Key = k.prefix + l.Key
	return l
}

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
	if used := queryOne[int](t, pool, `SELECT count(DISTINCT tableoid) FROM oncekey.records`); used != 8 {
		t.Errorf("the records are in %d partitions, want 8", used)
	}
}

// A migration that comes after the partitions changes all of them.
func TestMigrateOverPartitions(t *testing.T) {
	t.Parallel()
	pool := connect(t, postgrestest.Shared(t), nil)
	store := pgstore.New(pool)
	must(t, store.MigrateTo(t.Context(), pgstore.Migrations()[:5]))
	partition(t, pool)
	must(t, pgstore.Migrate(t.Context(), pool))
	must(t, store.Check(t.Context()))
	for n := range 40 {
		finish(t, store, fmt.Sprint("key ", n))
	}
	finishRemembered(t, store, "remembered")
	bury(t, store, pool, "remembered")
	listing, err := store.List(t.Context(), storage.Filter{States: []storage.State{storage.Completed}}, storage.Page{Limit: 100})
	if len(listing.Entries) != 40 || err != nil {
		t.Errorf("List returned %d records with error %v, want 40", len(listing.Entries), err)
	}
	expire(t, pool, "key %")
	if removed, err := store.Sweep(t.Context(), 7); removed != 40 || err != nil {
		t.Errorf("Sweep removed %d records with error %v, want 40", removed, err)
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
	options := queryOne[[]string](t, pool, `SELECT reloptions FROM pg_class WHERE oid = 'oncekey.records'::regclass`)

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
SELECT count(*) FROM pg_inherits JOIN pg_class ON oid = inhrelid WHERE inhparent = 'oncekey.records'::regclass AND reloptions <> $1`, options)
	if different != 0 {
		t.Errorf("%d partitions have other options than the table had: %v", different, options)
	}
	if names := queryOne[[]string](t, pool, `
SELECT array_agg(relname::text ORDER BY relname) FROM pg_index JOIN pg_class ON oid = indexrelid WHERE indrelid = 'oncekey.records'::regclass`); fmt.Sprint(names) !=
		"[records_pkey1 records_retain_hour records_sweep_after]" {
		t.Errorf("the indexes are %v", names)
	}
}
