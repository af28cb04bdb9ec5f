package core_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// The event of a 422 names the changed members. The response names them only with
// WithDiffers.
func TestMismatchIsExplained(t *testing.T) {
	t.Parallel()
	type row struct {
		first, second string
		differs       []string
		missing       int
	}
	testkit.EachInBubble(t, map[string]row{
		"a new timestamp": {`{"amount":1,"sentAt":"10:00"}`, `{"amount":1,"sentAt":"10:01"}`, []string{"sentAt"}, 0},
		"deep inside":     {`{"meta":{"trace":{"id":1}},"a":[1,2]}`, `{"meta":{"trace":{"id":2}},"a":[1,2]}`, []string{"meta.trace.id"}, 0},
		"a new member":    {`{"amount":1}`, `{"amount":1,"note":"x"}`, []string{"note"}, 0},
		"a member less":   {`{"amount":1,"note":"x"}`, `{"amount":1}`, nil, 1},
	}, func(t *testing.T, row row) {
		store := memstore.New()
		newService(t, store, created).post(t.Context(), "k", row.first)
		s := newService(t, store, created) // another process
		w := s.post(t.Context(), "k", row.second)
		wantCode(t, w, http.StatusUnprocessableEntity, problem.KeyReused)
		if strings.Contains(w.Body.String(), "differs") {
			t.Errorf("the response says too much: %s", w.Body)
		}
		event := s.events.last(event.KeyReused)
		if !slices.Equal(event.Differs, row.differs) || event.Missing != row.missing {
			t.Errorf("the event names %q and misses %d, want %q and %d", event.Differs, event.Missing, row.differs, row.missing)
		}
	})
}

// The reported names work in ExcludeFields: then the retry is a replay.
func TestReportedNamesCanBeExcluded(t *testing.T) {
	t.Parallel()
	first, retry := `{"amount":1,"meta":{"sent.at":"10:00","n":[1,2]}}`, `{"amount":1,"meta":{"sent.at":"10:01","n":[1,3]}}`
	s := newService(t, memstore.New(), created)
	s.post(t.Context(), "k", first)
	s.post(t.Context(), "k", retry)
	differs := s.events.last(event.KeyReused).Differs
	excluding := newService(t, memstore.New(), created, policy.ExcludeFields(differs...))
	excluding.post(t.Context(), "k", first)
	if w := excluding.post(t.Context(), "k", retry); w.Header().Get("X-Idempotent-Replay") != "true" {
		t.Errorf("excluding %q, the retry got %d", differs, w.Code)
	}
}

// A mismatch with a request in flight in this process is explained too.
func TestMismatchWithARequestInFlight(t *testing.T) {
	t.Parallel()
	var s *service
	s = newService(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
		if s.runs.Load() == 1 {
			wantCode(t, s.post(t.Context(), "k", `{"amount":2}`), http.StatusUnprocessableEntity, problem.KeyReused)
		}
		created(w, r)
	})
	wantFirst(t, s.post(t.Context(), "k", `{"amount":1}`))
	testkit.EqualSlices(t, s.events.last(event.KeyReused).Differs, []string{"amount"}, "the event names")
}

func TestProblemNamesTheDifferingMembers(t *testing.T) {
	t.Parallel()
	s := newServiceOf(t, memstore.New(), created, nil, core.WithDiffers())
	s.post(t.Context(), "k", `{"amount":1,"at":"a"}`)
	w := s.post(t.Context(), "k", `{"amount":1,"at":"b"}`)
	var problem struct{ Differs []string }
	if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil || !slices.Equal(problem.Differs, []string{"at"}) {
		t.Errorf("the response is %s (%v), want differs to name at", w.Body, err)
	}
}

func TestMismatchOfCalls(t *testing.T) {
	t.Parallel()
	s := newService(t, memstore.New(), created)
	for _, amount := range []int{1, 2} {
		_, _, _ = s.charge(t.Context(), chargeCall("k", order{ID: "o", Amount: amount}))
	}
	testkit.EqualSlices(t, s.events.last(event.KeyReused).Differs, []string{"amount"}, "the event names")
}

// A stored sketch contains no value of a request. A reader of the store cannot test a
// guess of a value against the sketch either.
func TestSketchIsUselessWithoutTheKey(t *testing.T) {
	t.Parallel()
	sketch := func(key string) string {
		store := memstore.New()
		newService(t, store, created).post(t.Context(), key, `{"pin":"1234"}`)
		record, err := store.Lookup(context.Background(), storage.Key("alice", http.MethodPost, "/payments", key))
		if err != nil || len(record.Sketch) == 0 {
			t.Fatalf("got %+v, %v, want a sketch", record, err)
		}
		return string(record.Sketch)
	}
	if one, other := sketch("k1"), sketch("k2"); one == other || strings.Contains(one, "pin") || strings.Contains(one, "1234") {
		t.Errorf("the sketches are %q and %q", one, other)
	}
}
