package idemotel_test

import (
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/oncekey/oncekey/internal/testkit/golden"
)

// Dashboards use metrics with their kinds, units and attributes: each of a released version stays.
func TestGoldenMetrics(t *testing.T) {
	t.Parallel()
	s := newEverything(t)
	var today []string
	for name, metric := range s.collect() {
		kind, sets := pointsOf(metric.Data)
		name += " " + kind + " " + metric.Unit
		today = append(today, name)
		for _, set := range sets {
			for _, one := range set.ToSlice() {
				today = append(today, name+" by "+string(one.Key))
			}
		}
	}
	golden.Names(t, "metrics.jsonl", today)
}

// pointsOf returns the kind of a metric, and the attributes of its points.
func pointsOf(data metricdata.Aggregation) (kind string, sets []attribute.Set) {
	switch data := data.(type) {
	case metricdata.Sum[int64]:
		for _, point := range data.DataPoints {
			sets = append(sets, point.Attributes)
		}
		return map[bool]string{true: "counter", false: "up-down counter"}[data.IsMonotonic], sets
	case metricdata.Gauge[float64]:
		for _, point := range data.DataPoints {
			sets = append(sets, point.Attributes)
		}
		return "gauge", sets
	case metricdata.Histogram[float64]:
		for _, point := range data.DataPoints {
			sets = append(sets, point.Attributes)
		}
		return "histogram", sets
	}
	return "other", nil
}
