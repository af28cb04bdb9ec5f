package harness_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/internal/testkit"
)

func near(got, want, tolerance float64) bool { return math.Abs(got-want) <= tolerance }

func TestQuantile(t *testing.T) {
	t.Parallel()
	figures := []float64{5, 1, 4, 2, 3}
	for q, want := range map[float64]float64{0: 1, 0.25: 2, 0.5: 3, 0.6: 3.4, 1: 5} {
		if got := harness.Quantile(figures, q); !near(got, want, 1e-9) {
			t.Errorf("Quantile(%v, %v) = %v, want %v", figures, q, got, want)
		}
	}
	testkit.Equal(t, harness.Median([]float64{1, 2, 10, 20}), 6, "the median of an even number")
	testkit.EqualSlices(t, figures, []float64{5, 1, 4, 2, 3}, "the figures were put in order for the caller too")
	if got := harness.Median(nil); !math.IsNaN(got) {
		t.Errorf("the median of no figures is %v, want NaN", got)
	}
}

func TestEstimate(t *testing.T) {
	t.Parallel()
	same := harness.EstimateOf([]float64{2, 2, 2})
	testkit.Equal(t, same, harness.Estimate{Median: 2, Low: 2, High: 2}, "figures that agree have the estimate")
	var figures []float64
	for i := range 101 {
		figures = append(figures, float64(i)) // the median is 50, its standard error about 5
	}
	got := harness.EstimateOf(figures)
	if got.Median != 50 || got.Low < 35 || got.Low > 45 || got.High < 55 || got.High > 65 {
		t.Errorf("0 to 100 have the estimate %+v, want 50 between about 40 and 60", got)
	}
	if again := harness.EstimateOf(figures); again != got {
		t.Errorf("the same figures have the estimates %+v and %+v", got, again)
	}
}

// An interval of 95 % misses the truth in about one of twenty experiments.
func TestIntervalHoldsTheMedian(t *testing.T) {
	t.Parallel()
	const experiments = 100
	missed := 0
	state := uint64(1)
	for range experiments {
		figures := make([]float64, 50)
		for i := range figures {
			state = state*6364136223846793005 + 1442695040888963407
			figures[i] = float64(state>>11) / (1 << 53) // uniform: the median is 0.5
		}
		if got := harness.EstimateOf(figures); got.Low > 0.5 || got.High < 0.5 {
			missed++
		}
	}
	if missed == 0 || missed > experiments/8 {
		t.Errorf("%d of %d intervals miss the median, want about %d", missed, experiments, experiments/20)
	}
}

// costs have these times. A server needs twice as long, and the latencies are the squares.
func costs(times map[string][]float64) map[string][]harness.Cost {
	samples := make(map[string][]harness.Cost)
	for arm, all := range times {
		for _, time := range all {
			samples[arm] = append(samples[arm], harness.Cost{Time: time, P99: time * time, Server: 2 * time})
		}
	}
	return samples
}

func TestPairedFigures(t *testing.T) {
	t.Parallel()
	// The machine becomes ten times slower in the middle: the ratios do not.
	comparison := harness.NewComparison("bare", costs(map[string][]float64{
		"bare": {10, 10, 100}, "ours": {15, 15, 150},
		"peer bare": {4, 4, 40}, "peer": {14, 14, 140},
		harness.ControlArm: {12, 12, 120},
	}))
	testkit.Equal(t, comparison.Ratio("ours", "bare"), harness.Estimate{Median: 1.5, Low: 1.5, High: 1.5}, "the ratio")
	testkit.Equal(t, comparison.Overhead("ours", "bare", "peer", "peer bare").Median, 0.5, "the ratio of 5 more to 10 more")
	testkit.Equal(t, comparison.Overhead("ours", "bare", "peer bare", "").Median, 1.25, "the ratio of 5 more to 4")
	testkit.Equal(t, comparison.RatioOf(harness.P99, "ours", "bare").Median, 2.25, "the ratio of the latencies")
	if !comparison.Has("ours", "peer") || comparison.Has("ours", "theirs") {
		t.Error("Has does not report which arms ran")
	}
	testkit.Equal(t, comparison.Control().Median, 1.2, "the control")
	if got := comparison.Median("ours"); got.Time != 15 || got.Server != 30 {
		t.Errorf("the median time is %v and the server's %v, want 15 and 30", got.Time, got.Server)
	}
}

