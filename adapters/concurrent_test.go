package adapters_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	chimiddleware "github.com/go-chi/chi/v5/middleware"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

const crowd = 100

// rush sends requests with one key at once. The handler responds after all other decisions.
func rush(t *testing.T, m mounting, requests int, opts ...policy.Option) (*service, []*httptest.ResponseRecorder) {
	t.Helper()
	answering := make(chan struct{})
	s := m.start(t, program{policy: opts, handler: func(w http.ResponseWriter, r *http.Request) {
		<-answering
		created(w, r)
	}})
	var all sync.WaitGroup
	answers := make([]*httptest.ResponseRecorder, requests)
	for i := range answers {
		all.Go(func() { answers[i] = s.do(payment("k")) })
	}
	synctest.Wait()
	close(answering)
	all.Wait()
	return s, answers
}

// Case 1
func TestConcurrentDuplicatesAreTurnedAway(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, inABubble(func(t *testing.T, m mounting) {
		s, answers := rush(t, m, 1000)
		s.ran(1)
		first := 0
		for _, answer := range answers {
			switch p := problemIn(t, answer); {
			case answer.Code == http.StatusCreated && !isReplay(answer):
				first++
			case p.Code != problem.InProgress || answer.Header().Get("Retry-After") != "1":
				t.Errorf("got %d %s", answer.Code, answer.Body)
			}
		}
		testkit.Equal(t, first, 1, "first responses")
		s.replays(payment("k"))
	}))
}

// Case 1
func TestConcurrentDuplicatesWait(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, inABubble(func(t *testing.T, m mounting) {
		s, answers := rush(t, m, crowd, policy.Wait(time.Minute))
		s.ran(1)
		replays := 0
		for _, answer := range answers {
			if answer.Code != http.StatusCreated || answer.Body.String() != `{"id":17}` {
				t.Errorf("got %d %s", answer.Code, answer.Body)
			}
			if isReplay(answer) {
				replays++
			}
		}
		testkit.Equal(t, replays, crowd-1, "replays")
	}))
}

// Case 88: above 128 waiting duplicates, further ones are refused at once.
func TestWaitersOfAKeyAreLimited(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, inABubble(func(t *testing.T, m mounting) {
		const most, more = 128, 7
		s, answers := rush(t, m, 1+most+more, policy.Wait(time.Minute))
		s.ran(1)
		replays, refused := 0, 0
		for _, answer := range answers {
			switch {
			case answer.Code == http.StatusCreated && isReplay(answer):
				replays++
			case answer.Code == http.StatusConflict && answer.Header().Get("Retry-After") == "1" && problemIn(t, answer).Code == problem.InProgress:
				refused++
			}
		}
		if replays != most || refused != more {
			t.Errorf("%d replays and %d refused, want %d and %d", replays, refused, most, more)
		}
		s.replays(payment("k"))
	}))
}

// When a run releases the key, one waiting request runs, and the others continue to wait.
func TestWaitingTakesItsTurn(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, inABubble(func(t *testing.T, m mounting) {
		var s *service
		s = m.start(t, program{
			policy: []policy.Option{policy.Wait(time.Minute)},
			handler: func(w http.ResponseWriter, r *http.Request) {
				turn := s.runs.Load()
				synctest.Wait() // until the others wait
				if turn == 1 {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				created(w, r)
			},
		})
		codes := make(chan int, crowd)
		testkit.Concurrently(crowd, func(int) { codes <- s.do(payment("k")).Code })
		close(codes)
		count := map[int]int{}
		for code := range codes {
			count[code]++
		}
		s.ran(2)
		if count[http.StatusServiceUnavailable] != 1 || count[http.StatusCreated] != crowd-1 {
			t.Errorf("responses are %v, want one 503 and the others 201", count)
		}
	}))
}

// A deadline that middleware sets outside reaches the handler, which is
// detached from the client but not from it.
func TestMiddlewareTimeout(t *testing.T) {
	t.Parallel()
	const patience = 5 * time.Second
	for _, row := range []struct {
		name    string
		outside middleware
	}{
		{"chi's Timeout", middleware{std: chimiddleware.Timeout(patience)}},
		{"http.TimeoutHandler", middleware{std: func(next http.Handler) http.Handler { return http.TimeoutHandler(next, patience, "slow") }}},
	} {
		onCase(t, row.name, everyRouter, inABubble(func(t *testing.T, m mounting) {
			var cancelled error
			var after time.Duration
			s := m.start(t, program{outside: []middleware{row.outside}, handler: func(_ http.ResponseWriter, r *http.Request) {
				start := time.Now()
				<-r.Context().Done()
				cancelled, after = context.Cause(r.Context()), time.Since(start)
			}})
			answer := s.do(payment("k"))
			synctest.Wait() // http.TimeoutHandler does not
			if answer.Code < http.StatusInternalServerError {
				t.Errorf("got %d, want a failure", answer.Code)
			}
			if !errors.Is(cancelled, context.DeadlineExceeded) || after != patience {
				t.Errorf("the context ended after %v with %v", after, cancelled)
			}
			s.runsAgain(payment("k"))
			synctest.Wait()
		}))
	}
}

// A handler that ends in time does not notice MaxRun.
func TestMiddlewareTimeoutNotReached(t *testing.T) {
	t.Parallel()
	timeout := middleware{std: func(next http.Handler) http.Handler { return http.TimeoutHandler(next, time.Minute, "slow") }}
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{outside: []middleware{timeout}})
		first := s.do(payment("k"))
		if first.Code != http.StatusCreated || first.Header().Get("Location") != "/payments/17" {
			t.Errorf("got %d %v", first.Code, first.Header())
		}
		s.replays(payment("k"))
	})
}

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

// Case 56: MaxRun bounds a handler that does not end by itself, without leaving it behind. The key
// stays taken until the handler has returned, so no second handler runs beside it.
func TestMaxRun(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, inABubble(func(t *testing.T, m mounting) {
		var running atomic.Int64
		s := m.start(t, program{policy: []policy.Option{policy.MaxRun(2 * time.Second)}, handler: func(_ http.ResponseWriter, r *http.Request) {
			if running.Add(1) > 1 {
				t.Error("two handlers run at once")
			}
			defer running.Add(-1)
			<-r.Context().Done()
			if cause := context.Cause(r.Context()); !errors.Is(cause, core.ErrRunTooLong) {
				t.Errorf("the context's cause is %v, want core.ErrRunTooLong", cause)
			}
			advance(time.Second) // the handler's clean-up
		}})
		for range 2 {
			began := time.Now()
			var meanwhile sync.WaitGroup
			meanwhile.Go(func() {
				for range 2 { // before MaxRun, and after it
					advance(1250 * time.Millisecond)
					if duplicate := s.do(payment("k")); problemIn(t, duplicate).Code != problem.InProgress {
						t.Errorf("a duplicate got %d %q", duplicate.Code, duplicate.Body)
					}
				}
			})
			answer := s.runsAgain(payment("k"))
			meanwhile.Wait()
			retry, code := answer.Header().Get("Retry-After"), problemIn(t, answer).Code
			if answer.Code != http.StatusServiceUnavailable || code != problem.HandlerCancelled || retry != "1" {
				t.Errorf("got %d %s %v, want 503 handler_cancelled", answer.Code, answer.Body, answer.Header())
			}
			testkit.Equal(t, time.Since(began), 3*time.Second, "the time until the response")
		}
	}))
}

// advance lets d pass in a synctest bubble, where it takes no time.
func advance(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // the bubble's clock, not the machine's
