package adapters_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"syscall"
	"testing"

	"github.com/gin-gonic/gin"
	chimiddleware "github.com/go-chi/chi/v5/middleware"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// recoverer is the routers' own recovery: gin's on gin, chi's elsewhere.
var recoverer = middleware{std: quiet(chimiddleware.Recoverer), gin: gin.RecoveryWithWriter(io.Discard)}

// apologizing responds to a panic with its own body.
var apologizing = middleware{
	std: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				if recover() != nil {
					w.WriteHeader(http.StatusInternalServerError)
					io.WriteString(w, "sorry\n")
				}
			}()
			next.ServeHTTP(w, r)
		})
	},
	gin: gin.CustomRecoveryWithWriter(io.Discard, func(c *gin.Context, _ any) {
		c.AbortWithStatus(http.StatusInternalServerError)
		c.Writer.WriteString("sorry\n")
	}),
}

// quiet keeps chi's middleware from printing the stack.
func quiet(recoverer func(http.Handler) http.Handler) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		recovering := recoverer(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			recovering.ServeHTTP(w, chimiddleware.WithLogEntry(r, silent{}))
		})
	}
}

// The engine settles a panic and passes the panic on. Middleware outside recovers and
// responds.
func TestPanicRecoveredOutside(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		handler http.HandlerFunc
	}{
		{"at once", panicking},
		{"after 201", then(created, panicking)},
	} {
		onCase(t, row.name, everyRouter, func(t *testing.T, m mounting) {
			s := m.start(t, program{outside: []middleware{recoverer}, handler: row.handler})
			for range 2 {
				answer := s.runsAgain(payment("k"))
				if answer.Code != http.StatusInternalServerError || answer.Body.Len() != 0 || len(answer.Result().Header) != 0 {
					t.Errorf("got %d %q %v, want 500 alone", answer.Code, answer.Body, answer.Header())
				}
			}
		})
	}
}

// gin.Recovery sets no status for a panic that it takes for a broken connection, such as one
// with the reset connection of a provider. The client must not get an empty 200 for a key
// that is released.
func TestPanicWithoutAStatusOfGin(t *testing.T) {
	t.Parallel()
	reset := func(http.ResponseWriter, *http.Request) { panic(fmt.Errorf("charge: %w", syscall.ECONNRESET)) }
	for name, handler := range map[string]http.HandlerFunc{
		"aborting": aborting, "aborting after 201": then(created, aborting), "a reset connection": reset, "a reset connection after 201": then(created, reset),
	} {
		onCase(t, name, ginRouters, func(t *testing.T, m mounting) {
			s := m.start(t, program{outside: []middleware{recoverer}, handler: handler})
			for range 2 {
				s.gets(s.runsAgain(payment("k")), http.StatusInternalServerError)
			}
		})
	}
}

// A partial response is not stored as a whole response: middleware inside recovers, and
// reports 500 after the handler's 201.
func TestPanicRecoveredInside(t *testing.T) {
	t.Parallel()
	type row struct {
		inside middleware
		body   string
	}
	testkit.Each(t, map[string]row{
		"the router's own": {recoverer, ""},
		"with a body":      {apologizing, "sorry\n"},
	}, func(t *testing.T, row row) {
		for name, handler := range map[string]http.HandlerFunc{
			"at once":   panicking,
			"after 201": then(created, panicking),
		} {
			onCase(t, name, everyRouter, func(t *testing.T, m mounting) {
				s := m.start(t, program{inside: []middleware{row.inside}, handler: handler})
				for range 2 {
					answer := s.runsAgain(payment("k"))
					if answer.Code != http.StatusInternalServerError || answer.Body.String() != row.body {
						t.Errorf("got %d %q, want 500 %q", answer.Code, answer.Body, row.body)
					}
					testkit.Equal(t, answer.Header().Get("Location"), "", "the 500 has the header of the 201: %v", answer.Header())
				}
				s.reported(event.DeleteKey, 2)
			})
		}
	})
}

// A policy's classifier gets the panic too.
func TestClassifierLearnsOfARecoveredPanic(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		var outcome failure.Outcome
		classify := policy.Classifier(func(o failure.Outcome) failure.Class {
			outcome = o
			return failure.Classify(o)
		})
		s := m.start(t, program{
			inside: []middleware{recoverer}, handler: then(created, panicking), policy: []policy.Option{classify},
		})
		s.do(payment("k"))
		if !outcome.Panicked || outcome.Status != http.StatusInternalServerError {
			t.Errorf("the outcome is %+v, want a panic and 500", outcome)
		}
	})
}

// Case 39: a classifier that panics is replaced by the default, also where outer middleware
// responds in the handler's place.
func TestPanickingClassifierOfAnErrorAlone(t *testing.T) {
	t.Parallel()
	onRouters(t, ginRouters, func(t *testing.T, m mounting) {
		s := m.start(t, program{
			native: func(c *gin.Context) { _ = c.Error(errors.New("out of stock")) },
			policy: []policy.Option{policy.Classifier(func(failure.Outcome) failure.Class { panic("classifier bug") })},
		})
		for range 2 {
			s.gets(s.do(payment("k")), http.StatusInternalServerError)
		}
		s.ran(2)
		if len(s.events.of(event.CallbackPanicked)) == 0 {
			t.Error("no event reports the panic")
		}
		if left := s.engine.Running(); len(left) > 0 {
			t.Errorf("the runs %+v have not ended", left)
		}
	})
}

