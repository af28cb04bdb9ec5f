package memstore_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// BenchmarkMillion reports the memory of a million finished records, and how long a full
// collection takes beside it, in this store and in a map of structs:
//
//	go test -run - -bench Million -benchtime 1x ./core/memstore
func BenchmarkMillion(b *testing.B) {
	type plain struct {
		fingerprint string
		header      map[string][]string
		body        []byte
		expires     time.Time
	}
	for name, fill := range map[string]func(records int) any{
		"memstore": func(records int) any { return filled(b, records) },
		"map": func(records int) any {
			all := make(map[string]*plain)
			for n := range records {
				c := claim(n)
				all[c.Key] = &plain{"sha256:" + strings.Repeat("0f", 32), map[string][]string{"Content-Type": {"application/json"}}, make([]byte, 300), time.Now()}
			}
			return all
		},
	} {
		b.Run(name, func(b *testing.B) {
			const records = 1_000_000
			before, _ := heapNow()
			store := fill(records)
			after, _ := heapNow()
			b.ResetTimer()
			for range b.N {
				runtime.GC()
			}
			b.ReportMetric(float64(after-before)/records, "B/record")
			runtime.KeepAlive(store)
		})
	}
}

// filled has so many finished records with bodies of 300 bytes.
func filled(tb testing.TB, records int) *memstore.Store {
	tb.Helper()
	store := memstore.New(memstore.MaxRecords(1<<30), memstore.MaxBytes(1<<40))
	res := result(strings.Repeat("x", 300))
	res.Header = storage.Header{{Name: "Content-Type", Value: "application/json"}}
	for n := range records {
		c := claim(n)
		c.Fingerprint, c.Digest = "sha256:"+strings.Repeat("0f", 32), storage.Digest{1}
		must(tb, store.Complete(tb.Context(), win(tb, store, c), res))
	}
	return store
}

// The request path makes only the allocations that it needs.
func TestAllocations(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts the whole process's
	store := memstore.New()
	res := result("answer")
	res.Header = storage.Header{{Name: "Content-Type", Value: "application/json"}, {Name: "Location", Value: "/payments/1"}}
	finished := claim(1)
	finished.Fingerprint = "sha256:" + strings.Repeat("0f", 32)
	must(t, store.Complete(t.Context(), win(t, store, finished), res))
	win(t, store, claim(2))
	for name, test := range map[string]struct {
		claim storage.Claim
		limit float64
	}{
		"replay":      {finished, 1}, // the record with its fields; their text is the entry's
		"in progress": {claim(2), 1},
	} {
		ctx := t.Context()
		got := testing.AllocsPerRun(100, func() {
			if _, _, err := store.Acquire(ctx, &test.claim); err != nil {
				t.Error(err)
			}
		})
		if got > test.limit {
			t.Errorf("%s allocates %v times, want at most %v", name, got, test.limit)
		}
	}
}

// A new key takes only its part of a chunk and of the tables, which grow now and
// then.
func TestAllocationsOfNewKeys(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts the whole process's
	const runs = 5_000
	store, ctx := memstore.New(), t.Context()
	res := result(strings.Repeat("x", 300))
	claims := make([]storage.Claim, 3*runs)
	for n := range claims {
		claims[n] = claim(n)
	}
	run := func() {
		lease, _, err := store.Acquire(ctx, &claims[0])
		if err == nil {
			err = store.Complete(ctx, lease, res)
		}
		if claims = claims[1:]; err != nil {
			t.Error(err)
		}
	}
	testing.AllocsPerRun(runs, run) // allocations that every part of the store makes once
	testkit.Equal(t, testing.AllocsPerRun(runs, run), 0, "allocations of a new key")
}
