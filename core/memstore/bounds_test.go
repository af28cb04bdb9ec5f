package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

var (
	win, find, must     = testkit.Win, testkit.Find, testkit.Must
	winAttempt, refused = testkit.WinAttempt, testkit.Refused
	listAll             = testkit.ListAll
)

// overhead is the number that MaxBytes documents.
const overhead = 256

func claim(n int) storage.Claim {
	return storage.Claim{
		Key: fmt.Sprintf("%064x", n), Token: storage.NewToken(), Fingerprint: "sha256:f", LockTTL: time.Minute, Retain: time.Hour,
	}
}

func result(body string) storage.Result {
	return storage.Result{State: storage.Completed, Status: 201, Body: []byte(body), Retain: time.Hour}
}

// Case 21: a full store refuses new keys; live and finished records stay.
func TestFullStore(t *testing.T) {
	t.Parallel()
	c := claim(0)
	size := int64(overhead + len(c.Key) + len(c.Fingerprint))
	type test struct {
		option   memstore.Option
		mentions string
	}
	testkit.Each(t, map[string]test{
		"of records": {memstore.MaxRecords(2), "2 of 2 records"},
		"of bytes":   {memstore.MaxBytes(2 * size), fmt.Sprintf("%d of %d bytes", 2*size, 2*size)},
	}, func(t *testing.T, test test) {
		store := memstore.New(test.option)
		running, finished := win(t, store, claim(1)), win(t, store, claim(2))
		refuse := func(mentions string) {
			t.Helper()
			_, _, err := store.Acquire(t.Context(), claim(3))
			if !errors.Is(err, storage.ErrStoreFull) || !strings.Contains(err.Error(), mentions) {
				t.Fatalf("Acquire returned %v, want ErrStoreFull and %q", err, mentions)
			}
		}
		refuse(test.mentions)
		must(t, store.Complete(t.Context(), finished, result("answer")))
		must(t, store.Extend(t.Context(), running, time.Minute))
		refuse("")
		for n, state := range map[int]storage.State{1: storage.InProgress, 2: storage.Completed} {
			testkit.Equal(t, find(t, store, claim(n)).State, state, "the state of key %d", n)
		}
		must(t, store.Release(t.Context(), running))
		testkit.Equal(t, store.Len(), 1, "records")
	})
}

// The response of a handler that ran is stored, even in a full store.
func TestFullStoreTakesResponses(t *testing.T) {
	t.Parallel()
	store := memstore.New(memstore.MaxBytes(1000), memstore.MaxRecords(2))
	lease := win(t, store, claim(1))
	must(t, store.Complete(t.Context(), lease, result(strings.Repeat("x", 5000))))
	forgotten := storage.Lease{Claim: claim(2), Attempt: 1}
	must(t, store.Complete(t.Context(), forgotten, result("answer")))
	must(t, store.Extend(t.Context(), storage.Lease{Claim: claim(3), Attempt: 1}, time.Minute))
	testkit.Equal(t, store.Len(), 3, "records")
	refused(t, store, claim(4), storage.ErrStoreFull)
}

// A cache takes every key, and stays within its bounds.
func TestCacheForgetsRatherThanRefuse(t *testing.T) {
	t.Parallel()
	const records, most = 100, 40_000
	store := memstore.New(memstore.Cache(), memstore.MaxRecords(records), memstore.MaxBytes(most))
	running := win(t, store, claim(-1))
	for n := range 1000 {
		lease := win(t, store, claim(n))
		must(t, store.Complete(t.Context(), lease, result(strings.Repeat("b", n%500))))
		if held := store.Len(); held > records {
			t.Fatalf("it holds %d records, want at most %d", held, records)
		}
	}
	if held := store.Len(); held < 20 {
		t.Errorf("it holds %d records, want about as many as it may", held)
	}
	testkit.Equal(t, find(t, store, claim(999)).State, storage.Completed, "the state of the last key")
	win(t, store, claim(0))                                  // the first key is forgotten
	must(t, store.Extend(t.Context(), running, time.Minute)) // a running record is not dropped
	testkit.Equal(t, find(t, store, claim(-1)).State, storage.InProgress, "the state of the running key")
}

// Running records fill a cache as they fill any store.
func TestCacheFullOfRunningKeys(t *testing.T) {
	t.Parallel()
	store := memstore.New(memstore.Cache(), memstore.MaxRecords(2))
	win(t, store, claim(1))
	win(t, store, claim(2))
	refused(t, store, claim(3), storage.ErrStoreFull)
}

func TestExpiredRecordsMakeSpace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const room = 1000
		store := memstore.New(memstore.MaxRecords(room))
		for n := range room {
			win(t, store, claim(n))
		}
		<-time.After(time.Hour)
		for n := range room { // other keys, and so mostly other shards
			win(t, store, claim(room+n))
		}
		testkit.Equal(t, store.Len(), room, "records")
	})
}

// Requests release the memory of expired records long before the store is full.
func TestTrafficSweeps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		for n := range 10_000 {
			must(t, store.Complete(t.Context(), win(t, store, claim(n)), result("answer")))
		}
		<-time.After(time.Hour)
		live := 0
		for ; live < 10_000 && store.Len() > live; live++ {
			win(t, store, claim(10_000+live))
		}
		if store.Len() != live || live > 6_000 {
			t.Errorf("after %d requests it holds %d records", live, store.Len())
		}
	})
}

