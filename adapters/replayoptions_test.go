package adapters_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/storage"
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
