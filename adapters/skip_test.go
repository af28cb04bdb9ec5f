package adapters_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

func isDryRun(r *http.Request) bool { return r.URL.Query().Has("dry_run") }

// A skipped request runs as without a guard: no key is read, no store is called.
func TestSkipIf(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{scope: nobody, policy: []policy.Option{policy.SkipIf(isDryRun), policy.KeyField("id")}, handler: echo})
		for _, key := range []string{"k", "k", "a b"} {
			s.gets(s.runsAgain(post("/payments?dry_run", key, amount)), anyStatus, amount)
		}
		if all := s.events.of(event.Skipped); len(all) != 3 || len(s.events.all) != 3 || all[0].code != "" {
			t.Errorf("events are %+v, want one %s a request", s.events.all, event.Skipped)
		}
		s.claimed(0)
	})
}

func TestSkipIfLetsOtherRequestsBeGuarded(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{policy: []policy.Option{policy.SkipIf(isDryRun)}})
		s.runsAgain(payment("k"))
		s.replays(payment("k"))
		s.reported(event.Skipped, 0)
	})
}

// A panic of SkipIf is reported, and no handler runs.
func TestSkipIfThatPanics(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{policy: []policy.Option{policy.SkipIf(func(*http.Request) bool { panic("secret") })}})
		if _, panicked := s.try(payment("k")); panicked != "secret" {
			t.Errorf("panicked with %v", panicked)
		}
		s.ran(0)
		if all := s.events.of(event.CallbackPanicked); len(all) != 1 || len(s.events.all) != 1 {
			t.Errorf("events are %+v, want one %s", s.events.all, event.CallbackPanicked)
		}
	})
}

// OnlySuccess keeps 2xx, and lets every other response be tried again.
func TestOnlySuccess(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 201, 204, 303, 400, 404, 422, 429, 500} {
		onEveryRouter(t, func(t *testing.T, m mounting) {
			s := m.start(t, program{policy: []policy.Option{policy.Classifier(failure.OnlySuccess)}, handler: answering(status)})
			s.runsAgain(payment("k"))
			if status < 300 {
				s.replays(payment("k"))
			} else {
				s.runsAgain(payment("k"))
			}
			executed := m.start(t, program{policy: []policy.Option{policy.Classifier(failure.OnlySuccess)}, handler: func(w http.ResponseWriter, r *http.Request) {
				failure.MarkExecuted(r.Context())
				w.WriteHeader(status)
			}})
			executed.runsAgain(payment("k"))
			executed.replays(payment("k"))
		})
	}
	if text, err := policy.Parse("SkipIf=x"); err == nil || !strings.Contains(err.Error(), `SkipIf is "x": it must be a function, in Go only`) {
		t.Errorf("got %v, %v, want that a function is for Go only", text, err)
	}
}
