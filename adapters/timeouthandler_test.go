package adapters_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/policy"
)

// slowly is a handler that takes a minute after a first step and ignores its context.
func slowly(first http.HandlerFunc) http.HandlerFunc {
	return then(first, func(w http.ResponseWriter, r *http.Request) {
		advance(time.Minute)
		created(w, r)
	})
}

// timed bounds a handler by http.TimeoutHandler.
func timed(next http.Handler) http.Handler { return http.TimeoutHandler(next, time.Second, "too slow") }

// Case 56: http.TimeoutHandler inside the guard responds while the handler runs.
// Its 503 releases the key, so a retry runs beside the first attempt. That is why
// it belongs outside.
func TestTimeoutHandlerInside(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, inABubble(func(t *testing.T, m mounting) {
		s := m.start(t, program{handler: timed(slowly(func(http.ResponseWriter, *http.Request) {})).ServeHTTP})
		s.gets(s.do(payment("k")), http.StatusServiceUnavailable, "too slow")
		s.reported(event.DeleteKey, 1)
		s.runsAgain(payment("k"))
		advance(2 * time.Minute) // both handlers have ended
		s.runsAgain(payment("k"))
		advance(2 * time.Minute)
	}))
}

// Case 56: a handler that marks its run as executed is safe even there. The 503 is
// stored, and the handler does not run again.
func TestTimeoutHandlerInsideAfterMarkExecuted(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, inABubble(func(t *testing.T, m mounting) {
		s := m.start(t, program{handler: timed(slowly(executed)).ServeHTTP})
		s.do(payment("k"))
		s.gets(s.replays(payment("k")), http.StatusServiceUnavailable)
		advance(2 * time.Minute)
		s.ran(1)
	}))
}

// Cases 56 and 69: around the router there is one run, and its response is stored
// although no client has waited for the response.
func TestTimeoutHandlerOutside(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, inABubble(func(t *testing.T, m mounting) {
		s := m.start(t, program{handler: slowly(func(http.ResponseWriter, *http.Request) {})})
		s.Handler = timed(s.Handler) // around the router: inside it, chi gives its context to the next request
		s.gets(s.do(payment("k")), http.StatusServiceUnavailable, "too slow")
		s.refuses(payment("k"), http.StatusConflict, problem.InProgress)
		advance(2 * time.Minute)
		s.gets(s.replays(payment("k")), http.StatusCreated)
		s.ran(1)
	}))
}

// Case 56: MaxRun bounds a handler without leaving it behind. The key stays taken
// until the handler has returned.
func TestMaxRunInPlaceOfTimeoutHandler(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, inABubble(func(t *testing.T, m mounting) {
		ended := 0
		s := m.start(t, program{policy: []policy.Option{policy.MaxRun(time.Second)}, handler: func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			advance(time.Second) // the handler's clean-up
			ended++
		}})
		first := make(chan *httptest.ResponseRecorder)
		go func() {
			answer, _ := s.try(payment("k"))
			first <- answer
		}()
		advance(1500 * time.Millisecond) // after MaxRun, and before the handler has returned
		s.refuses(payment("k"), http.StatusConflict, problem.InProgress)
		if answer := <-first; answer.Code != http.StatusServiceUnavailable || problemIn(t, answer).Code != problem.HandlerCancelled {
			t.Errorf("got %d %s, want 503 handler_cancelled", answer.Code, answer.Body)
		}
		if s.runsAgain(payment("k")); ended != 2 {
			t.Errorf("%d handlers have returned, want 2, one after the other", ended)
		}
	}))
}

// advance lets d pass in a synctest bubble, where it takes no time.
func advance(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // the bubble's clock, not the machine's
