package memstore_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// kept is the record that the store must hold for a key.
type kept struct {
	record     *storage.Record
	expires    time.Time
	remembered time.Time // the end of the tombstone
}

// now returns the record or its tombstone, or nil after the end of both.
func (k *kept) now() *storage.Record {
	switch r := k.record; {
	case time.Now().Before(k.expires):
		return r
	case time.Now().Before(k.remembered):
		return &storage.Record{State: storage.Expired, Fingerprint: r.Fingerprint, Digest: r.Digest, Attempt: r.Attempt, Status: r.Status, Expires: k.remembered}
	default:
		return nil
	}
}

// history makes finished records, large and small, of short and of long life, forgets
// some, and remembers the records that must exist.
type history struct {
	random *rand.Rand
	store  *memstore.Store
	keys   int
	kept   map[string]kept
}

// claimAny has a key of 64 hex digits or an odd one, and a fingerprint of the usual
// form or an odd one, with a digest or without.
func (h *history) claimAny() storage.Claim {
	c := claim(h.random.IntN(h.keys))
	if h.random.IntN(4) == 0 {
		c.Key = "odd " + c.Key
	}
	if h.random.IntN(2) == 0 {
		c.Fingerprint = "sha256:" + claim(h.random.IntN(1000)).Key
	}
	if h.random.IntN(2) == 0 {
		c.Digest[h.random.IntN(len(c.Digest))] = byte(1 + h.random.IntN(255))
	}
	if h.random.IntN(2) == 0 {
		c.Origin = storage.Origin{Route: "POST /payments", Trace: strings.Repeat("t", h.random.IntN(200))}
	}
	return c
}

func (h *history) resultAny() storage.Result {
	size := h.random.IntN(600)
	switch h.random.IntN(20) {
	case 0:
		size = h.random.IntN(40_000) // larger than a chunk, at times
	case 1:
		size = 0
	}
	res := storage.Result{
		State: storage.Completed, Status: 100 + h.random.IntN(900), Retain: time.Duration(1+h.random.IntN(3)*h.random.IntN(100)) * time.Minute,
	}
	if h.random.IntN(3) == 0 {
		res.Remember = time.Duration(1+h.random.IntN(100)) * time.Minute
	}
	if size > 0 {
		res.Body = bytes.Repeat([]byte{byte(size)}, size)
	}
	for n := range h.random.IntN(4) {
		res.Header = append(res.Header, storage.Field{Op: storage.FieldOp(h.random.IntN(3)), Name: fmt.Sprint("Name-", n), Value: fmt.Sprint(size)})
	}
	if size%2 == 1 {
		res.Sketch = bytes.Repeat([]byte("s"), 1+size%256)
	}
	return res
}

// step claims a key, and settles it when it is new.
func (h *history) step(t *testing.T) {
	t.Helper()
	c := h.claimAny()
	held := h.kept[c.Key]
	want := held.now()
	there := want != nil
	if there && h.random.IntN(3) == 0 {
		forgotten, err := h.store.Forget(t.Context(), c.Key, storage.RerunIsSafe)
		if err != nil || !forgotten {
			t.Fatalf("Forget returned %t and %v, want true", forgotten, err)
		}
		delete(h.kept, c.Key)
		return
	}
	lease, record, err := h.store.Acquire(t.Context(), c)
	must(t, err)
	if there {
		if !reflect.DeepEqual(record, want) {
			t.Fatalf("Acquire returned %+v, want %+v", record, want)
		}
		return
	}
	if record != nil {
		t.Fatalf("Acquire returned %+v for a missing key", record)
	}
	res := h.resultAny()
	must(t, h.store.Complete(t.Context(), lease, res))
	now := time.Now().Round(0).UTC() // as the store's times are
	h.kept[c.Key] = kept{&storage.Record{
		State: res.State, Fingerprint: c.Fingerprint, Digest: c.Digest, Attempt: 1, Status: res.Status, Header: res.Header, Body: res.Body, Sketch: res.Sketch,
		Origin: c.Origin, Created: now, Finished: now, Expires: now.Add(res.Retain),
	}, now.Add(res.Retain), now.Add(res.Retain + res.Remember)}
}

// check compares all records, by key and in the list.
func (h *history) check(t *testing.T) {
	t.Helper()
	listed := listAll(t, h.store, storage.Completed, 1000)
	tombstones := listAll(t, h.store, storage.Expired, 1000)
	for key, held := range h.kept {
		want := held.now()
		if want == nil {
			delete(h.kept, key)
		}
		record, err := h.store.Lookup(t.Context(), key)
		if err != nil || !reflect.DeepEqual(record, want) {
			t.Fatalf("Lookup returned %+v and %v, want %+v", record, err, want)
		}
		buried := want != nil && want.State == storage.Expired
		if (listed[key] != nil) != (want != nil && !buried) || (tombstones[key] != nil) != buried {
			t.Fatalf("%s is listed as %+v, and as expired %+v, and the record is %+v", key, listed[key], tombstones[key], want)
		}
	}
	if len(listed)+len(tombstones) != len(h.kept) || h.store.Len() != len(h.kept) {
		t.Fatalf("it lists %d records and %d tombstones, and counts %d, want %d", len(listed), len(tombstones), h.store.Len(), len(h.kept))
	}
}

// However records come, move, expire and are forgotten, exactly the right records
// exist, and are whole.
func TestRecordsSurviveOthers(t *testing.T) {
	testkit.NeedsNoRaceDetector(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rounds, steps = 15, 1000
		h := &history{
			random: rand.New(rand.NewPCG(1, 2)), // the same each time
			store:  memstore.New(memstore.MaxBytes(1 << 40)), keys: 5_000, kept: map[string]kept{},
		}
		for range rounds {
			for range steps {
				h.step(t)
				<-time.After(10 * time.Millisecond)
			}
			<-time.After(time.Minute)
			h.check(t)
		}
		<-time.After(24 * time.Hour)
		h.check(t)
		must(t, h.store.Complete(t.Context(), win(t, h.store, claim(0)), result("answer")))
	})
}