// Bounds are exact while callers race, and the counts return to zero.
func TestBoundsAreExact(t *testing.T) {
	t.Parallel()
	const room, callers, turns = 50, 16, 300
	store := memstore.New(memstore.MaxRecords(room))
	testkit.Concurrently(callers, func(caller int) {
		for turn := range turns {
			lease, record, err := store.Acquire(context.Background(), claim((caller*turns+turn)%200))
			if store.Len() > room {
				t.Errorf("it holds %d records, want at most %d", store.Len(), room)
			}
			if err != nil && !errors.Is(err, storage.ErrStoreFull) {
				t.Error(err)
			}
			if err == nil && record == nil && turn%7 != 0 {
				if err := store.Release(context.Background(), lease); err != nil {
					t.Error(err)
				}
			}
		}
	})
	held := 0
	for n := range 200 {
		c := claim(n)
		if _, record, err := store.Acquire(t.Context(), c); err == nil && record != nil {
			held++
		} else if err == nil {
			must(t, store.Release(t.Context(), storage.Lease{Claim: c, Attempt: 1}))
		}
	}
	testkit.Equal(t, store.Len(), held, "records that it counts")
}

// A record is counted with all of its bytes.
func TestBytesOfAResponseAreCounted(t *testing.T) {
	t.Parallel()
	res := result("body")
	res.Sketch, res.Header = make([]byte, 256), storage.Header{{Name: "Name", Value: "value"}}
	const perField = 40
	c := claim(1)
	size := int64(overhead + len(c.Key) + len(c.Fingerprint))
	answered := size + int64(len(res.Body)+len(res.Sketch)+perField+len("Name")+len("value"))
	for room, want := range map[int64]error{answered + size: nil, answered + size - 1: storage.ErrStoreFull} {
		store := memstore.New(memstore.MaxBytes(room))
		must(t, store.Complete(t.Context(), win(t, store, c), res))
		if _, _, err := store.Acquire(t.Context(), claim(2)); !errors.Is(err, want) {
			t.Errorf("with space for %d bytes Acquire returned %v, want %v", room, err, want)
		}
	}
}

// Steps count until their run ends, however it ends, and longer if they are kept for a retry.
func TestBytesOfStepsAreCounted(t *testing.T) {
	t.Parallel()
	const length = 1000
	c := claim(1)
	size := int64(overhead + len(c.Key) + len(c.Fingerprint))
	ends := map[string]func(*memstore.Store, storage.Lease) error{
		"completed": func(s *memstore.Store, l storage.Lease) error { return s.Complete(t.Context(), l, result("")) },
		"released": func(s *memstore.Store, l storage.Lease) error {
			if err := s.Release(t.Context(), l); err != nil {
				return err
			}
			refused(t, s, claim(2), storage.ErrStoreFull)
			l.Steps = ""
			return s.Release(t.Context(), l)
		},
		"released as a later attempt": func(s *memstore.Store, l storage.Lease) error {
			must(t, s.Extend(t.Context(), l, 0))
			next := claim(1)
			next.TakeOver = true
			l = win(t, s, next)
			l.Steps = ""
			return s.Release(t.Context(), l)
		},
	}
	for name, end := range ends {
		store := memstore.New(memstore.MaxBytes(2*size + length - 1))
		lease := win(t, store, c)
		lease.Steps = strings.Repeat("s", length)
		must(t, store.Extend(t.Context(), lease, time.Minute))
		refused(t, store, claim(2), storage.ErrStoreFull)
		must(t, end(store, lease))
		if _, _, err := store.Acquire(t.Context(), claim(2)); err != nil {
			t.Errorf("beside a key that was %s Acquire returned %v, want no error", name, err)
		}
	}
}

// An origin counts while its key runs, and in its finished record.
func TestBytesOfOriginsAreCounted(t *testing.T) {
	t.Parallel()
	c, other := claim(1), claim(2)
	c.Origin = storage.Origin{Route: "route", Holder: "holder", KeyHash: "hash", Trace: "trace", Program: "program"}
	room := int64(2*(overhead+len(c.Key)+len(c.Fingerprint)) + len("routeholderhashtraceprogram"))
	for finished, end := range map[bool]func(*memstore.Store, storage.Lease){
		false: func(*memstore.Store, storage.Lease) {},
		true:  func(s *memstore.Store, l storage.Lease) { must(t, s.Complete(t.Context(), l, result(""))) },
	} {
		for room, want := range map[int64]error{room: nil, room - 1: storage.ErrStoreFull} {
			store := memstore.New(memstore.MaxBytes(room))
			end(store, win(t, store, c))
			if _, _, err := store.Acquire(t.Context(), other); !errors.Is(err, want) {
				t.Errorf("beside a key (finished: %t), with space for %d bytes, Acquire returned %v, want %v", finished, room, err, want)
			}
		}
	}
	store := memstore.New(memstore.MaxBytes(room - 1))
	win(t, store, other)
	refused(t, store, c, storage.ErrStoreFull)
}

// Counted bytes are subtracted again, however a record is removed.
func TestBytesAreReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.MaxBytes(2000))
		for n := range 1000 {
			c := claim(n)
			c.LockTTL, c.Retain = time.Second, time.Second
			lease := win(t, store, c)
			res := result(strings.Repeat("x", 10_000))
			res.Retain, res.Header, res.Sketch = time.Second, storage.Header{{Name: "A", Value: "b"}}, make([]byte, 256)
			switch n % 3 {
			case 0:
				must(t, store.Complete(t.Context(), lease, res))
			case 1:
				must(t, store.Release(t.Context(), lease))
			default: // abandoned
			}
			<-time.After(time.Second)
		}
	})
}

func TestOptionsRefuseNonsense(t *testing.T) {
	t.Parallel()
	testkit.PanicsWith(t, func() { memstore.MaxRecords(0) }, "MaxRecords(0)")
	testkit.PanicsWith(t, func() { memstore.MaxBytes(-1) }, "MaxBytes(-1)")
	testkit.PanicsWith(t, func() { memstore.New(memstore.MaxRecords(1), nil) }, "memstore: option 2 is nil: leave it out")
}
