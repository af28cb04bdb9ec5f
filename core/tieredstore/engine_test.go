package tieredstore_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// With the durable tier down replays continue, and first-time requests follow
// OnStoreError. With the hot tier down all requests are served as before.
func TestEngineWithOneTierDown(t *testing.T) {
	t.Parallel()
	s := newTiers()
	guard, err := core.New(s, core.SharedScope, core.WithObserver(event.Log(silent)))
	must(t, err)
	ran := map[string]int{}
	pay := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ran[r.Header.Get("Idempotency-Key")]++
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, "paid")
	})
	closed, open := guard.Handler(pay), guard.Handler(pay, policy.OnStoreError(policy.FailOpen))
	expect := func(handler http.Handler, key string, status int, replayed string) {
		t.Helper()
		answer := testkit.Serve(handler, testkit.Post(t.Context(), "/payments", key, "{}"))
		if marked := answer.Header().Get("X-Idempotent-Replay"); answer.Code != status || marked != replayed {
			t.Errorf("key %s got %d, replayed %q: want %d, %q", key, answer.Code, marked, status, replayed)
		}
	}
	expect(closed, "first", http.StatusCreated, "")
	s.durable.set(refuse)
	expect(closed, "first", http.StatusCreated, "true")
	expect(closed, "second", http.StatusServiceUnavailable, "")
	expect(open, "first", http.StatusCreated, "true")
	expect(open, "third", http.StatusCreated, "")
	s.durable.set(nil)
	s.hot.set(refuse)
	expect(closed, "first", http.StatusCreated, "true")
	expect(closed, "second", http.StatusCreated, "")
	expect(closed, "second", http.StatusCreated, "true")
	for key, times := range ran {
		if times != 1 {
			t.Errorf("key %s ran %d times, want once", key, times)
		}
	}
	must(t, guard.Shutdown(t.Context()))
}
