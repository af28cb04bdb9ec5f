package harness

import (
	"math"
	"math/rand/v2"
	"slices"
)

// resamples of a bootstrap: enough for the interval's second digit.
const resamples = 2000

// Estimate is a median with its 95 % bootstrap interval.
type Estimate struct{ Median, Low, High float64 }

// EstimateOf returns the median of at least one figure, with its interval. It draws
// samples of the same size with replacement, many times. The middle 95 % of the samples'
// medians are the interval (the percentile bootstrap). Equal figures always have an equal
// interval.
func EstimateOf(figures []float64) Estimate {
	drawn := make([]float64, len(figures))
	return bootstrap(Median(figures), len(figures), func(draw func() int) float64 {
		for i := range drawn {
			drawn[i] = figures[draw()]
		}
		slices.Sort(drawn)
		return quantile(drawn, 0.5)
	})
}

// bootstrap adds the interval to a figure of n samples: the middle 95 % of the same figure of
// many draws. The function figure calls draw n times for the place of a sample.
func bootstrap(median float64, n int, figure func(draw func() int) float64) Estimate {
	random := rand.New(rand.NewPCG(1, uint64(n))) //nolint:gosec // a sample, not a secret
	figures := make([]float64, resamples)
	for i := range figures {
		figures[i] = figure(func() int { return random.IntN(n) })
	}
	slices.Sort(figures)
	return Estimate{Median: median, Low: quantile(figures, 0.025), High: quantile(figures, 0.975)}
}

// Median returns the middle figure. For an even number of figures it is the mean of the
// two in the middle. It is NaN for no figures.
func Median(figures []float64) float64 { return Quantile(figures, 0.5) }

// Quantile returns the figure that the share q of the figures does not exceed, with linear
// interpolation. It is NaN for no figures.
func Quantile(figures []float64, q float64) float64 {
	if len(figures) == 0 {
		return math.NaN()
	}
	return quantile(slices.Sorted(slices.Values(figures)), q)
}

// quantile is Quantile for sorted figures.
func quantile(sorted []float64, q float64) float64 {
	position := q * float64(len(sorted)-1)
	below := int(position)
	if below == len(sorted)-1 {
		return sorted[below]
	}
	share := position - float64(below)
	return sorted[below]*(1-share) + sorted[below+1]*share
}
