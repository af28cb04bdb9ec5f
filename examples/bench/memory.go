package main

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"runtime"
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
	err := s.measureHeap(ctx, &section)
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
