package adapters_test

import (
	"context"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// ending is a way for a handler to end, with the key's fate.
type ending struct {
	name    string
	handler http.HandlerFunc
	policy  []policy.Option
	event   event.Result
	// status of the replay; zero: the next request makes the handler run again.
	replayed int
}

// endings is the classification table of the design.
func endings() []ending {
	var all []ending
	add := func(event event.Result, replayed bool, statuses ...int) {
		for _, status := range statuses {
			e := ending{name: strconv.Itoa(status), handler: answering(status), event: event}
			if replayed {
				e.replayed = status
			}
			all = append(all, e)
		}
	}
	add(event.Completed, true, 200, 201, 202, 204, 206, 226, 299, 300, 301, 302, 303, 304, 307, 308, 399)
	add(event.Failed, true, 400, 402, 403, 404, 405, 406, 409, 410, 411, 412, 413, 415, 418, 422, 423, 424, 426, 428, 431, 451, 499)
	add(event.Retryable, false, 401, 407, 408, 425, 429)
	add(event.DeleteKey, false, 500, 501, 502, 503, 504, 507, 511, 599)

	return append(all,
		ending{name: "panic", handler: panicking, event: event.DeleteKey},
		ending{name: "panic after 201", handler: then(created, panicking), event: event.DeleteKey},
		ending{name: "panic of http.ErrAbortHandler", handler: aborting, event: event.DeleteKey},
		ending{name: "nothing written because the deadline passed", handler: untilCancelled, event: event.DeleteKey},
		ending{name: "201 although the deadline passed", handler: then(untilCancelled, created), event: event.Completed, replayed: 201},
		ending{name: "nothing written", handler: func(http.ResponseWriter, *http.Request) {}, event: event.Completed, replayed: 200},

		ending{name: "MarkRetryable and 201", handler: then(retryable, created), event: event.Retryable},
		ending{name: "MarkRetryable after 201", handler: then(created, retryable), event: event.Retryable},
		ending{name: "MarkRetryable and 409", handler: then(retryable, answering(409)), event: event.Retryable},
		ending{name: "MarkRetryable and 500", handler: then(retryable, answering(500)), event: event.Retryable},
		ending{name: "MarkRetryable and panic", handler: then(retryable, panicking), event: event.Retryable},

		ending{name: "MarkExecuted and 201", handler: then(executed, created), event: event.Completed, replayed: 201},
		ending{name: "MarkExecuted and 422", handler: then(executed, answering(422)), event: event.Failed, replayed: 422},
		ending{name: "MarkExecuted and 429", handler: then(executed, answering(429)), event: event.Failed, replayed: 429},
		ending{name: "MarkExecuted and 500", handler: then(executed, answering(500)), event: event.Failed, replayed: 500},
		ending{name: "MarkExecuted and panic", handler: then(executed, panicking), event: event.Failed, replayed: 500},
		ending{name: "MarkExecuted and panic after 201", handler: then(executed, created, panicking), event: event.Failed, replayed: 500},
		ending{name: "MarkExecuted and nothing written because the deadline passed", handler: then(executed, untilCancelled), event: event.Failed, replayed: 500},
		ending{name: "MarkExecuted, MarkRetryable and 201", handler: then(executed, retryable, created), event: event.Completed, replayed: 201},
		ending{name: "MarkRetryable, MarkExecuted and 503", handler: then(retryable, executed, answering(503)), event: event.Failed, replayed: 503},

		ending{name: "MarkUncertain and 504", handler: then(uncertain, answering(504)), event: event.Uncertain},
		ending{name: "MarkUncertain and 201", handler: then(uncertain, created), event: event.Uncertain},
		ending{name: "MarkUncertain and panic", handler: then(uncertain, panicking), event: event.Uncertain},
		ending{name: "MarkUncertain and MarkRetryable", handler: then(uncertain, retryable, answering(409)), event: event.Uncertain},
		ending{name: "MarkUncertain, MarkExecuted and 504", handler: then(uncertain, executed, answering(504)), event: event.Failed, replayed: 504},

		ending{name: "Release=422", handler: answering(422), event: event.DeleteKey, policy: []policy.Option{policy.Release("422")}},
		ending{name: "Keep=5xx", handler: answering(503), event: event.Failed, replayed: 503, policy: []policy.Option{policy.Keep("5xx")}},
		ending{name: "Keep=5xx and a panic", handler: panicking, event: event.Failed, replayed: 500, policy: []policy.Option{policy.Keep("5xx")}},
		ending{name: "Uncertain=504", handler: answering(504), event: event.Uncertain, policy: []policy.Option{policy.Uncertain("504")}},
		ending{name: "Uncertain=503 and nothing written because the deadline passed", handler: untilCancelled, event: event.Uncertain, policy: []policy.Option{policy.Uncertain("503")}},

		ending{
			name: "the policy's classifier says uncertain", handler: answering(500), event: event.Uncertain,
			policy: classifiedAs(failure.ClassUncertain),
		},
		ending{
			name: "the policy's classifier keeps 500", handler: answering(500), event: event.Failed, replayed: 500,
			policy: classifiedAs(failure.ClassCache),
		},
		ending{
			name: "the policy's classifier frees 201", handler: created, event: event.Retryable,
			policy: classifiedAs(failure.ClassRetryable),
		},
		ending{
			name: "the policy's classifier is not called after MarkExecuted", handler: then(executed, answering(500)),
			event: event.Failed, replayed: 500, policy: classifiedAs(failure.ClassDeleteKey),
		},
	)
}

func classifiedAs(class failure.Class) []policy.Option {
	return []policy.Option{policy.Classifier(func(failure.Outcome) failure.Class { return class })}
}

// then runs steps of a handler one after the other.
func then(steps ...http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, step := range steps {
			step(w, r)
		}
	}
}

