package memstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// heapNow returns the reachable heap, in bytes and in objects.
func heapNow() (size, objects int64) {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc), int64(stats.HeapObjects)
}

// A finished record is a piece of a chunk: it takes little more than its own bytes,
// and the collector does not know of it.
func TestFinishedRecordsAreSmall(t *testing.T) { //nolint:paralleltest // it counts the whole process's memory
	testkit.NeedsNoRaceDetector(t)
	const records, perRecord, recordsPerObject = 100_000, 540, 10
	size, objects := heapNow()
	store := filled(t, records)
	sizeAfter, objectsAfter := heapNow()
	if took := (sizeAfter - size) / records; took > perRecord {
		t.Errorf("a record takes %d bytes, want at most %d", took, perRecord)
	}
	if made := objectsAfter - objects; made > records/recordsPerObject {
		t.Errorf("%d records are %d objects, want one for at least %d", records, made, recordsPerObject)
	}
	runtime.KeepAlive(store)
}

// A tombstone takes its own bytes and a place in the tables; the response is gone.
func TestTombstonesAreSmall(t *testing.T) { //nolint:paralleltest // it counts the whole process's memory
	testkit.NeedsNoRaceDetector(t)
	synctest.Test(t, func(t *testing.T) {
		const records, perTombstone = 50_000, 200
		size, _ := heapNow()
		store := memstore.New()
		res := result(strings.Repeat("x", 300))
		res.Remember = 30 * 24 * time.Hour
		for n := range records {
			c := claim(n)
			c.Fingerprint, c.Digest = "sha256:"+strings.Repeat("0f", 32), storage.Digest{1}
			must(t, store.Complete(t.Context(), win(t, store, c), res))
		}
		<-time.After(time.Hour)
		if buried := len(listAll(t, store, storage.Expired, 1000)); buried != records {
			t.Fatalf("it lists %d tombstones, want %d", buried, records)
		}
		after, _ := heapNow()
		took := (after - size) / records
		if took > perTombstone {
			t.Errorf("a tombstone takes %d bytes, want at most %d", took, perTombstone)
		}
		runtime.KeepAlive(store)
	})
}

// A store that is used for weeks takes no more memory than after the first days:
// records of different life leave holes, and the holes are closed.
func TestMemoryDoesNotGrow(t *testing.T) { //nolint:paralleltest // it counts the whole process's memory
	testkit.NeedsNoRaceDetector(t)
	synctest.Test(t, func(t *testing.T) {
		const rounds, perRound, short, long = 60, 2_000, 2, 10 // in rounds
		store := memstore.New()
		before, _ := heapNow()
		var early, late int64
		for round := range rounds {
			for n := range perRound {
				res := result(strings.Repeat("x", 100+n%900))
				if res.Retain = short * time.Hour; n%3 == 0 { // so that each chunk has some of both
					res.Retain = long * time.Hour
				}
				must(t, store.Complete(t.Context(), win(t, store, claim(round*perRound+n)), res))
			}
			<-time.After(time.Hour)
			if round == 2*long {
				early, _ = heapNow()
			}
		}
		late, _ = heapNow()
		if allowed := (early - before) * 12 / 10; late-before > allowed {
			t.Errorf("it takes %d bytes after %d rounds, %d after %d", late-before, rounds, early-before, 2*long)
		}
		live := int64(perRound*long/3 + perRound*short*2/3)
		if held := int64(store.Len()); held > live*12/10 {
			t.Errorf("it holds %d records, want about %d", held, live)
		}
		const mean = 550 + 150 // a body, and its other fields
		if late-before > live*mean*2 {
			t.Errorf("%d records of about %d bytes take %d", live, mean, late-before)
		}
		runtime.KeepAlive(store)
	})
}

