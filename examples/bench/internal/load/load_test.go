package load_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/examples/bench/internal/load"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSend(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != `{"a":1}` || r.Method != http.MethodPost {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		mu.Lock()
		seen[r.Header.Get("Idempotency-Key")]++
		mu.Unlock()
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, strings.Repeat("b", 300))
	}))
	t.Cleanup(server.Close)
	client, err := load.Dial(t.Context(), server.Listener.Addr().String(), 3, []byte(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)

	key := func(i int, into []byte) { copy(into, strings.Repeat(string(rune('a'+i)), load.KeySize)) }
	latencies, err := client.Send(10, http.StatusCreated, key)
	if err != nil || len(latencies) != 10 {
		t.Fatalf("%d latencies and error %v, want 10 and none", len(latencies), err)
	}
	if len(seen) != 10 || seen[strings.Repeat("j", load.KeySize)] != 1 {
		t.Errorf("the server has seen the keys %v, want 10, once each", seen)
	}
	for _, latency := range latencies {
		if latency <= 0 {
			t.Errorf("a response took %v ns", latency)
		}
	}
	paced, err := client.SendEvery(time.Millisecond, 20, http.StatusCreated, key)
	if err != nil || len(paced) != 20 || slices.Min(paced) <= 0 || len(seen) != 20 {
		t.Errorf("at a fixed rate, the latencies are %v and the keys %v, with error %v", paced, seen, err)
	}
	if _, err := client.Send(1, http.StatusOK, key); err == nil || !strings.Contains(err.Error(), "201") {
		t.Errorf("an unexpected status gives the error %v", err)
	}
}

func TestSendToNobody(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	client, err := load.Dial(t.Context(), server.Listener.Addr().String(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	server.CloseClientConnections()
	server.Close()
	if _, err := client.Send(1, http.StatusOK, func(int, []byte) {}); err == nil {
		t.Error("a stopped server has responded")
	}
	if _, err := load.Dial(t.Context(), "127.0.0.1:1", 1, nil); err == nil { // a port that no other test's server takes
		t.Error("a server that is not there was dialled")
	}
}
