package httpclient_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// A redirect that repeats the method is a call of its own, with its own key and
// its own attempts; the caller's key goes along.
func TestRedirect(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	keys := map[string][]string{}
	server := startServer(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		keys[r.URL.Path] = append(keys[r.URL.Path], r.Header.Get("Idempotency-Key"))
		switch {
		case len(keys[r.URL.Path]) == 1:
			w.WriteHeader(http.StatusBadGateway)
		case r.URL.Path == "/old":
			http.Redirect(w, r, "/new", http.StatusTemporaryRedirect)
		default:
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "done with %s", body)
		}
	}, (*httptest.Server).Start)
	post(t, transportTo(t, server.Client().Transport, quickly()), server.URL+"/old", "{}").expect(t, http.StatusOK, "done with {}")
	mu.Lock()
	defer mu.Unlock()
	before, after := keys["/old"], keys["/new"]
	if len(before) != 2 || len(after) != 2 || before[0] != before[1] || after[0] != after[1] || before[0] == after[0] {
		t.Errorf("the keys were %v and %v", before, after)
	}
}

// Many calls at once share one Transport: each has its key, and its attempts.
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
	var callersDone sync.WaitGroup
	for caller := range callers {
		callersDone.Go(func() {
			for i := range calls {
				order := fmt.Sprintf("order %d of %d", i, caller)
				post(t, transport, server.URL, order).expect(t, http.StatusOK, order)
			}
		})
	}
	callersDone.Wait()
	mu.Lock()
	defer mu.Unlock()
	if len(attempts) != callers*calls || len(done) != callers*calls {
		t.Errorf("%d keys and %d orders, want %d of each", len(attempts), len(done), callers*calls)
	}
	for key, n := range attempts {
		if n != 3 {
			t.Errorf("key %s was sent %d times, want 3", key, n)
		}
	}
}
