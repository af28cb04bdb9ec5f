package harness

import "math"

// Histogram counts latencies in buckets that are 1 % wide, so that the latencies of many
// rounds can be pooled and drawn again at little cost.
type Histogram struct {
	counts []uint64 // by bucket
	total  uint64
}

var bucketWidth = math.Log(1.01)

// HistogramOf counts latencies in nanoseconds. Those below 1 ns count as 1 ns.
func HistogramOf(latencies []float64) *Histogram {
	h := &Histogram{}
	for _, latency := range latencies {
		bucket := int(math.Log(max(latency, 1)) / bucketWidth)
		h.grow(bucket + 1)
		h.counts[bucket]++
		h.total++
	}
	return h
}

// Add adds the latencies of another histogram.
func (h *Histogram) Add(other *Histogram) {
	h.grow(len(other.counts))
	for bucket, n := range other.counts {
		h.counts[bucket] += n
	}
	h.total += other.total
}

// grow makes room for so many buckets.
func (h *Histogram) grow(buckets int) {
	if missing := buckets - len(h.counts); missing > 0 {
		h.counts = append(h.counts, make([]uint64, missing)...)
	}
}

// Quantile returns the latency that the share q does not exceed. It is NaN for no
// latencies.
func (h *Histogram) Quantile(q float64) float64 {
	rank, below := q*float64(h.total), uint64(0)
	for bucket, n := range h.counts {
		if n > 0 && float64(below+n) >= rank {
			within := (rank - float64(below)) / float64(n)
			return math.Exp((float64(bucket) + within) * bucketWidth)
		}
		below += n
	}
	return math.NaN()
}

// Pooled returns the latencies of an arm in all rounds together.
func (c *Comparison) Pooled(arm string) *Histogram {
	pool := &Histogram{}
	for _, cost := range c.of(arm) {
		pool.Add(cost.Latencies)
	}
	return pool
}

// PooledRatio compares a quantile of two arms' pooled latencies. A round's own p99 rests on
// a few stalls that the round happened to have; that of all rounds does not. The interval
// is a bootstrap of whole rounds, because the latencies in a stall depend on each other. A
// drawn round counts for both arms.
func (c *Comparison) PooledRatio(q float64, arm, to string) Estimate {
	ours, theirs := c.of(arm), c.of(to)
	median := c.Pooled(arm).Quantile(q) / c.Pooled(to).Quantile(q)
	return bootstrap(median, len(ours), func(draw func() int) float64 {
		over, under := &Histogram{}, &Histogram{}
		for range ours {
			round := draw()
			over.Add(ours[round].Latencies)
			under.Add(theirs[round].Latencies)
		}
		return over.Quantile(q) / under.Quantile(q)
	})
}
