package adapters_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/policy"
)

// An observing route gives the response of an unguarded route, and its events report the
// policy's decisions.
func TestObserveKeepsResponses(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		watched := program{policy: []policy.Option{policy.Observe(true)}}
		s, bare := m.start(t, watched), m.bare(watched)
		for range 3 {
			got, want := httptest.NewRecorder(), httptest.NewRecorder()
			s.ServeHTTP(got, payment("k"))
			bare.ServeHTTP(want, payment("k"))
			if got.Code != want.Code || got.Body.String() != want.Body.String() || !reflect.DeepEqual(got.Header(), want.Header()) {
				t.Errorf("got %d %v %s, want the unguarded response %d %v %s", got.Code, got.Header(), got.Body, want.Code, want.Header(), want.Body)
			}
		}
		if runs := s.runs.Load(); runs != 3 {
			t.Errorf("it ran %d times, want 3", runs)
		}
		wantResults(t, s, event.Execute, event.Completed, event.Replay, event.Replay)
	})
}

func wantResults(t *testing.T, s *service, want ...event.Result) {
	t.Helper()
	var got []event.Result
	for _, event := range s.events.all {
		got = append(got, event.result)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the events are %q, want %q", got, want)
	}
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
				policy: []policy.Option{policy.Observe(true)},
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
	onRouters(t, "gin", func(t *testing.T, m mounting) {
		s := m.start(t, program{
			policy: []policy.Option{policy.Observe(true)},
			native: func(c *gin.Context) { _ = c.Error(errors.New("broken")) },
		})
		s.gets(s.do(payment("k")), http.StatusOK)
	})
}
