package httpclient_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/adapters/httpclient"
	"github.com/oncekey/oncekey/internal/testkit"
)

// quickly shortens the waits, for tests over real connections.
func quickly() httpclient.Option { return httpclient.Backoff(time.Millisecond, 5*time.Millisecond) }

// realServer counts the connections that its clients open.
type realServer struct {
	*httptest.Server
	connections atomic.Int32
}

func startServer(t *testing.T, handle http.HandlerFunc, start func(*httptest.Server)) *realServer {
	t.Helper()
	s := &realServer{Server: httptest.NewUnstartedServer(handle)}
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.connections.Add(1)
		}
	}
	s.Config.ErrorLog = quiet
	start(s.Server)
	t.Cleanup(s.Close)
	return s
}

func flush(w http.ResponseWriter) {
	if err := http.NewResponseController(w).Flush(); err != nil {
		panic(err)
	}
}

// drain reads a body whose client may disconnect.
func drain(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }

// post sends one call through transport and returns the caller's result.
func post(t *testing.T, transport http.RoundTripper, url, body string) result {
	t.Helper()
	client := &http.Client{Transport: transport}
	t.Cleanup(client.CloseIdleConnections)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	testkit.Must(t, err)
	response, err := client.Do(request)
	if err != nil {
		return result{err: err}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return result{response.StatusCode, response.Header, string(text), err}
}

// A response that the caller does not get is read to its end, so that the next attempt
// can use the connection.
func TestConnectionIsUsedAgain(t *testing.T) {
	t.Parallel()
	testkit.Each(t, versions, func(t *testing.T, start func(*httptest.Server)) {
		var received atomic.Int32
		server := startServer(t, func(w http.ResponseWriter, _ *http.Request) {
			if received.Add(1) < 5 {
				w.WriteHeader(http.StatusServiceUnavailable)
				fmt.Fprint(w, strings.Repeat("busy ", 5_000)) // in chunks
				return
			}
			fmt.Fprint(w, "done")
		}, start)
		post(t, transportTo(t, server.Client().Transport, quickly()), server.URL, "{}").expect(t, http.StatusOK, "done")
		if received.Load() != 5 || server.connections.Load() != 1 {
			t.Errorf("%d requests over %d connections, want 5 over 1", received.Load(), server.connections.Load())
		}
	})
}

// versions of HTTP start a server.
var versions = map[string]func(*httptest.Server){"HTTP/1.1": (*httptest.Server).Start, "HTTP/2": startHTTP2}

func startHTTP2(s *httptest.Server) {
	s.EnableHTTP2 = true
	s.StartTLS()
}

// After a connection breaks in the middle of a response, the caller gets the next whole
// response.
func TestRequestIsRepeatedAfterACutResponse(t *testing.T) {
	t.Parallel()
	const receipt = "a receipt of thirty-one letters"
	var keys sync.Map
	var received atomic.Int32
	server := startServer(t, func(w http.ResponseWriter, r *http.Request) {
		keys.Store(r.Header.Get("Idempotency-Key"), true)
		w.Header().Set("Content-Length", fmt.Sprint(len(receipt)))
		w.WriteHeader(http.StatusCreated)
		if received.Add(1) == 1 {
			io.WriteString(w, receipt[:10])
			flush(w)
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, receipt)
	}, (*httptest.Server).Start)
	post(t, transportTo(t, server.Client().Transport, quickly()), server.URL, "{}").expect(t, http.StatusCreated, receipt)
	count := 0
	keys.Range(func(any, any) bool { count++; return true })
	if received.Load() != 2 || count != 1 {
		t.Errorf("%d requests with %d keys, want 2 with 1", received.Load(), count)
	}
}

// docs/problems.md, body_unreadable: an empty body has a length of 0, also over HTTP/2, which
// would leave the length of a reader open.
func TestEmptyBodyHasALength(t *testing.T) {
	t.Parallel()
	server := startServer(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.ContentLength) }, startHTTP2)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, io.MultiReader())
	testkit.Must(t, err)
	send(transportTo(t, server.Client().Transport), request).expect(t, http.StatusOK, "0")
}

