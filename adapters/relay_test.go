package adapters_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
)

// relaying is a handler that passes a request on to an upstream.
func relaying(t *testing.T, upstream http.HandlerFunc) http.HandlerFunc {
	t.Helper()
	target, err := url.Parse(serve(t, upstream, false).URL)
	testkit.Must(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	proxy.Transport = transport
	proxy.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	return proxy.ServeHTTP
}

// Case 58: a reverse proxy flushes each response of unknown length. Such a response can be
// replayed.
func TestRelayedResponseIsReplayed(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name     string
		upstream http.HandlerFunc
		body     string
		trailer  string
	}{
		{name: "with a length", upstream: created, body: `{"id":17}`},
		{name: "chunked", upstream: then(created, flush), body: `{"id":17}`},
		{name: "in pieces", upstream: then(created, flush, write("a"), flush, write("b"), flush), body: `{"id":17}ab`}, //nolint:gocritic // on purpose
		{name: "flushed before its body", upstream: then(answering(201), flush, write("hello")), body: "hello"},
		{name: "chunked and empty", upstream: then(answering(201), flush)},
		{
			name: "with a trailer", upstream: then(set("Trailer", "X-Sum"), answering(201), write("hello"), flush, set("X-Sum", "17")),
			body: "hello", trailer: "17",
		},
	} {
		onCase(t, row.name, everyRouter, func(t *testing.T, m mounting) {
			s := m.start(t, program{handler: relaying(t, row.upstream)})
			client := serveService(s)
			first, replay := client.send(http.MethodPost), client.send(http.MethodPost)
			if first.Status != http.StatusCreated || first.Body != row.body || first.Trailer.Get("X-Sum") != row.trailer {
				t.Errorf("the client got %+v", first)
			}
			equalSeen(t, "replay", replay, first.marked())
			s.ran(1)
		})
	}
}

// upstreamOf makes a transport of a function that writes the response's body.
type upstreamOf func(body io.Writer)

func (u upstreamOf) RoundTrip(r *http.Request) (*http.Response, error) {
	body, writer := io.Pipe()
	go func() {
		u(writer)
		writer.Close()
	}()
	header := http.Header{"Content-Type": {"text/plain"}}
	return &http.Response{StatusCode: http.StatusCreated, Header: header, Body: body, ContentLength: -1, Request: r}, nil
}

// Case 58: a relayed response whose upstream goes on after a second streams from
// then on.
func TestSlowRelayStreams(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, inABubble(func(t *testing.T, m mounting) {
		pieces := make(chan string)
		proxy := &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "upstream"}) },
			Transport: upstreamOf(func(body io.Writer) {
				for piece := range pieces {
					io.WriteString(body, piece)
				}
			}),
		}
		s := m.start(t, program{handler: proxy.ServeHTTP})
		answer, done := httptest.NewRecorder(), make(chan struct{})
		go func() {
			defer close(done)
			s.ServeHTTP(answer, payment("k"))
		}()
		sends := func(piece, sent string) {
			t.Helper()
			pieces <- piece
			synctest.Wait()
			if answer.Body.String() != sent {
				t.Errorf("%q was sent after %q, want %q", answer.Body, piece, sent)
			}
		}
		sends("one ", "")
		advance(500 * time.Millisecond)
		sends("two ", "")
		advance(500 * time.Millisecond)
		sends("three ", "one two three ")
		sends("four ", "one two three four ")
		close(pieces)
		<-done
		s.refuses(payment("k"), http.StatusConflict, problem.NotReplayable)
	}))
}

// Case 58: after an upstream breaks off there is no response to replay. The response had
// begun, so the key has the state of a streamed response.
func TestRelayedResponseThatIsCut(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{handler: relaying(t, then(created, flush, aborting))})
		client := serveService(s)
		if answer := client.send(http.MethodPost); !answer.Cut {
			t.Errorf("got %+v, want the connection cut", answer)
		}
		client.conflicts(problem.NotReplayable)
		s.ran(1)
	})
	recovered := func(t *testing.T, m mounting) {
		handler := relaying(t, then(created, flush, aborting))
		s := m.start(t, program{handler: handler, inside: []middleware{tellingOfPanics}})
		client := serveService(s)
		testkit.Equal(t, client.send(http.MethodPost).Status, http.StatusCreated, "client.send(http.MethodPost).Status")
		client.conflicts(problem.NotReplayable)
		s.ran(1)
	}
	onRouters(t, "net_http", recovered)
	onRouters(t, "chi/", recovered) // gin's recovery hides http.ErrAbortHandler: it belongs outside
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{handler: relaying(t, then(answering(503), flush, aborting))})
		client := serveService(s)
		for range 2 {
			client.send(http.MethodPost)
		}
		s.ran(2)
	})
}

// Case 58: a response that is shorter than its Content-Length reaches the client
// as without a guard, and is not stored. The handler has responded with 201, so it does
// not run again.
func TestShortResponseIsNotKept(t *testing.T) {
	t.Parallel()
	short := then(set("Content-Length", "100"), created)
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{handler: short})
		client := serveService(s)
		if first := client.send(http.MethodPost); first.Status != http.StatusCreated || !first.Cut {
			t.Errorf("got %+v, want a 201 that is cut", first)
		}
		client.conflicts(problem.NotReplayable)
		s.ran(1)
	})
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{handler: then(set("Content-Length", "100"), answering(503), write("no"))})
		client := serveService(s)
		for range 2 { // a class that releases the key releases it
			client.send(http.MethodPost)
		}
		s.ran(2)
	})
}

// telling recovers a panic and reports the panic in JSON.
func telling(w http.ResponseWriter) {
	body := `{"error":"sorry"}`
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Incident", "7")
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(http.StatusInternalServerError)
	io.WriteString(w, body)
}

// tellingOfPanics recovers every panic and tells the client.
var tellingOfPanics = middleware{
	std: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				if recover() != nil {
					telling(w)
				}
			}()
			next.ServeHTTP(w, r)
		})
	},
	gin: gin.CustomRecoveryWithWriter(io.Discard, func(c *gin.Context, _ any) { telling(c.Writer) }),
}

// Case 58: the response of a middleware that recovers inside the guard keeps its header and
// body, and has no part of the response that had begun.
func TestRecovererInsideKeepsItsResponse(t *testing.T) {
	t.Parallel()
	for name, begun := range map[string]http.HandlerFunc{
		"at once":                 panicking,
		"after 201":               then(created, panicking),
		"after its own JSON":      then(set("Content-Type", "application/json"), created, panicking),
		"after its own length":    then(set("Content-Length", "9"), created, panicking),
		"after an announcement":   then(set("Trailer", "X-Sum"), created, panicking),
		"after a longer body":     then(set("Content-Length", "100"), answering(201), write(strings.Repeat("x", 50)), panicking),
		"after a type of its own": then(set("Content-Type", "text/csv"), set("Etag", `"1"`), created, panicking),
	} {
		onCase(t, name, everyRouter, func(t *testing.T, m mounting) {
			s := m.start(t, program{inside: []middleware{tellingOfPanics}, handler: begun})
			client := serveService(s)
			for range 2 {
				got := client.send(http.MethodPost)
				want := http.Header{"Content-Type": {"application/json"}, "X-Incident": {"7"}, "Content-Length": {"17"}}
				if got.Status != http.StatusInternalServerError || got.Body != `{"error":"sorry"}` || got.Cut {
					t.Errorf("got %+v", got)
				}
				if !equalHeaders(got.Header, want) {
					t.Errorf("header is %v, want %v", got.Header, want)
				}
			}
			s.ran(2)
		})
	}
}
