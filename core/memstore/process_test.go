package memstore_test

import (
	"context"
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// The store waits for no other component. In a bubble time passes only while all
// goroutines wait, and no call of the store waits, however little time there is.
func TestCallsWaitForNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, start := memstore.New(memstore.MaxRecords(100)), time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
		defer cancel()
		for n := range 100 { // the capacity of the store
			first, _, err := store.Acquire(ctx, claim(n))
			must(t, err)
			must(t, store.Extend(ctx, first, time.Minute))
			must(t, store.Release(ctx, first))
			lease, _, err := store.Acquire(ctx, claim(n))
			must(t, err)
			must(t, store.Complete(ctx, lease, result("answer")))
			if _, record, err := store.Acquire(ctx, claim(n)); err != nil || record == nil {
				t.Fatalf("the replay is %+v and %v", record, err)
			}
			_, err = store.Lookup(ctx, claim(n).Key)
			must(t, err)
			_, err = store.List(ctx, storage.Filter{States: []storage.State{storage.Completed}}, storage.Page{Limit: 10})
			must(t, err)
		}
		if _, _, err := store.Acquire(ctx, claim(100)); err == nil || ctx.Err() != nil {
			t.Errorf("a full store's Acquire returned %v with the context's %v, want ErrStoreFull at once", err, ctx.Err())
		}
		testkit.Equal(t, time.Since(start), 0, "the time of the calls")
	})
}

// Another process, and this process after a restart, has its own store without the
// records of this store.
func TestRecordsAreTheProcesssOwn(t *testing.T) {
	t.Parallel()
	before, after := memstore.New(), memstore.New()
	running := win(t, before, claim(1))
	must(t, before.Complete(t.Context(), win(t, before, claim(2)), result("answer")))
	for n := 1; n <= 2; n++ {
		winAttempt(t, after, claim(n), 1, false)
	}
	must(t, before.Complete(t.Context(), running, result("answer"))) // a claim in the other store does not interfere
}

// Records are bytes that only this process has written: even values that no wire
// format could carry come back unchanged.
func TestNothingBecomesUnreadable(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1)) // the same each time
	garbage := func() []byte {
		text := make([]byte, 1+random.IntN(40))
		for i := range text {
			text[i] = byte(random.Uint32())
		}
		return text
	}
	store := memstore.New()
	for n := range 1000 {
		c := claim(n)
		c.Key, c.Fingerprint = string(garbage())+c.Key, string(garbage())
		c.Origin = storage.Origin{Route: string(garbage()), Holder: string(garbage()), KeyHash: string(garbage()), Trace: string(garbage()), Program: string(garbage())}
		res := result(string(garbage()))
		res.Status, res.Sketch = int(random.Int32())-1<<30, garbage()
		for range random.IntN(5) {
			res.Header = append(res.Header, storage.Field{Op: storage.FieldOp(random.Uint32()), Name: string(garbage()), Value: string(garbage())})
		}
		must(t, store.Complete(t.Context(), win(t, store, c), res))
		want := &storage.Record{
			State: storage.Completed, Fingerprint: c.Fingerprint, Attempt: 1, Status: res.Status, Header: res.Header, Body: res.Body, Sketch: res.Sketch,
			Origin: c.Origin,
		}
		_, record, err := store.Acquire(t.Context(), c)
		must(t, err)
		want.Created, want.Finished, want.Expires = record.Created, record.Finished, record.Expires // by the clock of now
		if !reflect.DeepEqual(record, want) {
			t.Fatalf("Acquire returned %+v, want %+v", record, want)
		}
	}
}
