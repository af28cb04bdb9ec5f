package httpclient_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
)

// Concurrent calls share one Transport. Each call has its own key and attempts.
func TestConcurrentCalls(t *testing.T) {
	t.Parallel()
	const callers, calls = 20, 25
	var mu sync.Mutex
	attempts, done := map[string]int{}, map[string]int{} // by key, by order
	server := startServer(t, func(w http.ResponseWriter, r *http.Request) {
		order, _ := io.ReadAll(r.Body)
		key := r.Header.Get("Idempotency-Key")
		mu.Lock()
		defer mu.Unlock()
		attempts[key]++
		if attempts[key] < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		done[string(order)]++
		w.Write(order)
	}, (*httptest.Server).Start)
	transport := transportTo(t, server.Client().Transport, quickly())
	testkit.Concurrently(callers, func(caller int) {
		for i := range calls {
			order := fmt.Sprintf("order %d of %d", i, caller)
			post(t, transport, server.URL, order).expect(t, http.StatusOK, order)
		}
	})
	mu.Lock()
	defer mu.Unlock()
	if len(attempts) != callers*calls || len(done) != callers*calls {
		t.Errorf("%d keys and %d orders, want %d of each", len(attempts), len(done), callers*calls)
	}
	for key, n := range attempts {
		testkit.Equal(t, n, 3, "times that key %s was sent", key)
	}
}
