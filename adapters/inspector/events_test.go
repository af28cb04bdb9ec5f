package inspector

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/internal/testkit"
)

// tailing is a page whose process remembers five events.
type tailing struct {
	*testing.T
	events *Events
	page   *Page
}

func newTailing(t *testing.T) *tailing {
	t.Helper()
	s := &tailing{T: t, events: Remember(silent{}, 5)}
	engine, err := core.New(memstore.New(), core.SharedScope, core.WithObserver(s.events))
	testkit.Must(t, err)
	operator := func(*http.Request) (Operator, error) { return Operator{Name: "m.ortiz", May: Read}, nil }
	if s.page, err = New(engine, operator, Remembered(s.events)); err != nil {
		t.Fatal(err)
	}
	return s
}

// happen observes events whose attempts count from one.
func (s *tailing) happen(from, to int) {
	for n := from; n <= to; n++ {
		s.events.Observe(s.Context(), event.Event{Result: event.Completed, Attempt: uint64(n)})
	}
}

func (s *tailing) ask(query, accept string) (code int, shown Tail) {
	s.Helper()
	r := httptest.NewRequest(http.MethodGet, "/events"+query, nil)
	r.Header.Set("Accept", accept)
	w := testkit.Serve(s.page, r)
	if w.Code == http.StatusOK {
		if err := json.Unmarshal(w.Body.Bytes(), &shown); err != nil {
			s.Error(err)
		}
	}
	return w.Code, shown
}

// want compares the attempts of the events after n.
func (s *tailing) want(query string, next, skipped uint64, attempts ...uint64) {
	s.Helper()
	_, shown := s.ask(query, "application/json")
	var got []uint64
	for _, one := range shown.Events {
		got = append(got, one.Attempt)
	}
	if !slices.Equal(got, attempts) || shown.Next != next || shown.Skipped != skipped {
		s.Errorf("%q: events %v, next %d, %d skipped, want %v, %d, %d", query, got, shown.Next, shown.Skipped, attempts, next, skipped)
	}
}

// Each event comes once, in order, also when the ring is full.
func TestTail(t *testing.T) {
	t.Parallel()
	s := newTailing(t)
	s.want("", 0, 0)
	s.happen(1, 3)
	s.want("", 3, 0, 1, 2, 3)
	s.want("?after=2", 3, 0, 3)
	s.want("?after=3", 3, 0)
	s.happen(4, 7) // the ring keeps 3 to 7
	s.want("?after=3", 7, 0, 4, 5, 6, 7)
	s.want("?after=1", 7, 1, 3, 4, 5, 6, 7)
	s.want("?after=99", 7, 2, 3, 4, 5, 6, 7) // of an earlier process: all that this one has
	s.want("", 7, 0, 3, 4, 5, 6, 7)
}

// One reply is bounded, and the next one continues.
func TestLongTail(t *testing.T) {
	t.Parallel()
	s := newTailing(t)
	s.events = Remember(silent{}, 2*mostEvents)
	s.page.events = s.events
	s.happen(1, mostEvents+1)
	_, first := s.ask("?after=0", "application/json")
	if len(first.Events) != mostEvents || first.Next != mostEvents {
		t.Errorf("%d events, next %d, want %d", len(first.Events), first.Next, mostEvents)
	}
	s.want("?after="+strconv.Itoa(mostEvents), mostEvents+1, 0, mostEvents+1)
}

func TestTailRefuses(t *testing.T) {
	t.Parallel()
	s := newTailing(t)
	for query, want := range map[string]int{"?after=x": http.StatusBadRequest, "?after=-1": http.StatusBadRequest, "?after=1": http.StatusOK} {
		if code, _ := s.ask(query, "application/json"); code != want {
			t.Errorf("%s: %d, want %d", query, code, want)
		}
	}
	if code, _ := s.ask("", "text/html"); code != http.StatusNotAcceptable {
		t.Errorf("for a browser: %d, want %d", code, http.StatusNotAcceptable)
	}
	s.page.events = nil
	if code, _ := s.ask("", "application/json"); code != http.StatusNotFound {
		t.Errorf("without events: %d, want %d", code, http.StatusNotFound)
	}
	for _, refusal := range []error{errors.New("no"), nil} { // or an operator without a name
		s.page.authorize = func(*http.Request) (Operator, error) { return Operator{May: Read}, refusal }
		if code, _ := s.ask("", "application/json"); code != http.StatusUnauthorized {
			t.Errorf("without a sign-in: %d, want %d", code, http.StatusUnauthorized)
		}
	}
}
