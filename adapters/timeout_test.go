package adapters_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

const timeLimit = 5 * time.Millisecond

// limitedWriter is the writer of a time-out middleware. It buffers the response and drops a
// late response.
type limitedWriter struct {
	gin.ResponseWriter
	mu     sync.Mutex
	header http.Header
	status int
	body   bytes.Buffer
	late   bool
}

func (w *limitedWriter) Header() http.Header {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.header
}

func (w *limitedWriter) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.late {
		w.status = status
	}
}

func (w *limitedWriter) WriteHeaderNow() {}

func (w *limitedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.late {
		return len(p), nil
	}
	return w.body.Write(p)
}

func (w *limitedWriter) WriteString(s string) (int, error) { return w.Write([]byte(s)) } //nolint:gocritic // it is the WriteString

// inTime runs a handler on another goroutine, and responds with 408 when its time
// is over, as gin-contrib/timeout v1.1.0 does. gin then reuses the context.
func inTime(next gin.HandlerFunc) gin.HandlerFunc {
	return func(c *gin.Context) {
		outer := c.Writer
		own := &limitedWriter{ResponseWriter: outer, header: make(http.Header), status: http.StatusOK}
		c.Writer = own
		done := make(chan struct{})
		go func() {
			defer close(done)
			next(c)
		}()
		select {
		case <-done:
			c.Writer = outer
			maps.Copy(outer.Header(), own.header)
			outer.WriteHeader(own.status)
			_, _ = outer.Write(own.body.Bytes())
		case <-time.After(timeLimit):
			own.mu.Lock()
			own.late = true
			own.mu.Unlock()
			http.Error(outer, "time-out", http.StatusRequestTimeout)
			c.AbortWithStatus(http.StatusRequestTimeout)
		}
	}
}

// limitings mount such a middleware outside a guarded handler.
func limitings(handler gin.HandlerFunc) map[string]func(*idemgin.Guard, *gin.Engine) {
	all := map[string]func(*idemgin.Guard, *gin.Engine){
		"around the handler": func(g *idemgin.Guard, e *gin.Engine) { e.POST("/payments", inTime(g.Handle(handler))) },
	}
	if !testkit.RaceDetector { // gin's own Next reads the context that gin reuses
		all["in the chain"] = func(g *idemgin.Guard, e *gin.Engine) {
			pause := func(*gin.Context) { time.Sleep(3 * time.Millisecond) } //nolint:forbidigo // in a bubble
			e.POST("/payments", pause, inTime((*gin.Context).Next), g.Handle(handler))
		}
	}
	return all
}

// Case 69: time-outs outside the guard are safe, on a context that gin reuses. Each
// operation takes effect once, and gets its own response.
func TestTimeoutOutsideOnASharedContext(t *testing.T) {
	t.Parallel()
	const operations = 60
	var effects [operations]atomic.Int64
	handler := func(c *gin.Context) {
		var n int
		if _, err := fmt.Sscanf(c.GetHeader(core.KeyHeader), "k%d", &n); err != nil {
			t.Error(err)
			return
		}
		c.Header("X-Operation", c.GetHeader(core.KeyHeader))
		time.Sleep(time.Duration(n%10) * time.Millisecond) //nolint:forbidigo // in a bubble; the limit is 5
		effects[n].Add(1)
		c.Set("operation", n)
		c.String(http.StatusCreated, "operation %d", c.GetInt("operation"))
	}
	for name, mount := range limitings(handler) {
		t.Run(name, func(t *testing.T) {
			for n := range operations {
				effects[n].Store(0)
			}
			synctest.Test(t, func(t *testing.T) {
				s := startGin(t, mount)
				s.do(payment("k6")) // is late, and ends while the next request has its context
				s.gets(s.do(payment("k3")), http.StatusCreated)
				var late atomic.Int64
				testkit.Concurrently(operations, func(n int) { late.Add(s.finishes(n)) })
				for n := range operations {
					testkit.Equal(t, effects[n].Load(), 1, "effects of operation %d", n)
				}
				if late.Load() < operations/5 {
					t.Errorf("%d requests were too late: the test has no effect", late.Load())
				}
			})
		})
	}
}

// Case 69: chi reuses its context too, when http.TimeoutHandler is a middleware of
// the router. The guard does not read the context later.
func TestTimeoutHandlerInsideOfChi(t *testing.T) {
	t.Parallel()
	if testkit.RaceDetector {
		t.Skip("the race detector sees that chi reads the context that it reuses")
	}
	const operations = 20
	testkit.EachInBubble(t, map[string]func(chi.Router, *idemchi.Guard, http.HandlerFunc){
		"Policy": func(r chi.Router, g *idemchi.Guard, handler http.HandlerFunc) {
			r.With(g.Policy()).Post("/payments", handler)
		},
		"Handle": func(r chi.Router, g *idemchi.Guard, handler http.HandlerFunc) {
			r.Route("/", func(r chi.Router) { r.Post("/payments", g.Handle(handler)) })
		},
	}, func(t *testing.T, declare func(chi.Router, *idemchi.Guard, http.HandlerFunc)) {
		s := startDeclared(t, func(e *core.Engine, handler http.HandlerFunc) http.Handler {
			r := chi.NewRouter()
			r.Use(func(next http.Handler) http.Handler { return http.TimeoutHandler(next, timeLimit, "time-out") })
			r.Post("/other", created)
			declare(r, idemchi.New(e), func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(2 * timeLimit) //nolint:forbidigo // in a bubble
				handler(w, r)
			})
			return r
		})
		testkit.Concurrently(operations, func(n int) {
			time.Sleep(time.Duration(n) * time.Millisecond) //nolint:forbidigo // in a bubble
			s.do(payment(fmt.Sprintf("k%d", n)))
			s.do(post("/other", "k", amount))
		})
		time.Sleep(2 * timeLimit) //nolint:forbidigo // in a bubble
		s.ran(operations)
		for _, event := range s.events.of(event.Completed) {
			testkit.Equal(t, event.route, "/payments", "an event is of the route")
		}
		for n := range operations {
			s.replays(payment(fmt.Sprintf("k%d", n)))
		}
	})
}