// A mark that an error carries counts as well where the handler panics after it: it
// beats the list that has the panic's status.
func TestGinErrorBeforeAPanic(t *testing.T) {
	t.Parallel()
	onRouters(t, ginRouters, func(t *testing.T, m mounting) {
		s := m.start(t, program{
			native: func(c *gin.Context) {
				_ = c.Error(failure.Uncertain(errors.New("the provider's reply was lost")))
				panic("handler bug")
			},
			policy: []policy.Option{policy.OnAbandoned(policy.Refuse), policy.Release("5xx")},
		})
		if _, panicked := s.try(payment("k")); panicked != "handler bug" {
			t.Errorf("got the panic %v", panicked)
		}
		s.refuses(payment("k"), http.StatusConflict, problem.OutcomeUnknown)
		s.ran(1)
	})
}

// A second WriteHeader without a panic has no effect.
func TestSecondStatusWithoutAPanic(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{inside: []middleware{recoverer}, handler: func(w http.ResponseWriter, r *http.Request) {
			defer w.WriteHeader(http.StatusInternalServerError)
			created(w, r)
		}})
		s.do(payment("k"))
		s.gets(s.replays(payment("k")), http.StatusCreated)
	})
}

// A handler reports its panic by a 500 and panics on, and middleware reports it again: the half
// response leaves no header, such as its Content-Length.
func TestPanicReportedTwice(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{inside: []middleware{recoverer}, handler: func(w http.ResponseWriter, _ *http.Request) {
			defer func() {
				v := recover()
				w.WriteHeader(http.StatusInternalServerError)
				panic(v)
			}()
			w.Header().Set("Content-Length", "9")
			w.Header().Set("Etag", "1")
			_, _ = io.WriteString(w, "half")
			panic("after the half")
		}})
		response := s.do(payment("k"))
		s.gets(response, http.StatusInternalServerError)
		testkit.Equal(t, response.Header().Get("Content-Length")+response.Header().Get("Etag"), "", "the header of the half response")
	})
}

// After the point of no return a panic gives a stored 500.
func TestPanicAfterMarkExecuted(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		handler http.HandlerFunc
	}{
		{"at once", then(executed, panicking)},
		{"after 201", then(executed, created, panicking)},
		{"marked after 201", then(created, executed, panicking)},
	} {
		onCase(t, row.name, everyRouter, func(t *testing.T, m mounting) {
			s := m.start(t, program{outside: []middleware{recoverer}, handler: row.handler})
			s.gets(s.do(payment("k")), http.StatusInternalServerError)
			retry := s.replays(payment("k"))
			s.problem(retry, http.StatusInternalServerError, problem.HandlerFailed)
			testkit.Equal(t, retry.Header().Get("Location"), "", "the retry got the header of the 201: %v", retry.Header())
		})
	}
}

// The handler's panic value comes out unwrapped.
func TestPanicValueGoesOn(t *testing.T) {
	t.Parallel()
	for _, value := range []any{http.ErrAbortHandler, errors.New("own"), "text"} {
		onEveryRouter(t, func(t *testing.T, m mounting) {
			s := m.start(t, program{handler: func(http.ResponseWriter, *http.Request) { panic(value) }})
			if _, panicked := s.try(payment("k")); panicked != value {
				t.Errorf("got %v, want %v", panicked, value)
			}
		})
	}
}

// http.ErrAbortHandler cuts the connection, as it does without a guard.
func TestAbortHandler(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name     string
		handler  http.HandlerFunc
		streamed bool
	}{
		{name: "at once", handler: aborting},
		{name: "after 201", handler: then(created, aborting)},
		{name: "in mid-stream", handler: then(created, flush, aborting), streamed: true},
	} {
		onCase(t, row.name, everyRouter, func(t *testing.T, m mounting) {
			s := m.start(t, program{handler: row.handler})
			client := serveService(s)
			if first := client.send(http.MethodPost); !first.Cut {
				t.Errorf("got %+v, want the connection cut", first)
			}
			if row.streamed { // Case 29
				client.conflicts(problem.NotReplayable)
				s.ran(1)
				return
			}
			client.send(http.MethodPost)
			s.ran(2)
		})
	}
}

// runtime.Goexit (a t.FailNow in a handler) releases the key like a panic.
func TestGoexit(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{handler: then(created, exiting)})
		for range 2 {
			done := make(chan struct{})
			go func() {
				defer close(done)
				s.try(payment("k"))
			}()
			<-done
		}
		s.ran(2)
	})
}

func exiting(http.ResponseWriter, *http.Request) { runtime.Goexit() }
