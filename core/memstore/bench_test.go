package memstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
)

func BenchmarkFirstTime(b *testing.B) {
	store := memstore.New(memstore.MaxRecords(1<<30), memstore.MaxBytes(1<<40))
	claims := make([]core.Claim, 1<<16)
	for i := range claims {
		claims[i] = claim(i)
		claims[i].Retain, claims[i].TTL = time.Second, time.Second
	}
	res := result(strings.Repeat("x", 200))
	res.Retain = time.Millisecond
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		lease, record, err := store.Acquire(b.Context(), claims[i%len(claims)])
		if err != nil || record != nil {
			continue
		}
		if err := store.Complete(b.Context(), lease, res); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReplay(b *testing.B) {
	store := memstore.New()
	must(b, store.Complete(b.Context(), win(b, store, claim(1)), result(strings.Repeat("x", 200))))
	c := claim(1)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, record, err := store.Acquire(b.Context(), c); err != nil || record == nil {
				b.Error("no replay")
			}
		}
	})
}

func BenchmarkInProgress(b *testing.B) {
	store := memstore.New()
	win(b, store, claim(1))
	c := claim(1)
	b.ReportAllocs()
	for b.Loop() {
		if _, record, err := store.Acquire(b.Context(), c); err != nil || record == nil {
			b.Error("no record")
		}
	}
}

// The request path allocates what it must and nothing else.
func TestAllocations(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts everybody's
	store := memstore.New()
	must(t, store.Complete(t.Context(), win(t, store, claim(1)), result("answer")))
	win(t, store, claim(2))
	for name, test := range map[string]struct {
		claim core.Claim
		limit float64
	}{
		"replay":      {claim(1), 0},
		"in progress": {claim(2), 1},
	} {
		ctx := t.Context()
		got := testing.AllocsPerRun(100, func() {
			if _, _, err := store.Acquire(ctx, test.claim); err != nil {
				t.Error(err)
			}
		})
		if got > test.limit {
			t.Errorf("%s allocates %v times, want at most %v", name, got, test.limit)
		}
	}
}
