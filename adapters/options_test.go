package adapters_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// Every problem links to the page of WithDocs, beside the links of middleware.
func TestDocs(t *testing.T) {
	t.Parallel()
	const page = "https://docs.example.com/keys"
	const link = `<https://docs.example.com/keys>; rel="describedby"`
	onRefusals(t, []core.Option{core.WithDocs(page)}, func(t *testing.T, s *service, row refusal) {
		answer := s.do(row.request())
		if p := problemIn(t, answer); p.Type != page+"#"+row.code || !slices.Equal(answer.Header()["Link"], []string{link}) {
			t.Errorf("got the type %q and the links %q", p.Type, answer.Header()["Link"])
		}
	})
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{options: []core.Option{core.WithDocs(page)}})
		if answer := s.runsAgain(payment("k")); answer.Header()["Link"] != nil {
			t.Errorf("a response has the links %q", answer.Header()["Link"])
		}
		if answer := s.replays(payment("k")); answer.Header()["Link"] != nil {
			t.Errorf("a replay has the links %q", answer.Header()["Link"])
		}
	})
}

// OnReplay changes the header of a replay, and of no other response.
func TestOnReplay(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		changed := core.WithOnReplay(func(h http.Header, r *http.Request, record *storage.Record) {
			h.Set("X-Key", r.Header.Get(core.KeyHeader))
			h.Set("X-State", record.State.String())
			h.Del("Location")
			h.Del(marker) // set afterwards
		})
		s := m.start(t, program{options: []core.Option{changed}})
		for range 2 {
			if answer := s.do(payment("k")); !isReplay(answer) && (answer.Header().Get("X-Key") != "" || answer.Header().Get("Location") == "") {
				t.Errorf("the first response has %v", answer.Header())
			}
		}
		answer := s.replays(payment("k"))
		if h := answer.Header(); h.Get("X-Key") != "k" || h.Get("X-State") != storage.Completed.String() || h.Get("Location") != "" || answer.Code != http.StatusCreated {
			t.Errorf("a replay has %d, %v", answer.Code, h)
		}
	})
}

// A panic of OnReplay is reported, and the replay is sent.
func TestOnReplayThatPanics(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{options: []core.Option{core.WithOnReplay(func(http.Header, *http.Request, *storage.Record) { panic("bug") })}})
		first := s.runsAgain(payment("k"))
		s.gets(s.replays(payment("k")), first.Code, first.Body.String())
		s.reported(event.CallbackPanicked, 1)
	})
}

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

// An observing route gives the response of an unguarded route, and its events report the
// policy's decisions.
func TestObserveKeepsResponses(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		watched := program{policy: []policy.Option{policy.ObserveOnly(true)}}
		s, bare := m.start(t, watched), m.bare(watched)
		for range 3 {
			got, want := httptest.NewRecorder(), httptest.NewRecorder()
			s.ServeHTTP(got, payment("k"))
			bare.ServeHTTP(want, payment("k"))
			if got.Code != want.Code || got.Body.String() != want.Body.String() || !reflect.DeepEqual(got.Header(), want.Header()) {
				t.Errorf("got %d %v %s, want the unguarded response %d %v %s", got.Code, got.Header(), got.Body, want.Code, want.Header(), want.Body)
			}
		}
		testkit.Equal(t, s.runs.Load(), 3, "runs of the handler")
		wantResults(t, s, event.Execute, event.Completed, event.Replay, event.Replay)
	})
}

func wantResults(t *testing.T, s *service, want ...event.Result) {
	t.Helper()
	var got []event.Result
	for _, event := range s.events.all {
		got = append(got, event.result)
	}
	testkit.EqualSlices(t, got, want, "the events")
}

// A handler's marks count in the reported events: through the context, and on gin through
// c.Error.
func TestMarksCountWhereARouteObserves(t *testing.T) {
	t.Parallel()
	taken := errors.New("email is taken")
	onEveryRouter(t, func(t *testing.T, m mounting) {
		for _, native := range map[string]gin.HandlerFunc{
			"context": func(c *gin.Context) { failure.MarkRetryable(c); c.Status(http.StatusConflict) },
			"error":   func(c *gin.Context) { _ = c.Error(failure.Retryable(taken)); c.Status(http.StatusConflict) },
		} {
			s := m.start(t, program{
				policy: []policy.Option{policy.ObserveOnly(true)},
				native: native,
				handler: func(w http.ResponseWriter, r *http.Request) {
					failure.MarkRetryable(r.Context())
					w.WriteHeader(http.StatusConflict)
				},
			})
			s.gets(s.do(payment("k")), http.StatusConflict)
			wantResults(t, s, event.Execute, event.Retryable)
		}
	})
}

// gin's error without a response is a 200 on an unguarded route, and stays a 200.
func TestObserveLeavesGinsErrorsAlone(t *testing.T) {
	t.Parallel()
	onRouters(t, ginRouters, func(t *testing.T, m mounting) {
		s := m.start(t, program{
			policy: []policy.Option{policy.ObserveOnly(true)},
			native: func(c *gin.Context) { _ = c.Error(errors.New("broken")) },
		})
		s.gets(s.do(payment("k")), http.StatusOK)
	})
}
