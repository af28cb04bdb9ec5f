package harness

import "fmt"

// Cost is the cost of one run of an arm's work. Time and CPU are in nanoseconds. CPU,
// Bytes and Allocs are those of the whole process.
type Cost struct{ Time, CPU, Bytes, Allocs float64 }

// Comparison has the measured costs: one for each arm in each round.
type Comparison struct {
	samples map[string][]Cost
	base    string // the first arm
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
	figure := func(pick func(Cost) float64) float64 {
		var all []float64
		for _, cost := range c.of(name) {
			all = append(all, pick(cost))
		}
		return Median(all)
	}
	return Cost{
		Time:   figure(func(c Cost) float64 { return c.Time }),
		CPU:    figure(func(c Cost) float64 { return c.CPU }),
		Bytes:  figure(func(c Cost) float64 { return c.Bytes }),
		Allocs: figure(func(c Cost) float64 { return c.Allocs }),
	}
}

// Ratio compares the times of two arms, round by round.
func (c *Comparison) Ratio(arm, to string) Estimate {
	return c.paired(func(time func(string) float64) float64 { return time(arm) / time(to) })
}

// Overhead compares an arm's time above its bare arm with a peer's time above the peer's
// bare arm.
func (c *Comparison) Overhead(arm, bare, peer, peerBare string) Estimate {
	return c.paired(func(time func(string) float64) float64 {
		return (time(arm) - time(bare)) / (time(peer) - time(peerBare))
	})
}

// Control returns the ratio of the first arm to itself.
func (c *Comparison) Control() Estimate { return c.Ratio(control, c.base) }

// paired computes one figure from each round's times, and estimates the median.
func (c *Comparison) paired(figure func(time func(arm string) float64) float64) Estimate {
	var figures []float64
	for round := range c.of(c.base) {
		figures = append(figures, figure(func(arm string) float64 { return c.of(arm)[round].Time }))
	}
	return EstimateOf(figures)
}
