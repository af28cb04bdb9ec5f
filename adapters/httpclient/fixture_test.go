package httpclient_test

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncekey/oncekey/adapters/httpclient"
	"github.com/oncekey/oncekey/internal/testkit"
)

const target = "http://shop.test/payments"

var errReset = errors.New("connection reset by peer")

// step is the server's response to one attempt.
type step struct {
	err    error // in place of a response
	status int
	header map[string]string
	body   string
	hang   bool // until the attempt's context ends
}

func status(code int) step { return step{status: code} }

func failing() step { return step{err: errReset} }

func unavailable(retryAfter string) step {
	return step{status: http.StatusServiceUnavailable, header: map[string]string{"Retry-After": retryAfter}}
}

func problem(code int, name string) step {
	return step{
		status: code, header: map[string]string{"Content-Type": "application/problem+json"},
		body: `{"status":409,"code":"` + name + `"}`,
	}
}

// received is one attempt as the server got it.
type received struct {
	at     time.Time
	method string
	key    string
	header http.Header
	body   string
	length int64
}

// server is the next RoundTripper. It responds with its steps in order, repeats the last
// step, and records the attempts.
type server struct {
	mu     sync.Mutex
	steps  []step
	got    []received
	opened int // bodies of responses
	closed int
}

func serverThat(steps ...step) *server { return &server{steps: steps} }

func (s *server) RoundTrip(request *http.Request) (*http.Response, error) {
	var body []byte
	if request.Body != nil {
		var err error
		body, err = io.ReadAll(request.Body)
		request.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	next := s.take(received{
		at: time.Now(), method: request.Method, key: request.Header.Get("Idempotency-Key"),
		header: request.Header, body: string(body), length: request.ContentLength,
	})
	if next.hang {
		<-request.Context().Done()
		return nil, request.Context().Err()
	}
	if next.err != nil {
		return nil, next.err
	}
	header := http.Header{}
	for name, value := range next.header {
		header.Set(name, value)
	}
	return &http.Response{
		StatusCode: next.status, Header: header, ContentLength: -1, Request: request,
		Body: &countedBody{Reader: strings.NewReader(next.body), server: s},
	}, nil
}

func (s *server) take(r received) step {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.steps[min(len(s.got), len(s.steps)-1)]
	s.got = append(s.got, r)
	if next.err == nil && !next.hang {
		s.opened++
	}
	return next
}

// attempts returns the attempts so far.
func (s *server) attempts() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]received(nil), s.got...)
}

// expectAttempts fails the test unless the server got this number of attempts, all with
// the same key.
func (s *server) expectAttempts(t *testing.T, want int) []received {
	t.Helper()
	got := s.attempts()
	if len(got) != want {
		t.Fatalf("%d attempts, want %d", len(got), want)
	}
	for _, attempt := range got {
		testkit.Equal(t, attempt.key, got[0].key, "the key of each attempt")
	}
	return got
}

// expectBodiesClosed fails the test if a response's body was left open.
func (s *server) expectBodiesClosed(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	testkit.Equal(t, s.opened, s.closed, "response bodies that were opened, and those closed")
}

type countedBody struct {
	io.Reader
	server *server
	once   sync.Once
}

func (b *countedBody) Close() error {
	b.once.Do(func() {
		b.server.mu.Lock()
		defer b.server.mu.Unlock()
		b.server.closed++
	})
	return nil
}

func transportTo(t *testing.T, next http.RoundTripper, opts ...httpclient.Option) *httpclient.Transport {
	t.Helper()
	transport, err := httpclient.New(next, opts...)
	testkit.Must(t, err)
	return transport
}

// newRequest makes a request; method "" is POST.
func newRequest(t *testing.T, method, body string) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), cmp.Or(method, http.MethodPost), target, strings.NewReader(body))
	testkit.Must(t, err)
	return request
}

// result is the response or error that the caller gets.
type result struct {
	status int
	header http.Header
	body   string
	err    error
}

func send(transport http.RoundTripper, request *http.Request) result {
	response, err := transport.RoundTrip(request)
	if err != nil {
		return result{err: err}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return result{response.StatusCode, response.Header, string(body), err}
}

func (a result) expect(t *testing.T, status int, body string) {
	t.Helper()
	if a.err != nil || a.status != status || a.body != body {
		t.Errorf("the caller got %d %q %v, want %d %q", a.status, a.body, a.err, status, body)
	}
}

// givenUp fails the test unless the call ended with an AttemptsError.
func (a result) givenUp(t *testing.T) *httpclient.AttemptsError {
	t.Helper()
	given, is := errors.AsType[*httpclient.AttemptsError](a.err)
	if !is {
		t.Fatalf("the caller got %d %v, want an AttemptsError", a.status, a.err)
	}
	return given
}

// expectGivenUp also compares the number of attempts and the last error.
func (a result) expectGivenUp(t *testing.T, attempts int, last error) {
	t.Helper()
	if given := a.givenUp(t); given.Attempts != attempts || !errors.Is(a.err, last) {
		t.Errorf("the caller got %v, want %d attempts and %v", given, attempts, last)
	}
}
