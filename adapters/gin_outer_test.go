package adapters_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"

	idemchi "github.com/oncekey/oncekey/adapters/chi"
	idemgin "github.com/oncekey/oncekey/adapters/gin"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
)

// gzipped compresses every response that has a body, as gzhttp and gin-contrib/gzip do.
type gzipped struct {
	http.ResponseWriter
	to *gzip.Writer
}

func (w *gzipped) Write(p []byte) (int, error) { return w.to.Write(p) }
func (w *gzipped) WriteHeader(status int) {
	w.Header().Del("Content-Length")
	w.ResponseWriter.WriteHeader(status)
}

// ginGzipped leaves errors plain, as gin-contrib/gzip does.
type ginGzipped struct {
	gin.ResponseWriter
	to *gzip.Writer
}

func (w *ginGzipped) Write(p []byte) (int, error) {
	if w.Status() >= http.StatusBadRequest {
		w.Header().Del("Content-Encoding")
		return w.ResponseWriter.Write(p)
	}
	return w.to.Write(p)
}
func (w *ginGzipped) WriteString(s string) (int, error) { return w.Write([]byte(s)) } //nolint:gocritic // it is the WriteString
func (w *ginGzipped) WriteHeader(status int) {
	w.Header().Del("Content-Length")
	w.ResponseWriter.WriteHeader(status)
}

// buffered keeps the response of gin, to add a header that depends on it.
type buffered struct {
	gin.ResponseWriter
	body bytes.Buffer
}

func (w *buffered) Write(p []byte) (int, error)       { return w.body.Write(p) }
func (w *buffered) WriteString(s string) (int, error) { return w.body.WriteString(s) }

func tagOf(body []byte) string { return fmt.Sprintf("%x", sha256.Sum256(body))[:16] }

// rewriting are middlewares that change how a response is sent, with a function
// that reads it as a client does.
var rewriting = map[string]struct {
	middleware middleware
	read       func(*testing.T, *httptest.ResponseRecorder) string
}{
	"gzip": {
		middleware: middleware{
			std: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Encoding", "gzip")
					to := gzip.NewWriter(w)
					defer to.Close()
					next.ServeHTTP(&gzipped{w, to}, r)
				})
			},
			gin: func(c *gin.Context) {
				c.Header("Content-Encoding", "gzip")
				to := gzip.NewWriter(c.Writer)
				c.Writer = &ginGzipped{c.Writer, to}
				c.Next()
				if c.Writer.Status() >= http.StatusBadRequest {
					c.Writer.Header().Del("Content-Encoding")
					return
				}
				to.Close()
			},
		},
		read: func(t *testing.T, answer *httptest.ResponseRecorder) string {
			t.Helper()
			return readable(t, answer, "gzip")
		},
	},
	"ETag": {
		middleware: middleware{
			std: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					seen := httptest.NewRecorder()
					next.ServeHTTP(seen, r)
					maps.Copy(w.Header(), seen.Header())
					w.Header().Set("Etag", tagOf(seen.Body.Bytes()))
					w.WriteHeader(seen.Code)
					_, _ = w.Write(seen.Body.Bytes())
				})
			},
			gin: func(c *gin.Context) {
				own := &buffered{ResponseWriter: c.Writer}
				c.Writer = own
				c.Next()
				c.Writer = own.ResponseWriter
				c.Header("Etag", tagOf(own.body.Bytes()))
				_, _ = c.Writer.Write(own.body.Bytes())
			},
		},
		read: func(t *testing.T, answer *httptest.ResponseRecorder) string {
			t.Helper()
			testkit.Equal(t, answer.Result().Header.Get("Etag"), tagOf(answer.Body.Bytes()), "got %d with the tag", answer.Code)
			return answer.Body.String()
		},
	},
}

