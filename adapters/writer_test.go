package adapters_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
)

// An invalid status is a bug in the handler, and panics as without a guard.
func TestInvalidStatusPanics(t *testing.T) {
	t.Parallel()
	for _, status := range []int{99, 1000, 12345} {
		onCase(t, fmt.Sprint(status), everyRouter, func(t *testing.T, m mounting) {
			r := program{handler: then(answering(status), write("hello"))}
			_, bare := (&service{Handler: m.bare(r), TB: t}).try(payment("k"))
			s := m.start(t, r)
			_, guarded := s.try(payment("k"))
			if guarded == nil || fmt.Sprint(guarded) != fmt.Sprint(bare) {
				t.Errorf("panicked with %v, want %v", guarded, bare)
			}
			s.runsAgain(payment("k"))
		})
	}
}

// A handler that writes after its return gets an error and does no harm.
func TestWritesAfterReturn(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		handler http.HandlerFunc
	}{
		{"buffered", created},
		{"streamed", then(created, flush)},
		{"empty", answering(http.StatusNoContent)},
		{"freed", answering(http.StatusServiceUnavailable)},
	} {
		onCase(t, row.name, everyRouter, func(t *testing.T, m mounting) {
			var kept http.ResponseWriter
			s := m.start(t, program{handler: func(w http.ResponseWriter, r *http.Request) {
				row.handler(w, r)
				kept = w
			}})
			first := s.do(payment("k"))
			want := first.Body.String()

			kept.Header().Set("X-Late", "yes")
			kept.WriteHeader(http.StatusTeapot)
			if n, err := kept.Write([]byte("late")); n != 0 || err == nil {
				t.Errorf("Write returned %d, %v: want an error", n, err)
			}
			if n, err := kept.(interface{ WriteString(s string) (int, error) }).WriteString("late"); n != 0 || err == nil {
				t.Errorf("WriteString returned %d, %v: want an error", n, err)
			}
			kept.(http.Flusher).Flush()
			if _, _, err := http.NewResponseController(kept).Hijack(); err == nil {
				t.Error("Hijack succeeded")
			}

			if first.Body.String() != want || first.Header().Get("X-Late") != "" {
				t.Errorf("the response became %q %v", first.Body, first.Header())
			}
			if retry := s.do(payment("k")); strings.Contains(retry.Body.String(), "late") || retry.Header().Get("X-Late") != "" {
				t.Errorf("the retry got %q %v", retry.Body, retry.Header())
			}
		})
	}
}

// Goroutines of the handler still write when the handler returns. The race detector is the
// judge. gin's writer is not safe for this, with or without a guard.
func TestConcurrentWrites(t *testing.T) {
	t.Parallel()
	const writers, lines = 8, 50
	for _, row := range []struct {
		name  string
		waits bool
	}{{"all done", true}, {"some left behind", false}} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			test := func(t *testing.T, m mounting) {
				var left sync.WaitGroup
				s := m.start(t, program{handler: func(w http.ResponseWriter, _ *http.Request) {
					for i := range writers {
						left.Go(func() {
							for range lines {
								fmt.Fprintf(w, "%d\n", i)
							}
						})
					}
					if row.waits {
						left.Wait()
					}
				}})
				first := s.do(payment("k"))
				body := first.Body.String()
				left.Wait()
				if row.waits && len(body) != writers*lines*2 {
					t.Errorf("%d bytes were sent, want %d", len(body), writers*lines*2)
				}
				if first.Body.String() != body || s.replays(payment("k")).Body.String() != body {
					t.Error("a later write changed the response")
				}
			}
			onRouters(t, "net_http", test)
			onRouters(t, "chi/", test)
		})
	}
}

// With an outer writer that cannot flush, a response cannot stream, so it is stored and
// replayed.
func TestFlushThatIsNotSupported(t *testing.T) {
	t.Parallel()
	plain := middleware{std: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(struct{ http.ResponseWriter }{w}, r)
		})
	}}
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{outside: []middleware{plain}, handler: then(created, flush, write("!"))})
		first := s.do(payment("k"))
		testkit.Equal(t, first.Body.String(), `{"id":17}!`, "the client's body")
		s.replays(payment("k"))
	})
}

// The handler's writer has all methods of a server's writer.
func TestWriterSupports(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{handler: func(w http.ResponseWriter, _ *http.Request) {
			if _, ok := w.(http.Flusher); !ok {
				t.Error("no http.Flusher")
			}
			if _, ok := w.(http.Hijacker); !ok {
				t.Error("no http.Hijacker")
			}
			if _, ok := w.(interface{ WriteString(s string) (int, error) }); !ok {
				t.Error("no io.StringWriter")
			}
			if _, ok := w.(interface{ Unwrap() http.ResponseWriter }); !ok {
				t.Error("no Unwrap")
			}
		}})
		s.gets(s.do(payment("k")), http.StatusOK)
	})
}