// The work takes virtual time, so that a busy machine does not disturb the comparison.
func TestCompare(t *testing.T) { //nolint:paralleltest // it sets GOMAXPROCS
	synctest.Test(t, testCompare)
}

func testCompare(t *testing.T) {
	work := func(each time.Duration) func(int) error {
		return func(n int) error {
			time.Sleep(time.Duration(n) * each) //nolint:forbidigo // in virtual time
			return nil
		}
	}
	longest, fewest := 0, 1000
	prepared, ran, processors := 0, 0, runtime.GOMAXPROCS(0)
	used := time.Duration(0)
	server := func() time.Duration { used += time.Second; return used } // between two readings
	plan := harness.Plan{Rounds: 9, Slice: 100 * time.Millisecond, Processors: 1, Server: server}
	comparison, err := harness.Compare(t.Context(), plan, []harness.Arm{
		{Name: "once", Run: work(time.Millisecond)},
		{Name: "four times", Run: work(4 * time.Millisecond)},
		{Name: "counted", Run: func(n int) error { longest = max(longest, n); return work(time.Millisecond)(n) }},
		{
			Name: "prepared", Most: 3,
			Prepare: func(n int) error { prepared = n; return nil },
			Run: func(n int) error {
				ran++
				if n != prepared || n > 3 || runtime.GOMAXPROCS(0) != 1 {
					return errors.New("not as planned")
				}
				return nil
			},
		},
		{Name: "concurrent", Least: 40, Run: func(n int) error { fewest = min(fewest, n); return work(time.Second)(n) }},
		{Name: "slow at times", Most: 1, Run: func(int) error { return nil }, Took: func() []float64 { return []float64{1, 1, 5, 1, 1} }},
		{Name: "allocates", Run: func(n int) error {
			for range n {
				kept = make([]byte, 1000)
			}
			return work(time.Millisecond)(n)
		}},
	})
	testkit.Must(t, err)
	testkit.Equal(t, comparison.Ratio("four times", "once").Median, 4, "the ratio of four times the work")
	if got := comparison.Median("counted").Time; got != 1e6 || longest != 100 {
		t.Errorf("work of a millisecond is measured as %v ns, and done up to %d times in a slice of 100 ms", got, longest)
	}
	testkit.Equal(t, fewest, 40, "an arm with at least 40 pieces of work did")
	if cost := comparison.Median("allocates"); !near(cost.Allocs, 1, 0.1) || cost.Bytes < 1000 || cost.Bytes > 1200 {
		t.Errorf("one allocation of 1000 bytes is measured as %v of %v", cost.Allocs, cost.Bytes)
	}
	if cost := comparison.Median("slow at times"); cost.P50 != 1 || !near(cost.P99, 4.84, 1e-9) {
		t.Errorf("1, 1, 5, 1, 1 have the quantiles %v and %v, want 1 and 4.84", cost.P50, cost.P99)
	}
	if got := comparison.Median("prepared").Server; !near(got, 1e9/3, 1) {
		t.Errorf("3 pieces of work took %v ns of the server's time each, want a third of a second", got)
	}
	if ran < 9 || runtime.GOMAXPROCS(0) != processors {
		t.Errorf("%d runs on %d processors afterwards, want at least 9 on %d", ran, runtime.GOMAXPROCS(0), processors)
	}
}

var kept []byte // so that the compiler does not put it on the stack

