package main

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
)

// plainRecord is a finished request in a plain map.
type plainRecord struct {
	fingerprint string
	status      int
	header      http.Header
	body        []byte
	expires     time.Time
}

// memory measures the embedded store with many finished records.
func memory(ctx context.Context, s *suite) (report.Section, error) {
	section := report.Section{
		Title: "memstore: many records",
		Text:  []string{fmt.Sprintf("%d finished records with bodies of %d bytes and one header.", s.records, size)},
	}
	if err := s.measureHeap(ctx, &section); err != nil {
		return section, err
	}
	if err := s.measureContention(ctx, &section); err != nil {
		return section, err
	}
	err := s.measureSweep(ctx, &section)
	return section, err
}

const (
	memoryBytes     = "memstore: bytes a record"
	collectionRatio = "full collection, map store : memstore"
)

// heap is the memory of a store, and its cost for the garbage collector.
type heap struct {
	bytes float64   // for each record
	full  []float64 // nanoseconds for a whole collection, several times
}

// weigh builds a value and drops it again, on one processor.
func (s *suite) weigh(build func() (any, error)) (heap, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	before := heapInUse()
	built, err := build()
	if err != nil {
		return heap{}, err
	}
	weight := heap{bytes: float64(heapInUse()-before) / float64(s.records)}
	for range max(5, s.rounds/5) {
		start := time.Now()
		runtime.GC()
		weight.full = append(weight.full, float64(time.Since(start)))
	}
	runtime.KeepAlive(built)
	return weight, nil
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // the first collection sweeps the previous garbage
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapInuse)
}

func (s *suite) measureHeap(ctx context.Context, section *report.Section) error {
	ours, err := s.weigh(func() (any, error) { return filledMemory(ctx, s.records) })
	if err != nil {
		return err
	}
	plain, err := s.weigh(func() (any, error) { return plainMap(s.records), nil })
	if err != nil {
		return err
	}
	nothing, err := s.weigh(func() (any, error) { return struct{}{}, nil })
	if err != nil {
		return err
	}
	ratios := make([]float64, len(ours.full))
	for i := range ratios {
		ratios[i] = plain.full[i] / ours.full[i]
	}
	row := func(name string, h heap) []string {
		return []string{name, report.Number(float64(int(h.bytes))), report.Duration(harness.Median(h.full))}
	}
	section.Tables = append(section.Tables, report.Table{
		Caption: "Heap in use, and a full collection, on one processor", Head: []string{"store", "bytes a record", "full collection"},
		Rows: [][]string{row("memstore", ours), row("plain map of structs", plain), row("nothing", nothing)},
	})
	s.results.figures[memoryBytes] = math.Floor(ours.bytes)
	s.results.figures[collectionRatio] = harness.Median(ratios)
	return nil
}

// filledMemory is a memstore with finished records under the keys of growthClaim.
func filledMemory(ctx context.Context, records int) (*memstore.Store, error) {
	store := newMemory()
	work := storeWork{ctx: ctx, store: store, workers: 1}
	for i := range records {
		if err := work.finish([]storage.Claim{growthClaim(i)}, newResult()); err != nil {
			return nil, err
		}
	}
	return store, nil
}

func plainMap(records int) map[string]*plainRecord {
	all := make(map[string]*plainRecord)
	for i := range records {
		claim := growthClaim(i)
		all[claim.Key] = &plainRecord{
			fingerprint: string([]byte(claim.Fingerprint)), status: http.StatusCreated,
			header: http.Header{"Content-Type": {"application/json"}}, body: append([]byte(nil), response...),
			expires: time.Now().Add(claim.Retain),
		}
	}
	return all
}

// measureContention sends requests to the full store from one goroutine and from many.
func (s *suite) measureContention(ctx context.Context, section *report.Section) error {
	store, err := filledMemory(ctx, s.records)
	if err != nil {
		return err
	}
	sample := sampleOf(s.records, growthClaim)
	known := func(i int) storage.Claim { return sample[i%len(sample)] }
	var arms []harness.Arm
	for _, workers := range []int{1, 8, 64} {
		work := storeWork{ctx, store, workers, true}
		arms = append(arms, work.replayArm(fmt.Sprintf("replay, %d at once", workers), known), work.borrowArm(workers))
	}
	plan := s.plan(0)
	plan.Collect = false // a collection of a large heap would take longer than a slice
	alone := map[bool]string{true: arms[0].Name, false: arms[1].Name}
	err = s.compare(ctx, section, comparison{"Under contention, on all processors", plan, arms, []column{
		timeColumn, timesColumn("x one at once", func(arm string) string { return alone[strings.HasPrefix(arm, "replay")] }),
	}})
	return err
}

// borrowArm claims new keys, and releases them before the next slice, so that the store
// does not grow.
func (w storeWork) borrowArm(workers int) harness.Arm {
	var claims []storage.Claim
	var leases []storage.Lease
	return harness.Arm{
		Name: fmt.Sprintf("acquire, %d at once", workers), Most: 1 << 14,
		Prepare: func(n int) error {
			for _, lease := range leases {
				if err := w.store.Release(w.ctx, lease); err != nil {
					return err
				}
			}
			claims, leases = newClaims(n), make([]storage.Lease, n)
			return nil
		},
		Run: func(n int) error {
			return harness.Parallel(workers, n, func(_, i int) (err error) {
				leases[i], err = w.acquire(claims[i])
				return err
			})
		},
	}
}

// measureSweep lets all records expire at one moment, and measures the longest call while
// the calls drop the records.
func (s *suite) measureSweep(ctx context.Context, section *report.Section) error {
	store := newMemory()
	work := storeWork{ctx: ctx, store: store, workers: 1}
	moment := time.Now().Add(max(2*time.Second, time.Duration(s.records)*20*time.Microsecond))
	for i := range s.records {
		result := newResult()
		if result.Retain = time.Until(moment); result.Retain <= 0 {
			section.Notes = append(section.Notes, "The sweep was not measured: filling the store took too long.")
			return nil
		}
		if err := work.finish([]storage.Claim{growthClaim(i)}, result); err != nil {
			return err
		}
	}
	calls := s.records / 8
	runtime.GC()
	before, err := work.latencies(calls)
	if err != nil {
		return err
	}
	if time.Now().After(moment) {
		section.Notes = append(section.Notes, "The sweep was not measured: filling the store took too long.")
		return nil
	}
	held := store.Len()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(moment)):
	}
	runtime.GC()
	during, err := work.latencies(calls)
	if err != nil {
		return err
	}
	row := func(name string, took []float64) []string {
		return []string{
			name, report.Duration(harness.Median(took)), report.Duration(harness.Quantile(took, 0.99)),
			report.Duration(harness.Quantile(took, 0.9999)), report.Duration(harness.Quantile(took, 1)),
		}
	}
	section.Tables = append(section.Tables, report.Table{
		Caption: fmt.Sprintf("Claims of %d new keys, one at a time, before and while they drop expired records (%d of %d)",
			calls, held+calls-store.Len(), s.records),
		Head: []string{"claims", "p50", "p99", "p99.99", "longest"},
		Rows: [][]string{row("before anything expires", before), row("while dropping", during)},
	})
	return nil
}

// latencies claims new keys one after another.
func (w storeWork) latencies(calls int) ([]float64, error) {
	claims, took := newClaims(calls), make([]float64, calls)
	for i, claim := range claims {
		start := time.Now()
		if _, err := w.acquire(claim); err != nil {
			return nil, err
		}
		took[i] = float64(time.Since(start))
	}
	return took, nil
}