// Case 51: responses stay readable and equal behind middleware that compresses or
// buffers them.
func TestResponsesBehindRewritingMiddleware(t *testing.T) {
	t.Parallel()
	for name, outside := range rewriting {
		onCase(t, name, everyRouter, func(t *testing.T, m mounting) {
			status := func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Has("none") {
					w.WriteHeader(http.StatusConflict)
					return
				}
				created(w, r)
			}
			s := m.start(t, program{outside: []middleware{outside.middleware}, handler: status})
			for _, row := range []struct {
				request *http.Request
				status  int
				body    string
			}{
				{payment("k"), 201, `{"id":17}`},
				{payment("k"), 201, `{"id":17}`},
				{post("/payments", "k", "{}"), 422, `"code":"key_reused"`},
				{payment(""), 400, `"code":"key_invalid"`},
				{post("/payments?none", "k2", amount), 409, ""},
				{post("/payments?none", "k2", amount), 409, ""},
			} {
				answer := s.do(row.request)
				if body := outside.read(t, answer); answer.Code != row.status || !strings.Contains(body, row.body) {
					t.Errorf("got %d %q, want %d with %q", answer.Code, body, row.status, row.body)
				}
			}
			s.ran(2)
		})
	}
}

// guardedWhole are routers with a policy on all of them.
var guardedWhole = map[string]declaring{
	"net_http": func(e *core.Engine, handler http.HandlerFunc) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("POST /payments", handler)
		return e.Handler(mux)
	},
	"chi": func(e *core.Engine, handler http.HandlerFunc) http.Handler {
		r := chi.NewRouter()
		r.Use(idemchi.New(e).Policy())
		r.Post("/payments", handler)
		return r
	},
	"gin": func(e *core.Engine, handler http.HandlerFunc) http.Handler {
		r := gin.New()
		r.HandleMethodNotAllowed = true
		r.Use(idemgin.New(e).Policy())
		r.POST("/payments", gin.WrapF(handler))
		return r
	},
	"gin with middleware inside": func(e *core.Engine, handler http.HandlerFunc) http.Handler {
		r := gin.New()
		r.HandleMethodNotAllowed = true
		r.Use(idemgin.New(e).Policy(), func(*gin.Context) {})
		r.POST("/payments", gin.WrapF(handler))
		return r
	},
}

// Case 52: with a policy on the whole router, unknown paths and methods stay
// unknown.
func TestGuardOnAWholeRouter(t *testing.T) {
	t.Parallel()
	onPrograms(t, guardedWhole, func(t *testing.T, s *service) {
		for range 2 {
			if answer := s.do(post("/nowhere", "k", amount)); answer.Code != http.StatusNotFound || answer.Body.Len() == 0 {
				t.Errorf("an unknown path got %d %q, want 404", answer.Code, answer.Body)
			}
			answer := s.do(payment("k", with(http.MethodPatch)))
			if answer.Code != http.StatusMethodNotAllowed || !strings.Contains(answer.Header().Get("Allow"), "POST") {
				t.Errorf("an unknown method got %d %v, want 405", answer.Code, answer.Header())
			}
		}
		s.ran(0)
		s.runsAgain(payment("k"))
		s.replays(payment("k"))
	})
}

// Case 52: the same without a key, when only gin itself can respond.
func TestUnknownPathWithoutKeyOnGin(t *testing.T) {
	t.Parallel()
	s := startDeclared(t, guardedWhole["gin"])
	s.gets(s.do(post("/nowhere", "", amount, withoutKey)), http.StatusNotFound)
	s = startGin(t, func(g *idemgin.Guard, e *gin.Engine) {
		e.Use(g.Policy())
		e.NoRoute(func(c *gin.Context) { c.String(http.StatusCreated, "made") })
	})
	s.gets(s.do(post("/nowhere", "", amount, withoutKey)), http.StatusBadRequest)
	s.do(post("/nowhere", "k", amount))
	if answer := s.do(post("/nowhere", "k", amount)); !isReplay(answer) || answer.Code != http.StatusCreated {
		t.Errorf("got %d %v, want a replay", answer.Code, answer.Header())
	}
}

