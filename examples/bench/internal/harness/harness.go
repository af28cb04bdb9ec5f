// Package harness compares pieces of work on a machine that other programs use too.
//
//	comparison, err := harness.Compare(ctx, plan, []harness.Arm{bare, guarded})
//	fmt.Println(comparison.Ratio("guarded", "bare")) // the median of paired ratios, and its interval
//
// Each arm runs for a short slice, all arms in random order, for many rounds. A
// disturbance longer than a round affects all arms of the round, and drops out of the
// ratio. A shorter disturbance affects one ratio of many, and drops out of the median. The
// first arm runs twice in every round: the ratio of its two runs is the control, which
// would be 1 without noise.
//
// The package makes no judgement. It is not safe for concurrent use, because a comparison
// needs the whole process.
package harness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// Arm is one piece of work in a comparison.
type Arm struct {
	// Name is unique within a comparison.
	Name string
	// Run does the work n times. An error ends the comparison.
	Run func(n int) error
	// Prepare prepares Run(n), outside of the measurement. It may be nil.
	Prepare func(n int) error
	// Least and Most bound n. Zero means no bound. Concurrent work needs several pieces for
	// each worker: with fewer, it would be measured as if it were not concurrent.
	Least, Most int
	// Took returns the latencies in the last Run, in nanoseconds. It may be nil.
	Took func() []float64
}

// Plan describes a comparison.
type Plan struct {
	// Rounds is how often each arm runs, at least 1.
	Rounds int
	// Slice is the approximate duration of each run. An arm with longer work does the work
	// once.
	Slice time.Duration
	// Processors is GOMAXPROCS for the comparison; zero leaves it as it is.
	Processors int
	// Server returns the processor time that a server has used so far. It may be nil.
	Server func() time.Duration
}

// ControlArm is the name of the first arm's second run.
const ControlArm = "\x00control"

// Compare runs the arms as planned. It returns the first error of an arm, with the arm's
// name, or the context's error.
func Compare(ctx context.Context, plan Plan, arms []Arm) (*Comparison, error) {
	if len(arms) == 0 || plan.Rounds < 1 {
		return nil, fmt.Errorf("harness: %d arms, %d rounds: want at least 1 of each", len(arms), plan.Rounds)
	}
	if plan.Processors > 0 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(plan.Processors))
	}
	twin := arms[0]
	twin.Name = ControlArm
	arms = append(slices.Clone(arms), twin)
	runs := make([]int, len(arms))
	for i, arm := range arms {
		var err error
		if runs[i], err = plan.calibrate(ctx, arm); err != nil {
			return nil, err
		}
	}
	runs[len(runs)-1] = runs[0]
	return plan.measure(ctx, arms, runs)
}

func (p Plan) measure(ctx context.Context, arms []Arm, runs []int) (*Comparison, error) {
	c := &Comparison{samples: make(map[string][]Cost, len(arms)), base: arms[0].Name}
	random := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // an order, not a secret
	for range p.Rounds {
		for _, i := range random.Perm(len(arms)) {
			cost, err := p.slice(ctx, arms[i], runs[i])
			if err != nil {
				return nil, err
			}
			c.samples[arms[i].Name] = append(c.samples[arms[i].Name], cost)
		}
	}
	return c, nil
}

// calibrate finds the number of repetitions for a slice, and warms the arm up. It uses the
// faster of two slices, because the other may have been disturbed.
func (p Plan) calibrate(ctx context.Context, arm Arm) (int, error) {
	for n := arm.bound(1); ; {
		cost, err := p.slice(ctx, arm, n)
		if err != nil {
			return 0, err
		}
		again, err := p.slice(ctx, arm, n)
		if err != nil {
			return 0, err
		}
		elapsed := time.Duration(min(cost.Time, again.Time) * float64(n))
		if elapsed >= p.Slice/4 || n == arm.Most {
			return arm.bound(int(float64(n) * float64(p.Slice) / float64(max(elapsed, 1)))), nil
		}
		n = arm.bound(4 * n)
	}
}

func (a Arm) bound(n int) int {
	if a.Most > 0 {
		n = min(n, a.Most)
	}
	return max(n, a.Least, 1)
}

// slice measures the arm doing its work n times.
func (p Plan) slice(ctx context.Context, arm Arm, n int) (Cost, error) {
	if err := ctx.Err(); err != nil {
		return Cost{}, err
	}
	if arm.Prepare != nil {
		if err := arm.Prepare(n); err != nil {
			return Cost{}, fmt.Errorf("%s: prepare: %w", arm.Name, err)
		}
	}
	runtime.GC() // no arm pays for another arm's garbage
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	server, cpu, start := p.serverTime(), processorTime(), time.Now()
	err := arm.Run(n)
	elapsed, cpu, server := time.Since(start), processorTime()-cpu, p.serverTime()-server
	runtime.ReadMemStats(&after)
	if err != nil {
		return Cost{}, fmt.Errorf("%s: %w", arm.Name, err)
	}
	times := float64(n)
	cost := Cost{
		Time: float64(elapsed) / times, CPU: float64(cpu) / times, Server: float64(server) / times,
		Bytes: float64(after.TotalAlloc-before.TotalAlloc) / times, Allocs: float64(after.Mallocs-before.Mallocs) / times,
	}
	if arm.Took != nil {
		took := arm.Took()
		cost.P50, cost.P99, cost.Latencies = Quantile(took, 0.5), Quantile(took, 0.99), HistogramOf(took)
	}
	return cost, nil
}

func (p Plan) serverTime() time.Duration {
	if p.Server == nil {
		return 0
	}
	return p.Server()
}

// processorTime is the process's user and system time so far.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