func panicking(http.ResponseWriter, *http.Request)          { panic("a bug in the handler") }
func aborting(http.ResponseWriter, *http.Request)           { panic(http.ErrAbortHandler) }
func untilCancelled(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
func retryable(_ http.ResponseWriter, r *http.Request) {
	failure.MarkRetryable(r.Context(), "nothing happened")
}

func uncertain(_ http.ResponseWriter, r *http.Request) {
	failure.MarkUncertain(r.Context(), "the provider timed out")
}
func executed(_ http.ResponseWriter, r *http.Request) { failure.MarkExecuted(r.Context()) }

// deadline is middleware that gives every request a minute.
var deadline = middleware{std: func(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}}

func TestFateOfTheKey(t *testing.T) {
	t.Parallel()
	for _, row := range endings() {
		onCase(t, row.name, everyRouter, inABubble(func(t *testing.T, m mounting) { row.test(t, m) }))
	}
}

func (row ending) test(t *testing.T, m mounting) {
	s := m.start(t, program{
		handler: row.handler, policy: row.policy, outside: []middleware{deadline},
	})
	s.try(payment("k"))
	s.ran(1)
	if got := s.events.of(row.event); len(got) != 1 {
		t.Errorf("%d events %q, want 1: %+v", len(got), row.event, s.events.all)
	}
	if row.replayed == 0 {
		s.runsAgain(payment("k"))
		return
	}
	s.gets(s.replays(payment("k")), row.replayed)
}

// An uncertain outcome is decided by OnAbandoned as a crash is, at once: the lease does
// not have to end first.
func TestUncertainOutcomes(t *testing.T) {
	t.Parallel()
	refuse := policy.OnAbandoned(policy.Refuse)
	for _, row := range []struct {
		name    string
		handler http.HandlerFunc
		policy  []policy.Option
		refused bool
	}{
		{"marked, refused", then(uncertain, answering(504)), []policy.Option{refuse}, true},
		{"a 5xx, refused", answering(502), []policy.Option{refuse}, true},
		{"a panic, refused", panicking, []policy.Option{refuse}, true},
		{"the deadline passed, refused", untilCancelled, []policy.Option{refuse}, true},
		{"a released 5xx runs again", answering(502), []policy.Option{refuse, policy.Release("502")}, false},
		{"marked retryable runs again", then(retryable, answering(502)), []policy.Option{refuse}, false},
		{"listed, and re-executed", answering(504), []policy.Option{policy.Uncertain("5xx")}, false},
	} {
		onCase(t, row.name, everyRouter, inABubble(func(t *testing.T, m mounting) {
			s := m.start(t, program{handler: row.handler, policy: row.policy, outside: []middleware{deadline}})
			s.try(payment("k"))
			if row.refused {
				s.refuses(payment("k"), http.StatusConflict, problem.OutcomeUnknown)
				s.refuses(post("/payments", "k", `{"amount":4999}`), http.StatusUnprocessableEntity, problem.KeyReused)
				return
			}
			s.runsAgain(payment("k"))
		}))
	}
}

// A released key is as good as new: a client may correct its payload.
func TestFreedKeyTakesAnotherPayload(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		first := true
		s := m.start(t, program{handler: func(w http.ResponseWriter, r *http.Request) {
			if first {
				first = false
				retryable(w, r)
				w.WriteHeader(http.StatusUnprocessableEntity)
				return
			}
			created(w, r)
		}})
		s.do(payment("k"))
		s.runsAgain(post("/payments", "k", `{"amount":4999}`))
		s.refuses(payment("k"), http.StatusUnprocessableEntity, problem.KeyReused)
	})
}

// The reason given to MarkRetryable is for operators.
func TestReasonIsReported(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{handler: then(retryable, answering(409))})
		answer := s.do(payment("k"))
		if freed := s.events.of(event.Retryable); len(freed) != 1 || freed[0].reason != "nothing happened" {
			t.Errorf("events are %+v, want one with the reason", freed)
		}
		if answer.Body.Len() != 0 {
			t.Errorf("the client got %s", answer.Body)
		}
	})
}