// With trailers an empty body ends too.
func TestTrailersOfAnEmptyBody(t *testing.T) {
	t.Parallel()
	server := startServer(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, r.Trailer.Get("X-Sum"))
	}, startHTTP2)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, io.MultiReader())
	testkit.Must(t, err)
	request.Trailer = http.Header{"X-Sum": {"0"}}
	send(transportTo(t, server.Client().Transport, httpclient.MaxTime(5*time.Second)), request).expect(t, http.StatusOK, "0")
}

// AttemptTimeout does not bound the reading of a response. Close ends the attempt's
// context.
func TestAttemptLivesAsLongAsItsResponse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		next := roundTripper(func(request *http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: http.StatusOK, ContentLength: -1, Request: request, Body: io.NopCloser(strings.NewReader("streamed")),
			}, nil
		})
		response, err := transportTo(t, next).RoundTrip(newRequest(t, "", ""))
		testkit.Must(t, err)
		attempt := response.Request.Context()
		<-time.After(time.Hour)
		if attempt.Err() != nil {
			t.Errorf("the response was cut while the caller read the body: %v", context.Cause(attempt))
		}
		response.Body.Close()
		if attempt.Err() == nil {
			t.Error("the attempt outlives its response")
		}

		response, err = transportTo(t, serverThat(step{status: http.StatusInternalServerError, body: "short"}), httpclient.MaxAttempts(1)).RoundTrip(newRequest(t, "", ""))
		testkit.Must(t, err)
		if response.Request.Context().Err() == nil {
			t.Error("the attempt outlives a response that was read to its end")
		}
		if response.Request.Header.Get("Idempotency-Key") == "" {
			t.Error("the response's request has no key")
		}
	})
}

// HTTP/2 streams that hang are cut off and repeated like connections. On a busy machine some attempts end before the
// server has received them.
func TestAttemptTimeoutOverRealConnections(t *testing.T) {
	t.Parallel()
	testkit.Each(t, versions, func(t *testing.T, start func(*httptest.Server)) {
		var received atomic.Int32
		server := startServer(t, func(w http.ResponseWriter, r *http.Request) {
			drain(r) // HTTP/1.1 sees a disconnect only after the body
			if received.Add(1) > 2 && r.URL.Path != "/hangs" {
				fmt.Fprint(w, "done")
				return
			}
			<-r.Context().Done()
		}, start)
		const limit = 500 * time.Millisecond
		post(t, transportTo(t, server.Client().Transport, quickly(), httpclient.MaxAttempts(100), httpclient.AttemptTimeout(limit)), server.URL, "{}").
			expect(t, http.StatusOK, "done")

		transport := transportTo(t, server.Client().Transport, quickly(), httpclient.MaxAttempts(2), httpclient.AttemptTimeout(limit))
		got := post(t, transport, server.URL+"/hangs", "{}")
		got.expectGivenUp(t, 2, context.DeadlineExceeded)
		if given := got.givenUp(t); !given.Timeout() || !strings.Contains(given.Error(), "no response within 500ms") {
			t.Errorf("got %v", given)
		}
	})
}

// A call to an untrusted server is not repeated.
func TestUntrustedServer(t *testing.T) {
	t.Parallel()
	server := startServer(t, func(http.ResponseWriter, *http.Request) {
		t.Error("the client trusted the server")
	}, (*httptest.Server).StartTLS)
	got := post(t, transportTo(t, &http.Transport{}), server.URL, "{}")
	untrusted, is := errors.AsType[*tls.CertificateVerificationError](got.err)
	if !is {
		t.Fatalf("got %v, want a certificate that cannot be verified", got.err)
	}
	got.expectGivenUp(t, 1, untrusted)
}

// The http.Client's own call reaches the transport that has the connections.
func TestCloseIdleConnections(t *testing.T) {
	t.Parallel()
	closed := 0
	client := &http.Client{Transport: transportTo(t, &closable{closed: &closed})}
	client.CloseIdleConnections()
	testkit.Equal(t, closed, 1, "forwarded requests")
	transportTo(t, serverThat(status(200))).CloseIdleConnections() // which has none to close
}

type closable struct {
	http.RoundTripper
	closed *int
}

func (c *closable) CloseIdleConnections() { *c.closed++ }
