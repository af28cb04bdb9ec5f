package harness

import "fmt"

// Cost is the cost of one run of an arm's work. Times are in nanoseconds. CPU, Bytes and
// Allocs are those of the whole process.
type Cost struct {
	Time, CPU, Bytes, Allocs float64
	// Server is the processor time of the plan's server.
	Server float64
	// P50 and P99 are quantiles of the latencies in one slice, and zero for an arm without
	// latencies.
	P50, P99 float64
	// Latencies are those of one slice, for Comparison.Pooled. They may be nil.
	Latencies *Histogram
}

// Figure picks one figure of a cost.
type Figure func(Cost) float64

// Time and P99 are the figures that comparisons are about.
var (
	Time Figure = func(c Cost) float64 { return c.Time }
	P99  Figure = func(c Cost) float64 { return c.P99 }
)

// Comparison has the measured costs: one for each arm in each round.
type Comparison struct {
	samples map[string][]Cost
	base    string // the first arm
}

// NewComparison returns a comparison with known costs. The costs of the control have the
// name ControlArm.
func NewComparison(base string, samples map[string][]Cost) *Comparison {
	return &Comparison{samples: samples, base: base}
}

// Has reports whether all these arms ran.
func (c *Comparison) Has(arms ...string) bool {
	for _, arm := range arms {
		if _, ran := c.samples[arm]; !ran {
			return false
		}
	}
	return true
}

// of returns an arm's costs. An unknown name is a mistake of the caller.
func (c *Comparison) of(name string) []Cost {
	costs, ok := c.samples[name]
	if !ok {
		panic(fmt.Sprintf("harness: no arm is called %q", name))
	}
	return costs
}

// Median returns an arm's median cost. Each figure has its own median.
func (c *Comparison) Median(name string) Cost {
	figure := func(pick Figure) float64 {
		var all []float64
		for _, cost := range c.of(name) {
			all = append(all, pick(cost))
		}
		return Median(all)
	}
	return Cost{
		Time:   figure(Time),
		CPU:    figure(func(c Cost) float64 { return c.CPU }),
		Bytes:  figure(func(c Cost) float64 { return c.Bytes }),
		Allocs: figure(func(c Cost) float64 { return c.Allocs }),
		Server: figure(func(c Cost) float64 { return c.Server }),
		P50:    figure(func(c Cost) float64 { return c.P50 }),
		P99:    figure(P99),
	}
}

// Ratio compares the times of two arms, round by round.
func (c *Comparison) Ratio(arm, to string) Estimate { return c.RatioOf(Time, arm, to) }

// RatioOf compares a figure of two arms, round by round.
func (c *Comparison) RatioOf(figure Figure, arm, to string) Estimate {
	return c.paired(figure, func(of func(string) float64) float64 { return of(arm) / of(to) })
}

// Overhead compares an arm's time above its bare arm with a peer's time above the peer's
// bare arm. A peer without a bare arm ("") counts with its whole time.
func (c *Comparison) Overhead(arm, bare, peer, peerBare string) Estimate {
	return c.paired(Time, func(time func(string) float64) float64 {
		peerTime := time(peer)
		if peerBare != "" {
			peerTime -= time(peerBare)
		}
		return (time(arm) - time(bare)) / peerTime
	})
}

// Control returns the ratio of the first arm to itself.
func (c *Comparison) Control() Estimate { return c.ControlOf(Time) }

// ControlOf returns the ratio of a figure of the first arm to itself.
func (c *Comparison) ControlOf(figure Figure) Estimate { return c.RatioOf(figure, ControlArm, c.base) }

// paired computes one figure from the arms' figures in each round, and estimates the
// median.
func (c *Comparison) paired(figure Figure, combine func(of func(arm string) float64) float64) Estimate {
	var figures []float64
	for round := range c.of(c.base) {
		figures = append(figures, combine(func(arm string) float64 { return figure(c.of(arm)[round]) }))
	}
	return EstimateOf(figures)
}