// finishes sends operation n until it succeeds, and once more. It returns the number of late
// responses.
func (s *service) finishes(n int) (late int64) {
	key := fmt.Sprintf("k%d", n)
	for range 50 {
		switch answer := s.do(payment(key)); answer.Code {
		case http.StatusCreated:
			for _, answer := range []*httptest.ResponseRecorder{answer, s.do(payment(key))} {
				if got := answer.Header().Get("X-Operation"); answer.Body.String() != fmt.Sprintf("operation %d", n) || got != key {
					s.Errorf("operation %d got %d %q of %s", n, answer.Code, answer.Body, got)
				}
			}
			return late
		case http.StatusRequestTimeout:
			late++
		case http.StatusConflict:
		default:
			s.Errorf("operation %d got %d %q", n, answer.Code, answer.Body)
			return late
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // in a bubble
	}
	s.Errorf("operation %d did not finish", n)
	return late
}

// refusedLimitings cannot be made safe: the guarded handlers use the context that
// gin reuses, or gin's own writer.
var refusedLimitings = map[string]func(*testing.T, *idemgin.Guard, *gin.Engine, gin.HandlerFunc){
	"Policy": func(_ *testing.T, g *idemgin.Guard, e *gin.Engine, handler gin.HandlerFunc) {
		e.POST("/payments", inTime((*gin.Context).Next), g.Policy(), handler)
	},
	"Table": func(t *testing.T, g *idemgin.Guard, e *gin.Engine, handler gin.HandlerFunc) {
		t.Helper()
		e.Use(inTime((*gin.Context).Next), g.Table(tableOf(t, policy.Row("POST /payments"))))
		e.POST("/payments", handler)
	},
	"Handle with a handler after it": func(_ *testing.T, g *idemgin.Guard, e *gin.Engine, handler gin.HandlerFunc) {
		e.POST("/payments", inTime((*gin.Context).Next), g.Handle(handler), handler)
	},
	"gin's own writer": func(_ *testing.T, g *idemgin.Guard, e *gin.Engine, handler gin.HandlerFunc) {
		guarded := g.Handle(handler)
		e.POST("/payments", func(c *gin.Context) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				guarded(c)
			}()
			<-done
		})
	},
}

// Case 69: an unsafe setup is refused before the handler runs, and the refusal names the
// right setup.
func TestTimeoutOutsideIsRefused(t *testing.T) {
	t.Parallel()
	testkit.Each(t, refusedLimitings, func(t *testing.T, mount func(*testing.T, *idemgin.Guard, *gin.Engine, gin.HandlerFunc)) {
		synctest.Test(t, func(t *testing.T) { // no time passes
			s := startPlaced(t, func(g *idemgin.Guard, e *gin.Engine, pay gin.HandlerFunc) { mount(t, g, e, pay) })
			answer := s.do(payment("k"))
			p := problemIn(t, answer)
			if answer.Code != http.StatusInternalServerError || p.Code != problem.WrongSetup ||
				!strings.Contains(p.Error, "policy.MaxRun") || !strings.Contains(p.Error, "http.TimeoutHandler") {
				t.Errorf("got %d %q", answer.Code, answer.Body)
			}
			s.ran(0)
			s.claimed(0)
			s.reported(event.WrongSetup, 1)
		})
	})
}

// Case 69: an observing policy lets the handler run, and reports why it cannot observe the
// run.
func TestTimeoutOutsideOfAnObserver(t *testing.T) {
	t.Parallel()
	observe := policy.ObserveOnly(true)
	testkit.EachInBubble(t, map[string]func(*idemgin.Guard, *gin.Engine, gin.HandlerFunc){
		"Policy": func(g *idemgin.Guard, e *gin.Engine, pay gin.HandlerFunc) {
			e.POST("/payments", inTime((*gin.Context).Next), g.Policy(observe), pay)
		},
		"Handle with a handler after it": func(g *idemgin.Guard, e *gin.Engine, pay gin.HandlerFunc) {
			e.POST("/payments", inTime((*gin.Context).Next), g.Handle(pay, observe), func(*gin.Context) {})
		},
	}, func(t *testing.T, mount func(*idemgin.Guard, *gin.Engine, gin.HandlerFunc)) {
		s := startPlaced(t, mount)
		s.gets(s.do(payment("k")), http.StatusCreated)
		s.reported(event.WrongSetup, 1)
		s.ran(1)
	})
}

// Case 69: a handler that a test calls by itself, with a context of no engine, is
// guarded.
func TestGinContextOfNoEngine(t *testing.T) {
	t.Parallel()
	s := startDeclared(t, func(e *core.Engine, handler http.HandlerFunc) http.Handler {
		guarded := idemgin.New(e).Handle(gin.WrapF(handler))
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c, _ := gin.CreateTestContext(w)
			c.Request = r
			guarded(c)
		})
	})
	s.runsAgain(payment("k"))
	s.replays(payment("k"))
}
