package memstore

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// brief is a claim of a key whose record lives for a minute, and its tombstone for a
// month.
func brief(n byte) storage.Claim {
	fingerprint := identity{n, 1}
	return storage.Claim{
		Key: identity{n}.spell(), Token: storage.NewToken(), Fingerprint: "sha256:" + fingerprint.spell(), Digest: storage.Digest{n},
		LockTTL: time.Second, Retain: time.Minute, Remember: 30 * 24 * time.Hour,
	}
}

// A tombstone takes at most 64 bytes beside the store's own cost of a key: the
// identity, the deadline and its position.
func TestTombstoneBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most = 64
		store := New()
		for n, attempt := range []uint64{1, 127, math.MaxUint64} {
			c := brief(byte(n))
			l := storage.Lease{Claim: c, Attempt: attempt}
			var err error
			if n == 0 {
				l.Steps = strings.Repeat("s", 5000)
				err = store.Extend(t.Context(), l, time.Second)
			} else {
				err = store.Complete(t.Context(), l, storage.Result{
					State: storage.Unreplayable, Status: 999, Sketch: make([]byte, 256), Retain: c.Retain, Remember: c.Remember,
				})
			}
			testkit.Must(t, err)
			<-time.After(c.Retain)
			if r, err := store.Lookup(t.Context(), c.Key); err != nil || r == nil || r.State != storage.Expired || r.Attempt != attempt {
				t.Fatalf("Lookup returned %+v and %v, want a tombstone of attempt %d", r, err, attempt)
			}
			name := store.identify(c.Key)
			shard := store.shardOf(name.hash)
			e := shard.finished.at(shard.find(&name))
			if p := e.parts(); p.size-atState > most {
				t.Errorf("the tombstone of attempt %d takes %d bytes beside its key, want at most %d", attempt, p.size-atState, most)
			}
		}
	})
}

// The bytes of a response are released when its record becomes a tombstone, and those
// of a tombstone when it ends. A tombstone counts as a record.
func TestTombstonesAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := New(MaxRecords(2))
		ctx := t.Context()
		for n, state := range []storage.State{storage.InProgress, storage.Completed} {
			lease, _, err := store.Acquire(ctx, brief(byte(n)))
			if state == storage.Completed {
				err = store.Complete(ctx, lease, storage.Result{
					State: state, Status: 201, Body: make([]byte, 10_000), Retain: time.Minute, Remember: time.Hour,
				})
			}
			testkit.Must(t, err)
		}
		refused := func(bytes int64) {
			t.Helper()
			if _, _, err := store.Acquire(ctx, brief(2)); !errors.Is(err, storage.ErrStoreFull) {
				t.Fatalf("Acquire returned %v, want ErrStoreFull", err)
			}
			if got := store.bytes.Load(); got != bytes {
				t.Fatalf("it counts %d bytes, want %d", got, bytes)
			}
		}
		c := brief(0)
		size := cost(&c)
		refused(2*size + 10_000)
		<-time.After(time.Minute)
		refused(2 * size)
		<-time.After(time.Hour)
		if _, _, err := store.Acquire(ctx, brief(2)); err != nil {
			t.Fatal(err)
		}
		<-time.After(60 * 24 * time.Hour)
		if _, err := store.List(ctx, storage.Filter{States: []storage.State{storage.Expired}}, storage.Page{Limit: 10}); err != nil || store.Len() != 0 || store.bytes.Load() != 0 {
			t.Errorf("after %v it counts %d records and %d bytes, want none", err, store.Len(), store.bytes.Load())
		}
	})
}

// Requests bury the records that have expired, without a call for their keys.
func TestTrafficBuries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const records = 2000
		store, ctx := New(), context.Background()
		run := func(n int) {
			c := brief(0)
			c.Key, c.Retain = identity{byte(n), byte(n >> 8), byte(n >> 16)}.spell(), time.Hour
			lease, _, err := store.Acquire(ctx, c)
			if err == nil {
				err = store.Complete(ctx, lease, storage.Result{
					State: storage.Completed, Status: 201, Body: make([]byte, 1000), Retain: time.Minute, Remember: time.Hour,
				})
			}
			testkit.Must(t, err)
		}
		for n := range records {
			run(n)
		}
		<-time.After(time.Minute)
		for n := range records {
			run(records + n)
		}
		held := 0
		for i := range store.shards {
			held += store.shards[i].finished.held
		}
		if live := records * (1000 + 300); held > live*3/2 {
			t.Errorf("%d records and as many tombstones take %d bytes, want about %d", records, held, live)
		}
		testkit.Equal(t, store.Len(), 2*records, "records")
	})
}