// Case 52: a status that outer middleware has set stays, unless the handler sets
// another.
func TestStatusOfOuterMiddleware(t *testing.T) {
	t.Parallel()
	accepted := middleware{gin: func(c *gin.Context) { c.Status(http.StatusAccepted) }}
	for name, row := range map[string]struct {
		handler gin.HandlerFunc
		want    int
	}{
		"body alone": {func(c *gin.Context) { _, _ = c.Writer.WriteString("hello") }, 202},
		"nothing":    {func(*gin.Context) {}, 202},
		"another":    {func(c *gin.Context) { c.String(201, "hello") }, 201},
		"200":        {func(c *gin.Context) { c.Status(200) }, 200},
	} {
		onCase(t, name, ginRouters, func(t *testing.T, m mounting) {
			s := m.start(t, program{outside: []middleware{accepted}, native: row.handler})
			first, again := s.do(payment("k")), s.replays(payment("k"))
			s.gets(first, row.want)
			s.gets(again, row.want, first.Body.String())
		})
	}
}

// Case 53: a request that the handler hands to another route responds past the
// guard: the key is used up, and the handler does not run twice.
func TestGinHandleContext(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusCreated, http.StatusInternalServerError} {
		var s *service
		s = startGin(t, func(g *idemgin.Guard, e *gin.Engine) {
			e.POST("/inner", func(c *gin.Context) { s.runs.Add(1); c.String(status, "made") })
			e.POST("/payments", g.Policy(), func(c *gin.Context) {
				c.Request.URL.Path = "/inner"
				e.HandleContext(c)
			})
		})
		s.gets(s.do(payment("k")), status, "made")
		if status == http.StatusCreated {
			s.refuses(payment("k"), http.StatusConflict, problem.NotReplayable)
		} else {
			s.runsAgain(payment("k"))
		}
	}
}

// Case 53: a handler may empty gin's list of errors.
func TestGinEmptiedErrors(t *testing.T) {
	t.Parallel()
	before := middleware{gin: func(c *gin.Context) { _ = c.Error(errors.New("seen outside")) }}
	for name, empty := range map[string]func(*gin.Context){
		"nil":   func(c *gin.Context) { c.Errors = nil },
		"empty": func(c *gin.Context) { c.Errors = c.Errors[:0] },
	} {
		onCase(t, name, ginRouters, func(t *testing.T, m mounting) {
			s := m.start(t, program{outside: []middleware{before}, native: func(c *gin.Context) {
				empty(c)
				c.String(http.StatusCreated, "made")
			}})
			s.runsAgain(payment("k"))
			s.replays(payment("k"))
			taken := m.start(t, program{outside: []middleware{before}, native: func(c *gin.Context) {
				empty(c)
				_ = c.Error(failure.Retryable(errors.New("taken")))
				c.String(http.StatusConflict, "taken")
			}})
			taken.runsAgain(payment("k"))
			taken.runsAgain(payment("k"))
		})
	}
}

// Case 53: an error that the handler leaves to outer middleware gets its response
// there, and the key is released. After MarkExecuted the guard responds and stores the
// response.
func TestGinErrorWithAResponseFromOutside(t *testing.T) {
	t.Parallel()
	outside := middleware{gin: func(c *gin.Context) {
		c.Next()
		if err := c.Errors.Last(); err != nil && !c.Writer.Written() {
			c.JSON(http.StatusConflict, gin.H{"error": err.Error()})
		}
	}}
	onRouters(t, ginRouters, func(t *testing.T, m mounting) {
		s := m.start(t, program{outside: []middleware{outside}, native: func(c *gin.Context) {
			c.Header("X-Idempotent-Replay", "true")
			_ = c.Error(errors.New("out of stock"))
		}})
		for range 2 {
			s.gets(s.runsAgain(payment("k")), http.StatusConflict, `{"error":"out of stock"}`)
		}
		done := m.start(t, program{outside: []middleware{outside}, native: func(c *gin.Context) {
			failure.MarkExecuted(c.Request.Context())
			_ = c.Error(errors.New("no receipt"))
		}})
		first, again := done.do(payment("k")), done.replays(payment("k"))
		s.problem(first, http.StatusInternalServerError, problem.HandlerFailed)
		s.gets(again, first.Code, first.Body.String())
	})
}
