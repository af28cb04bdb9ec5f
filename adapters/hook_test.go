package adapters_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
)

// current is the writer that a framework's context has now: gin's c.Writer, echo's c.Response().
type current struct{ w http.ResponseWriter }

type currentKey struct{}

func currentOf(r *http.Request) *current { return r.Context().Value(currentKey{}).(*current) }

// hooked calls before when the response begins, as echo's Response.Before does.
type hooked struct {
	http.ResponseWriter
	before func()
}

func (w *hooked) begin() {
	before := w.before
	w.before = func() {}
	before()
}

func (w *hooked) WriteHeader(status int) {
	w.begin()
	w.ResponseWriter.WriteHeader(status)
}

func (w *hooked) Write(p []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(p)
}

func (w *hooked) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// ginHooked is hooked, as a writer of gin.
type ginHooked struct {
	gin.ResponseWriter
	hooked *hooked
}

func (w *ginHooked) WriteHeader(status int)            { w.hooked.WriteHeader(status) }
func (w *ginHooked) Write(p []byte) (int, error)       { return w.hooked.Write(p) }
func (w *ginHooked) WriteString(s string) (int, error) { return io.WriteString(w.hooked, s) }

// hooking is middleware that calls before with the current writer when the response begins.
func hooking(before func(now http.ResponseWriter)) middleware {
	return middleware{
		std: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				now := &current{w}
				next.ServeHTTP(&hooked{w, func() { before(now.w) }}, r.WithContext(context.WithValue(r.Context(), currentKey{}, now)))
			})
		},
		gin: func(c *gin.Context) {
			now := &current{c.Writer}
			c.Request = c.Request.WithContext(context.WithValue(c.Request.Context(), currentKey{}, now))
			c.Writer = &ginHooked{c.Writer, &hooked{c.Writer, func() { before(now.w) }}}
			c.Next()
		},
	}
}

// Case 26: middleware outside sets a header when the response begins, by the writer of the guard.
// The guard is in the middle of sending then, and must not wait for itself.
func TestHeaderSetWhenTheResponseBegins(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"kept": created,
		"without a body": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
		},
		"released": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "try again", http.StatusServiceUnavailable)
		},
		"flushed": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "first")
			_ = http.NewResponseController(w).Flush()
			io.WriteString(w, "second")
		},
		"too large": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, strings.Repeat("x", 2<<20))
		},
		"informational": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusCreated)
		},
	} {
		onCase(t, name, everyRouter, func(t *testing.T, m mounting) {
			s := m.start(t, program{
				outside: []middleware{hooking(func(now http.ResponseWriter) { now.Header().Set("X-Began", "yes") })},
				handler: func(w http.ResponseWriter, r *http.Request) {
					currentOf(r).w = w
					handler(w, r)
				},
			})
			for _, attempt := range []string{"first", "second"} {
				if answer := answered(t, s); answer.Result().Header.Get("X-Began") != "yes" {
					t.Errorf("the %s response is %d %v, want the header of the middleware", attempt, answer.Code, answer.Result().Header)
				}
			}
		})
	}
}

// A goroutine that the handler has left behind gets no header of a response that is being sent.
func TestHeaderOfAnotherGoroutineWhenTheResponseBegins(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		left := make(chan struct{})
		s := m.start(t, program{
			outside: []middleware{hooking(func(now http.ResponseWriter) {
				now.Header().Set("X-Began", "yes")
				go func() {
					defer close(left)
					now.Header().Set("X-Late", "yes")
				}()
			})},
			handler: func(w http.ResponseWriter, r *http.Request) {
				currentOf(r).w = w
				created(w, r)
			},
		})
		answer := answered(t, s)
		<-left
		if h := answer.Header(); h.Get("X-Began") != "yes" || h.Get("X-Late") != "" {
			t.Errorf("the header is %v", h)
		}
	})
}

// answered is s.do for a response that may never come.
func answered(t *testing.T, s *service) *httptest.ResponseRecorder {
	t.Helper()
	came := make(chan *httptest.ResponseRecorder, 1)
	go func() {
		answer, _ := s.try(payment("k"))
		came <- answer
	}()
	select {
	case answer := <-came:
		return answer
	case <-time.After(10 * time.Second):
		t.Fatal("no response within 10 s: the guard waits for itself")
		return nil
	}
}