func TestCompareStops(t *testing.T) { //nolint:paralleltest // a comparison has the process to itself
	plan := harness.Plan{Rounds: 1, Slice: time.Microsecond}
	broken := errors.New("broken")
	nothing := func(int) error { return nil }
	fails := func(int) error { return broken }
	for name, arm := range map[string]harness.Arm{
		"run": {Name: "the arm", Most: 1, Run: fails}, "prepare": {Name: "the arm", Most: 1, Run: nothing, Prepare: fails},
	} {
		if _, err := harness.Compare(t.Context(), plan, []harness.Arm{arm}); !errors.Is(err, broken) || !strings.Contains(err.Error(), "the arm") {
			t.Errorf("%s: the error is %v, want the arm's with its name", name, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := harness.Compare(ended, plan, []harness.Arm{{Name: "a", Most: 1, Run: nothing}}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context Compare returned %v", err)
	}
	if _, err := harness.Compare(t.Context(), plan, nil); err == nil {
		t.Error("Compare without arms returned no error")
	}
}

func TestParallel(t *testing.T) {
	t.Parallel()
	var sum atomic.Int64
	if err := harness.Parallel(7, 100, func(_, i int) error { sum.Add(int64(i)); return nil }); err != nil || sum.Load() != 4950 {
		t.Errorf("0 to 99 add up to %d, with error %v", sum.Load(), err)
	}
	broken := errors.New("broken")
	if err := harness.Parallel(3, 100, func(worker, _ int) error {
		if worker == 1 {
			return broken
		}
		return nil
	}); !errors.Is(err, broken) {
		t.Errorf("a worker's error came back as %v", err)
	}
}

func TestTimed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		arm := harness.Timed("waits", 2, func(i int) error {
			time.Sleep(time.Duration(i) * time.Second) //nolint:forbidigo // in virtual time
			if i == 3 {
				return broken
			}
			return nil
		})
		if err := arm.Run(4); !errors.Is(err, broken) {
			t.Errorf("the error is %v", err)
		}
		testkit.EqualSlices(t, arm.Took(), []float64{0, 1e9, 2e9, 3e9}, "work of 0 to 3 seconds took")
	})
}

func TestHistogram(t *testing.T) {
	t.Parallel()
	var latencies []float64
	for i := range 10_000 {
		latencies = append(latencies, float64(1000+i))
	}
	halves := harness.HistogramOf(latencies[:5000])
	halves.Add(harness.HistogramOf(latencies[5000:]))
	for _, q := range []float64{0.01, 0.5, 0.99, 1} {
		if got, want := halves.Quantile(q), harness.Quantile(latencies, q); !near(got, want, want/100) {
			t.Errorf("the quantile %v of pooled latencies is %v, want %v within 1 %%", q, got, want)
		}
	}
	if got := harness.HistogramOf(nil).Quantile(0.5); !math.IsNaN(got) {
		t.Errorf("the median of no latencies is %v, want NaN", got)
	}
}

// One stall in a hundred rounds is most of that round, and little of all of them.
func TestPooledRatio(t *testing.T) {
	t.Parallel()
	samples := make(map[string][]harness.Cost)
	for round := range 100 {
		for arm, latency := range map[string]float64{"bare": 1000, "ours": 1500, harness.ControlArm: 1000} {
			latencies := slices.Repeat([]float64{latency}, 100)
			if round == 0 && arm == "bare" {
				latencies = slices.Repeat([]float64{1e6}, 90)
			}
			samples[arm] = append(samples[arm], harness.Cost{Latencies: harness.HistogramOf(latencies)})
		}
	}
	c := harness.NewComparison("bare", samples)
	got := c.PooledRatio(0.9, "ours", "bare")
	if !near(got.Median, 1.5, 0.03) || !near(got.Low, 1.5, 0.03) || !near(got.High, 1.5, 0.03) {
		t.Errorf("the pooled ratio is %+v, want 1.5 within 2 %%", got)
	}
	if low := c.PooledRatio(0.995, "ours", "bare").Low; low > 0.01 {
		t.Errorf("the interval ends at %v, and many draws have the stall in their last half percent", low)
	}
	if got := c.Pooled("bare").Quantile(1); !near(got, 1e6, 1e4) {
		t.Errorf("the longest latency is %v, want that of the stall", got)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
