package memstore_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Config{
		New:  func(testing.TB) storage.Store { return memstore.New() },
		Wrap: synctest.Test,
	})
}

func TestLimiterConformance(t *testing.T) {
	t.Parallel()
	storetest.RunLimiter(t, storetest.Config{New: func(testing.TB) storage.Store { return memstore.New() }, Wrap: synctest.Test})
}

func TestConformanceInRealTime(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Config{
		New:  func(testing.TB) storage.Store { return memstore.New() },
		Unit: 300 * time.Millisecond,
	})
}

// A full cache forgets the records that would expire first, wherever they are.
func TestCacheForgetsTheEarliest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const records, more = 300, 100
		store := memstore.New(memstore.Cache(), memstore.MaxRecords(records))
		for _, n := range rand.New(rand.NewPCG(1, 7)).Perm(records) { // the same each time
			res := result("answer")
			res.Retain = time.Duration(1+n) * time.Minute
			must(t, store.Complete(t.Context(), win(t, store, claim(n)), res))
		}
		for n := range more {
			win(t, store, claim(records+n))
			for old, there := range map[int]bool{n: false, n + 1: true} {
				if record, err := store.Lookup(t.Context(), claim(old).Key); err != nil || (record != nil) != there {
					t.Fatalf("after %d more, record %d is %+v (%v), want it in the store: %t", n+1, old, record, err, there)
				}
			}
		}
	})
}

// A text that resembles a storage key or a fingerprint, and is neither, comes back as
// it was spelled, and equals no other text.
func TestAlmostHexadecimal(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	digits := strings.Repeat("0123456789abcdef", 4)
	spellings := []string{
		digits, strings.ToUpper(digits), strings.Replace(digits, "f", "F", 1), strings.Replace(digits, "0", "g", 1),
		strings.Replace(digits, "a", "\xff", 1), strings.Replace(digits, "1", "\x00", 1), digits[1:], digits + "0", "",
	}
	for _, spelling := range spellings {
		c := claim(0)
		c.Key, c.Fingerprint = spelling, "sha256:"+spelling
		must(t, store.Complete(t.Context(), win(t, store, c), result("of "+spelling)))
	}
	for _, spelling := range spellings {
		record, err := store.Lookup(t.Context(), spelling)
		if err != nil || record == nil || string(record.Body) != "of "+spelling || record.Fingerprint != "sha256:"+spelling {
			t.Errorf("Lookup of %q returned %+v and %v", spelling, record, err)
		}
	}
	listed := listAll(t, store, storage.Completed, 2)
	for _, spelling := range spellings {
		if listed[spelling] == nil {
			t.Errorf("%q is not listed", spelling)
		}
	}
}

func TestExamineComparesWithBounds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options         []memstore.Option
		records, memory storage.Grade
	}{
		"space":        {nil, storage.Good, storage.Good},
		"many records": {[]memstore.Option{memstore.MaxRecords(100)}, storage.Look, storage.Good},
		"full":         {[]memstore.Option{memstore.MaxRecords(90)}, storage.Mend, storage.Good},
		"many bytes":   {[]memstore.Option{memstore.MaxBytes(35_000)}, storage.Good, storage.Look},
		"a full cache": {[]memstore.Option{memstore.MaxRecords(90), memstore.Cache()}, storage.Good, storage.Good},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := memstore.New(test.options...)
			for n := range 90 {
				win(t, store, claim(n))
			}
			findings := map[string]storage.Finding{}
			for _, f := range store.Examine(t.Context()) {
				findings[f.Check] = f
			}
			if findings["records"].Grade != test.records || findings["memory"].Grade != test.memory {
				t.Errorf("the findings are %+v, want records %s and memory %s", findings, test.records, test.memory)
			}
			if canary := findings["canary"].Grade; (canary == storage.Good) != (test.records == storage.Good || test.records == storage.Look) && name != "a full cache" {
				t.Errorf("the canary is %s", canary)
			}
		})
	}
}
