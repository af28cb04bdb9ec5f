package httpclient_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncekey/oncekey/adapters/httpclient"
	"github.com/oncekey/oncekey/internal/testkit"
)

// breaking is a server that responds to the first request of every connection. It executes
// the second request and breaks the connection in place of a response, so that the client
// does not know the outcome.
type breaking struct {
	*httptest.Server
	received atomic.Int32
	status   atomic.Int32
	healthy  atomic.Int32 // number of requests that always get a response
	warmUp   *sync.WaitGroup
}

type connectionUses struct{}

// newBreaking starts a server with this number of kept connections from transport.
func newBreaking(t *testing.T, transport *http.Transport, connections int) *breaking {
	t.Helper()
	b := &breaking{warmUp: new(sync.WaitGroup)}
	b.status.Store(http.StatusCreated)
	b.Server = httptest.NewUnstartedServer(b)
	b.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, connectionUses{}, new(atomic.Int32))
	}
	b.Start()
	t.Cleanup(b.Close)
	t.Cleanup(transport.CloseIdleConnections)

	b.warmUp.Add(connections)
	var responded sync.WaitGroup
	for range connections {
		responded.Go(func() { // all at once, so that each has a connection
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.URL+"/warm-up", http.NoBody)
			if err != nil {
				t.Error(err)
				return
			}
			if got := send(transport, request); got.err != nil {
				t.Error(got.err)
			}
		})
	}
	responded.Wait()
	return b
}

func (b *breaking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	uses := r.Context().Value(connectionUses{}).(*atomic.Int32).Add(1)
	if r.URL.Path == "/warm-up" {
		b.warmUp.Done()
		b.warmUp.Wait()
		return
	}
	drain(r)
	if b.received.Add(1) > b.healthy.Load() && uses > 1 {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(int(b.status.Load()))
}

func (b *breaking) request(t *testing.T, body string) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.URL, strings.NewReader(body))
	testkit.Must(t, err)
	return request
}

func keeping(connections int) *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: connections}
}

// Every request that the package sends counts as an attempt.
func TestResendsAreAttempts(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 2, 3} {
		plain := keeping(3)
		shop := newBreaking(t, plain, 3)
		got := send(transportTo(t, plain, httpclient.MaxAttempts(most), quickly()), shop.request(t, "{}"))
		got.expectGivenUp(t, most, got.err)
		testkit.Equal(t, int(shop.received.Load()), most, "requests that the server received")
	}

	plain := keeping(3)
	shop := newBreaking(t, plain, 3)
	retries := 0
	send(transportTo(t, plain, quickly(), httpclient.OnRetry(func(httpclient.Retry) { retries++ })), shop.request(t, "{}")).expect(t, http.StatusCreated, "")
	testkit.Equal(t, shop.received.Load(), 4, "requests of the server")
	testkit.Equal(t, retries, 3, "repetitions that are ours")
}

// Without a body net/http still repeats requests. The package counts and ends these
// repetitions.
func TestResendsWithoutABodyAreBounded(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 2, 4} {
		for range 5 { // net/http may or may not send the last request
			plain := keeping(8)
			shop := newBreaking(t, plain, 8)
			got := send(transportTo(t, plain, httpclient.MaxAttempts(most), quickly()), shop.request(t, ""))
			received := int(shop.received.Load())
			if received < most || received > most+1 {
				t.Errorf("with at most %d attempts, the server received %d requests, want one more at most", most, received)
			}
			// The last request may be cut off before the server reads it.
			if given := got.givenUp(t); given.Attempts < received || given.Attempts > most+1 ||
				!strings.Contains(given.Error(), "repetitions by net/http have used up the attempts") {
				t.Errorf("got %v after %d requests", got.err, received)
			}
		}
	}
}

// Repetitions by net/http count as attempts, and the call continues with the remaining
// attempts.
func TestResendsUseUpAttempts(t *testing.T) {
	t.Parallel()
	plain := keeping(2)
	shop := newBreaking(t, plain, 2)
	shop.status.Store(http.StatusServiceUnavailable)
	var retries []int
	transport := transportTo(t, plain, httpclient.MaxAttempts(4), quickly(), httpclient.OnRetry(func(r httpclient.Retry) { retries = append(retries, r.Attempts) }))
	send(transport, shop.request(t, ""))
	if len(retries) != 1 || retries[0] != 3 {
		t.Errorf("OnRetry got %v attempts, want one wait after 3: two kept connections broke, the new connection got 503", retries)
	}
	if received := shop.received.Load(); received < 4 || received > 5 {
		t.Errorf("the server received %d requests, want 4 and one more at most", received)
	}

	plain = keeping(8)
	shop = newBreaking(t, plain, 8)
	shop.status.Store(http.StatusServiceUnavailable)
	shop.healthy.Store(2)
	send(transportTo(t, plain, httpclient.MaxAttempts(4), quickly()), shop.request(t, ""))
	if received := shop.received.Load(); received < 4 || received > 5 {
		t.Errorf("after 2 responses, the server received %d requests in all, want 4 and one more at most", received)
	}
}
