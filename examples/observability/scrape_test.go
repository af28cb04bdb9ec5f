package main

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// exported is the result of a scrape: the label names of each metric's samples, and the
// values of each label over all metrics.
type exported map[string]map[string][]string

var (
	sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$`)
	labelPair  = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)=("(?:[^"\\]|\\.)*")`)
)

// scrape reads /metrics like Prometheus.
func scrape(t *testing.T, s *service) exported {
	t.Helper()
	w := httptest.NewRecorder()
	s.mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("GET /metrics: %d %s", w.Code, w.Body)
	}
	all := make(exported)
	for line := range strings.Lines(w.Body.String()) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		sample := sampleLine.FindStringSubmatch(line)
		if sample == nil {
			t.Fatalf("no sample: %s", line)
		}
		labels := all[sample[1]]
		if labels == nil {
			labels = make(map[string][]string)
			all[sample[1]] = labels
		}
		for _, pair := range labelPair.FindAllStringSubmatch(sample[2], -1) {
			value, err := strconv.Unquote(pair[2])
			if err != nil {
				t.Fatalf("%v in %s", err, line)
			}
			if !slices.Contains(labels[pair[1]], value) {
				labels[pair[1]] = append(labels[pair[1]], value)
			}
		}
	}
	return all
}

// families are the idempotency metrics. The three metrics of a histogram are one family.
func (e exported) families() (all []string) {
	for name := range e {
		if !strings.HasPrefix(name, "idempotency_") {
			continue
		}
		if family := familyOf(name); !slices.Contains(all, family) {
			all = append(all, family)
		}
	}
	return all
}

func familyOf(name string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, is := strings.CutSuffix(name, suffix); is {
			return base
		}
	}
	return name
}
