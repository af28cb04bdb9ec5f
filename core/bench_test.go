package core_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// payment300 is a body of 300 bytes, for the request and for the response.
var (
	payment300 = fmt.Sprintf(`{"order_id":"o-1","amount":100,"currency":"EUR","note":%q}`, strings.Repeat("n", 300-60))
	answer300  = []byte(strings.Repeat("a", 300))
)

// discard is a minimal response writer.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }

func bareHandler(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(answer300)
}

// exchange sends one request after another to a handler, and allocates only the
// request's body reader.
type exchange struct {
	handler http.Handler
	request *http.Request
	writer  discard
	body    bytes.Reader
}

func newExchange(tb testing.TB, handler http.Handler) *exchange {
	tb.Helper()
	e := &exchange{handler: handler, writer: discard{make(http.Header)}}
	e.request = newPost(tb.Context(), "k", payment300)
	return e
}

func (e *exchange) send(key string) {
	clear(e.writer.header)
	e.body.Reset([]byte(payment300))
	e.request.Body = io.NopCloser(&e.body)
	e.request.Header[core.KeyHeader][0] = key
	e.handler.ServeHTTP(&e.writer, e.request)
}

func guarded(tb testing.TB, opts ...policy.Option) http.Handler {
	tb.Helper()
	engine, err := core.New(memstore.New(), core.ScopeBy(bearer), core.WithObserver(discarded{}))
	testkit.Must(tb, err)
	return engine.Handler(http.HandlerFunc(bareHandler), opts...)
}

// discarded is an observer that drops events: the default one writes a line for each run.
type discarded struct{}

func (discarded) Observe(context.Context, event.Event) {}

// keys are made outside of the measured part.
func keys(n int) func() string {
	made := make([]string, n)
	for i := range made {
		made[i] = fmt.Sprintf("key-%d", i)
	}
	next := 0
	return func() string {
		next = (next + 1) % n
		return made[next]
	}
}

// A guard adds a bounded number of allocations to the bare handler.
func TestAllocations(t *testing.T) { //nolint:paralleltest // others would allocate in between
	testkit.NeedsNoRaceDetector(t)
	const runs = 20_000 // enough to make the store's growth negligible
	bare := newExchange(t, http.HandlerFunc(bareHandler))
	base := testing.AllocsPerRun(runs, func() { bare.send("k") })

	replay := newExchange(t, guarded(t))
	replayed := testing.AllocsPerRun(runs, func() { replay.send("k") })
	if replayed-base > 3 {
		t.Errorf("a replay adds %v allocations to the %v of the bare handler, want at most 3", replayed-base, base)
	}
	const most = 830 // 816, of which the record has 384 and the identity 352; a collection empties pools
	if got := bytesPerRun(runs, func() { replay.send("k") }) - bytesPerRun(runs, func() { bare.send("k") }); got > most {
		t.Errorf("a replay allocates %d bytes above the bare handler's, want at most %d", got, most)
	}

	first := newExchange(t, guarded(t))
	next := keys(2 * runs)
	ran := testing.AllocsPerRun(runs, func() { first.send(next()) })
	if ran-base > 4 {
		t.Errorf("a first-time request adds %v allocations to the %v of the bare handler, want at most 4", ran-base, base)
	}
	t.Logf("bare %v, replay +%v, first-time +%v", base, replayed-base, ran-base)
}

// bytesPerRun is testing.AllocsPerRun for bytes.
func bytesPerRun(runs int, f func()) int64 {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	f()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc-before.TotalAlloc) / int64(runs)
}

// BenchmarkGuard measures the bare handler, a replay and a first-time request in
// turn within one run, and reports each one's ratio to the bare handler.
func BenchmarkGuard(b *testing.B) {
	bare := newExchange(b, http.HandlerFunc(bareHandler))
	var base float64
	b.Run("bare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			bare.send("k")
		}
		base = float64(b.Elapsed().Nanoseconds()) / float64(b.N)
	})
	b.Run("replay", func(b *testing.B) {
		replay := newExchange(b, guarded(b))
		replay.send("k")
		b.ReportAllocs()
		for b.Loop() {
			replay.send("k")
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/base, "x-bare")
	})
	b.Run("first-time", func(b *testing.B) {
		first := newExchange(b, guarded(b))
		next := keys(1 << 19)
		b.ReportAllocs()
		b.ResetTimer()
		for range b.N {
			first.send(next())
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/base, "x-bare")
	})
}