// A replay's bytes stay unchanged while the store moves and drops the record and
// writes others to the same place.
func TestReplaysOutliveTheirRecords(t *testing.T) {
	testkit.NeedsNoRaceDetector(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const records = 2_000
		store := memstore.New()
		body := func(n int) []byte { return bytes.Repeat(fmt.Appendf(nil, "%08d", n), 20) }
		handed := make([]*storage.Record, records)
		for n := range records {
			res := result(string(body(n)))
			res.Header, res.Sketch = storage.Header{{Name: "Number", Value: fmt.Sprint(n)}}, body(n)[:8]
			res.Retain = time.Duration(1+n%7) * time.Hour
			must(t, store.Complete(t.Context(), win(t, store, claim(n)), res))
			_, record, err := store.Acquire(t.Context(), claim(n))
			must(t, err)
			handed[n] = record
		}
		for n := records; n < 10*records; n++ {
			if n%records == 0 {
				<-time.After(time.Hour)
			}
			must(t, store.Complete(t.Context(), win(t, store, claim(n)), result(string(body(n)))))
		}
		for n, record := range handed {
			if !bytes.Equal(record.Body, body(n)) || !bytes.Equal(record.Sketch, body(n)[:8]) || record.Header[0].Value != fmt.Sprint(n) {
				t.Fatalf("record %d became %+v", n, record)
			}
			if cap(record.Body) != len(record.Body) || cap(record.Sketch) != len(record.Sketch) {
				t.Fatalf("record %d can be appended to: the bytes after it belong to another record", n)
			}
		}
	})
}

// Replays are read while the records beside them come, go and are moved.
func TestReplaysBesideTraffic(t *testing.T) {
	t.Parallel()
	const keys, turns, callers = 500, 3_000, 8
	store := memstore.New()
	body := func(key string) string { return strings.Repeat(key[56:], 50) }
	testkit.Concurrently(callers, func(caller int) {
		random := rand.New(rand.NewPCG(1, uint64(caller)))
		for range turns {
			c := claim(random.IntN(keys))
			lease, record, err := store.Acquire(context.Background(), c)
			switch {
			case err != nil:
			case record == nil:
				err = store.Complete(context.Background(), lease, result(body(c.Key)))
				if errors.Is(err, storage.ErrLeaseLost) { // a late Forget has removed the claim, and another caller has the key
					err = nil
				}
			case record.State == storage.Completed && string(record.Body) != body(c.Key):
				t.Errorf("%s holds %s", c.Key, record.Body)
			case record.State == storage.Completed && random.IntN(2) == 0:
				_, err = store.Forget(context.Background(), c.Key, storage.RerunIsSafe)
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
}

// A record that finishes keeps its place in the count: no other key is admitted
// meanwhile.
func TestCompletingKeepsTheSpace(t *testing.T) {
	t.Parallel()
	const room = 5_000
	store := memstore.New(memstore.MaxRecords(room))
	leases := make([]storage.Lease, room)
	for n := range leases {
		leases[n] = win(t, store, claim(n))
	}
	ctx, stop := context.WithCancel(context.Background())
	var others sync.WaitGroup
	for range 4 {
		others.Go(func() {
			for ctx.Err() == nil {
				if _, record, err := store.Acquire(context.Background(), claim(room)); record != nil || !errors.Is(err, storage.ErrStoreFull) {
					t.Errorf("a full store's Acquire returned %+v and %v, want ErrStoreFull", record, err)
				}
			}
		})
	}
	for _, lease := range leases {
		if err := store.Complete(context.Background(), lease, result("answer")); err != nil {
			t.Error(err)
		}
	}
	stop()
	others.Wait()
}

// Running records are used again for other keys, and the memory of many of them is
// released after they have gone.
func TestRunningRecordsAreReused(t *testing.T) { //nolint:paralleltest // it counts the whole process's memory
	testkit.NeedsNoRaceDetector(t)
	const crowd, most = 50_000, 60 // bytes a record: places in the tables
	store := memstore.New()
	before, _ := heapNow()
	for range 2 {
		leases := make([]storage.Lease, crowd)
		for n := range leases {
			c := claim(n)
			c.Fingerprint = strings.Repeat("f", 200)
			leases[n] = win(t, store, c)
		}
		for _, lease := range leases {
			must(t, store.Release(t.Context(), lease))
		}
	}
	if after, _ := heapNow(); after-before > crowd*most {
		t.Errorf("%d removed records take %d bytes, want at most %d", crowd, after-before, crowd*most)
	}
	win(t, store, claim(0))
}
