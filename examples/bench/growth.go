package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
)

const (
	smallStore = 10_000
	// sampled is the number of random keys that the replays cycle through, enough to
	// exceed each processor's cache.
	sampled = 1 << 16
	// expiring is the share of records, on top of the others, that sweeps remove meanwhile:
	// one for each so many.
	expiring = 4
	// growingFirsts bounds the first-time requests of a slice, which make a store larger.
	growingFirsts = 100
	// growthSweep is the batch of the sweeps that run beside the requests, as of RunSweeper.
	growthSweep = 1000
)

const inMemory = "memstore"

// growthKey is the storage key of record i in a large store.
func growthKey(i int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "growth %d", i))
	return hex.EncodeToString(sum[:])
}

func growthClaim(i int) storage.Claim {
	claim := newClaim("")
	claim.Key = growthKey(i)
	return claim
}

// sampleOf returns a random sample of a value for each record.
func sampleOf[T any](records int, of func(i int) T) []T {
	random := rand.New(rand.NewPCG(1, uint64(records))) //nolint:gosec // a sample, not a secret
	sample := make([]T, sampled)
	for i := range sample {
		sample[i] = of(random.IntN(records))
	}
	return sample
}

// grown is a store with many records.
type grown struct {
	store  storage.Store
	weight float64                                             // bytes a record
	sweep  func(ctx context.Context, batch int) (int64, error) // nil: the store drops expired records itself
}

// kind is a store that the growth measures. Its function fill makes a store with so many
// records, and with some more that expire.
type kind struct {
	name string
	fill func(ctx context.Context, records int) (grown, error)
	end  func()
}

// growth measures requests as stores grow, and as pods share a store.
func growth(ctx context.Context, s *suite) (report.Section, error) {
	sizes := []int{smallStore}
	if s.records > smallStore {
		sizes = append(sizes, s.records)
	}
	if s.large {
		sizes = append(sizes, 10*s.records)
	}
	section := report.Section{Title: "Growth", Text: []string{fmt.Sprintf(
		"Calls of a store, one at a time, for stores of the same kind and of different size: new keys, and replays of keys at random. Figures stand in the order of the sizes. "+
			"Each store has a quarter more records that expire: memstore and Redis drop them meanwhile, and in SQL sweeps in batches of %d remove them meanwhile. *swept* is their number, *a second* of the sweeps' own time. "+
			"Records of SQL stores and of Redis are copies of one record. *bytes a record* are those of the largest store after that: heap in use, used_memory, or table and indexes. Pages that "+
			"the filling has pushed out of the machine's memory come from disk. -large adds a store of ten times the size.", growthSweep)}}
	table := report.Table{Head: []string{
		"store", "records", "first p50", "first p99", "replay p50", "replay p99", "first: time x smallest", "replay: time x smallest", "bytes a record", "swept", "swept a second",
	}}
	kinds, missing, err := s.kinds(ctx)
	defer func() {
		for _, kind := range kinds {
			kind.end()
		}
	}()
	if err != nil {
		return section, err
	}
	for _, name := range missing {
		section.Text = append(section.Text, "Left out: "+name+" is not installed.")
	}
	for _, kind := range kinds {
		row, err := s.grow(ctx, kind, sizes)
		if err != nil {
			return section, fmt.Errorf("%s: %w", kind.name, err)
		}
		table.Rows = append(table.Rows, row)
	}
	section.Tables = append(section.Tables, table)
	err = s.measurePods(ctx, &section)
	return section, err
}

// grow fills a store of each size, and compares them.
func (s *suite) grow(ctx context.Context, of kind, sizes []int) ([]string, error) {
	var stores []grown
	for _, records := range sizes {
		store, err := of.fill(ctx, records)
		if err != nil {
			return nil, fmt.Errorf("%d records: %w", records, err)
		}
		stores = append(stores, store)
	}
	var arms []harness.Arm
	for i, store := range stores {
		arms = append(arms, growthArms(ctx, store, sizes[i])...)
	}
	end := sweepAll(ctx, stores)
	plan := s.plan(0)
	plan.Collect = false // a collection would take longer than a slice
	c, err := harness.Compare(ctx, plan, arms)
	swept, rate, sweepErr := end()
	if err := errors.Join(err, sweepErr); err != nil {
		return nil, err
	}
	cells := func(of func(size int) string) string {
		var all []string
		for _, size := range sizes {
			all = append(all, of(size))
		}
		return strings.Join(all, ", ")
	}
	row := []string{of.name, cells(func(size int) string { return fmt.Sprint(size) })}
	for _, arm := range []func(int) string{growthFirst, growthReplay} {
		row = append(row,
			cells(func(size int) string { return report.Duration(c.Median(arm(size)).P50) }),
			cells(func(size int) string { return report.Duration(c.Median(arm(size)).P99) }))
	}
	last := sizes[len(sizes)-1]
	return append(row,
		report.Interval(c.Ratio(growthFirst(last), growthFirst(smallStore))), report.Interval(c.Ratio(growthReplay(last), growthReplay(smallStore))),
		fmt.Sprintf("%.0f", stores[len(stores)-1].weight), fmt.Sprint(swept), report.Number(math.Floor(rate))), nil
}

func growthFirst(records int) string { return fmt.Sprintf("%d records: first", records) }

func growthReplay(records int) string { return fmt.Sprintf("%d records: replay", records) }

// growthArms settle new keys, which expire soon, and read records at random.
func growthArms(ctx context.Context, of grown, records int) []harness.Arm {
	work, result := storeWork{ctx: ctx, store: of.store, workers: 1}, newResult()
	result.Retain = time.Second
	first := work.claimsArm(growthFirst(records), nil, func(c storage.Claim) error {
		lease, err := work.acquire(c)
		if err != nil {
			return err
		}
		return work.store.Complete(ctx, lease, result)
	})
	first.Most = growingFirsts
	sample, at := sampleOf(records, growthClaim), 0
	replay := work.replayArm(growthReplay(records), func(int) storage.Claim {
		at++
		return sample[at%len(sample)]
	})
	return []harness.Arm{first, replay}
}

// sweepAll sweeps each store until end, which returns the number of removed records, and how
// many a sweep has removed in a second.
func sweepAll(ctx context.Context, stores []grown) (end func() (removed int64, rate float64, err error)) {
	sweeping, cancel := context.WithCancel(ctx)
	type result struct {
		removed int64
		took    time.Duration
		err     error
	}
	results := make(chan result, len(stores))
	for _, store := range stores {
		go func() {
			var all result
			for store.sweep != nil && sweeping.Err() == nil && all.err == nil {
				start := time.Now()
				removed, err := store.sweep(sweeping, growthSweep)
				if removed > 0 {
					all.removed, all.took = all.removed+removed, all.took+time.Since(start)
				}
				if sweeping.Err() == nil {
					all.err = err
				}
				select {
				case <-sweeping.Done():
				case <-time.After(time.Second):
				}
			}
			results <- all
		}()
	}
	return func() (removed int64, rate float64, err error) {
		cancel()
		var took time.Duration
		for range stores {
			one := <-results
			removed, took, err = removed+one.removed, took+one.took, errors.Join(err, one.err)
		}
		return removed, float64(removed) / max(took.Seconds(), 1e-9), err
	}
}
