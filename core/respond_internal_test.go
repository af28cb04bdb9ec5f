package core

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/failure"
)

// countedSettlement is a run whose responses are kept. It counts its ends.
type countedSettlement struct {
	concluded, finished int
	response            Response
	classified          []int
}

func (*countedSettlement) outermost() uintptr { return 0 }

func (*countedSettlement) refuse(w http.ResponseWriter, r *http.Request, p *problem.Problem) {
	problem.Write(w, r, *p)
}

func (*countedSettlement) cause() error { return nil }

func (s *countedSettlement) classify(outcome failure.Outcome) failure.Class {
	s.classified = append(s.classified, outcome.Status)
	return failure.ClassCache
}

func (s *countedSettlement) conclude(outcome failure.Outcome) (failure.Class, failure.Outcome) {
	s.concluded++
	return failure.ClassCache, outcome
}

func (s *countedSettlement) finish(_ failure.Class, _ failure.Outcome, response Response) (time.Time, error) {
	s.finished++
	s.response = response
	return time.Time{}, nil
}

func (s *countedSettlement) stream(failure.Outcome, Response) error { return nil }

func (s *countedSettlement) close() {}

// A response that is left to the router cannot be kept. Where it would have to be, the guard responds in its place, and the
// run is concluded once: the class of the guard's response is asked for without ending the run again.
func TestLeftToRouterConcludesOnce(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	run := &countedSettlement{}
	var c capture
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/payments", http.NoBody)
	c.begin(w, r, run, &responder{}, 1<<20, nil)
	LeaveToRouter(&c, http.StatusNotFound)
	c.finish(false)
	if run.concluded != 1 || run.finished != 1 || len(run.classified) != 1 || run.classified[0] != http.StatusInternalServerError {
		t.Errorf("the run was concluded %d times and finished %d times, and asked about %v; want 1, 1 and 500", run.concluded, run.finished, run.classified)
	}
	if w.Code != http.StatusInternalServerError || run.response.Status != http.StatusInternalServerError || string(run.response.Body) != w.Body.String() {
		t.Errorf("the client has %d %s, the store %+v", w.Code, w.Body, run.response)
	}
}
