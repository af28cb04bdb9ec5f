package core

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/felixge/httpsnoop"

	"github.com/oncekey/oncekey/core/internal/wire"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// discardWriter is a connection without cost.
type discardWriter struct{ header http.Header }

func (w *discardWriter) Header() http.Header         { return w.header }
func (w *discardWriter) WriteHeader(int)             {}
func (w *discardWriter) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkCapture measures, in turn within one run, a handler alone, behind
// httpsnoop.CaptureMetrics, by which most middleware observes a response, and behind
// the capture, which buffers the whole response and sends it afterwards. The result
// is the capture's overhead divided by the overhead of CaptureMetrics: the median of
// the slices' ratios. The middleware of a real service has set a dozen fields before.
func BenchmarkCapture(b *testing.B) {
	b.Run("no outer header", func(b *testing.B) { benchmarkCapture(b, nil) })
	b.Run("twelve outer headers", func(b *testing.B) {
		outer := make(http.Header)
		for _, name := range []string{
			"Access-Control-Allow-Origin", "Cache-Control", "Content-Security-Policy", "Permissions-Policy", "Referrer-Policy", "Server",
			"Strict-Transport-Security", "Vary", "X-Content-Type-Options", "X-Frame-Options", "X-Ratelimit-Remaining", "X-Request-Id",
		} {
			outer.Set(name, "the value of "+name)
		}
		benchmarkCapture(b, outer)
	})
}

func benchmarkCapture(b *testing.B, outer http.Header) {
	b.Helper()
	body := make([]byte, 300)
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body)
	})
	engine, err := New(struct{ storage.Store }{}, SharedScope) // the store is never called
	testkit.Must(b, err)
	r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/", http.NoBody)
	run := new(execution)
	run.run.identity = &identity{shared: &engine.shared, route: engine.defaults}
	var captured capture
	arms := []func(w http.ResponseWriter){
		func(w http.ResponseWriter) { handler.ServeHTTP(w, r) },
		func(w http.ResponseWriter) { httpsnoop.CaptureMetrics(handler, w, r) },
		func(w http.ResponseWriter) {
			captured = capture{}
			captured.begin(w, r, run, &engine.responder, engine.defaults.policy.MaxResponseBytes, run.small[:0])
			handler.ServeHTTP(&captured, r)
			captured.settleHeader(captured.changes)
			wire.WriteResponse(w, captured.status, captured.body)
		},
	}
	w := &discardWriter{header: make(http.Header)}
	reset := func() {
		clear(w.header)
		maps.Copy(w.header, outer)
	}
	const slice = 2000
	var ratios []float64
	for b.Loop() {
		var took [3]time.Duration
		for i, arm := range arms {
			start := time.Now()
			for range slice {
				reset()
				arm(w)
			}
			took[i] = time.Since(start)
		}
		ratios = append(ratios, float64(took[2]-took[0])/float64(took[1]-took[0]))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "x-httpsnoop")
	for i, name := range []string{"bare", "httpsnoop", "capture"} {
		b.ReportMetric(testing.AllocsPerRun(100, func() { reset(); arms[i](w) }), name+"-allocs")
	}
}
