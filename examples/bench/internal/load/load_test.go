package load_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/examples/bench/internal/load"
	"github.com/oncekey/oncekey/internal/testkit"
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
	testkit.Must(t, err)
	t.Cleanup(client.Close)

	key := func(i int, into []byte) { copy(into, strings.Repeat(string(rune('a'+i)), load.KeySize)) }
	latencies, err := client.Send(0, 10, http.StatusCreated, key)
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
	if _, err := client.Send(0, 1, http.StatusOK, key); err == nil || !strings.Contains(err.Error(), "201") {
		t.Errorf("an unexpected status gives the error %v", err)
	}
}

func TestSendToNobody(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	client, err := load.Dial(t.Context(), server.Listener.Addr().String(), 1, nil)
	testkit.Must(t, err)
	t.Cleanup(client.Close)
	server.CloseClientConnections()
	server.Close()
	if _, err := client.Send(0, 1, http.StatusOK, func(int, []byte) {}); err == nil {
		t.Error("a stopped server has responded")
	}
	if _, err := load.Dial(t.Context(), "127.0.0.1:1", 1, nil); err == nil { // a port that no other test's server takes
		t.Error("a server that is not there was dialled")
	}
}

// held is a server that holds its first response until the channel is closed.
func held(t *testing.T, until <-chan struct{}, seen func()) (address string) {
	t.Helper()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		first := requests.Add(1) == 1
		seen()
		if first {
			<-until
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, strings.Repeat("b", 300))
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func dial(t *testing.T, address string, connections int) *load.Client {
	t.Helper()
	client, err := load.Dial(t.Context(), address, connections, []byte(`{"a":1}`))
	testkit.Must(t, err)
	t.Cleanup(client.Close)
	return client
}

func number(i int, into []byte) { copy(into, strings.Repeat(string(rune('a'+i)), load.KeySize)) }

// The first response comes after the other requests have: they are sent when they are due.
func TestPaceDoesNotWait(t *testing.T) {
	t.Parallel()
	const n = 20
	others := make(chan struct{})
	var seen atomic.Int64
	address := held(t, others, func() {
		if seen.Add(1) == n {
			close(others)
		}
	})
	took, err := dial(t, address, n).Send(time.Millisecond, n, http.StatusCreated, number)
	if err != nil || len(took) != n || slices.Min(took) <= 0 {
		t.Errorf("the latencies are %v with error %v", took, err)
	}
}

// With one connection, a request ends after the first one, which began i times every
// earlier. Its latency says so.
func TestPaceCountsTheWait(t *testing.T) {
	t.Parallel()
	const n, every = 20, time.Millisecond
	later := make(chan struct{})
	time.AfterFunc(n*every, func() { close(later) })
	took, err := dial(t, held(t, later, func() {}), 1).Send(every, n, http.StatusCreated, number)
	if err != nil || len(took) != n {
		t.Fatalf("%d latencies, with error %v", len(took), err)
	}
	for i, latency := range took {
		if latency < took[0]-float64(i)*float64(every) {
			t.Errorf("request %d took %v ns, and it waited for the first, which took %v", i, latency, took[0])
		}
	}
}

func TestPaceFails(t *testing.T) {
	t.Parallel()
	now := make(chan struct{})
	close(now)
	client := dial(t, held(t, now, func() {}), 1)
	if _, err := client.Send(time.Microsecond, 3, http.StatusOK, number); err == nil || !strings.Contains(err.Error(), "201") {
		t.Errorf("an unexpected status gives the error %v", err)
	}
}
