package adapters_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// streaming is a handler that sends events until its client disconnects, as tutorials
// about server-sent events write it. It returns the cause of its end.
func streaming(begin http.HandlerFunc, ended chan<- error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		begin(w, r)
		<-r.Context().Done()
		ended <- context.Cause(r.Context())
	}
}

var events = then(set("Content-Type", "text/event-stream"), write("data: 1\n\n"), flush)

// Case 86: the client of a stream hangs up, and the handler ends, as without a guard. The
// operation does not run again.
func TestStreamEndsWithItsClient(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		begin   http.HandlerFunc
		native  func(ended chan<- error) gin.HandlerFunc
		relayed bool
	}{
		{name: "events", begin: events},
		{name: "larger than MaxResponseBytes", begin: then(write(strings.Repeat("x", keptBytes+1)), flush)},
		{name: "relayed events", begin: events, relayed: true},
		{name: "gin's Stream", begin: events, native: func(ended chan<- error) gin.HandlerFunc {
			return func(c *gin.Context) {
				c.Stream(func(io.Writer) bool {
					c.SSEvent("tick", 1)
					c.Writer.Flush()
					<-c.Request.Context().Done()
					return true
				})
				ended <- context.Cause(c.Request.Context())
			}
		}},
	} {
		onCase(t, row.name, everyRouter, func(t *testing.T, m mounting) {
			for _, protocol := range protocols {
				ended := make(chan error, 1)
				p := program{policy: []policy.Option{policy.MaxResponseBytes(keptBytes), policy.MaxRun(3 * time.Second)}, handler: streaming(row.begin, ended)}
				if row.relayed {
					p.handler = relaying(t, p.handler)
				}
				if row.native != nil {
					p.native = row.native(ended)
				}
				s := m.start(t, p)
				hangUpOn(serve(t, s, protocol.http2), ended)
				s.ran(1)
			}
		})
	}
}

// hangUpOn reads the beginning of a stream and hangs up. The handler must end with the
// client.
func hangUpOn(client *server, ended <-chan error) {
	client.Helper()
	request := client.request(http.MethodPost)
	ctx, hangUp := context.WithCancel(request.Context())
	defer hangUp()
	answer, err := client.Client().Do(request.WithContext(ctx))
	testkit.Must(client, err)
	defer answer.Body.Close()
	if _, err := io.ReadFull(answer.Body, make([]byte, 5)); err != nil {
		client.Fatal(err)
	}
	hangUp()
	if cause := <-ended; !errors.Is(cause, context.Canceled) {
		client.Errorf("over %s the handler's context ended with %v, want the client's %v", answer.Proto, cause, context.Canceled)
	}
	client.conflicts(problem.NotReplayable)
}

// Case 86: what follows its client, and from when on. Case 8: a run whose response the
// retry needs does not.
func TestContextThatFollowsItsClient(t *testing.T) {
	t.Parallel()
	large := write(strings.Repeat("x", keptBytes+1))
	for _, row := range []struct {
		name    string
		begin   http.HandlerFunc
		follows bool
	}{
		{"flushed", events, true},
		{"an error that is kept", then(answering(http.StatusNotFound), flush), true},
		{"larger than MaxResponseBytes", large, true},
		{"after MarkExecuted", then(executed, answering(http.StatusBadGateway), flush), true},
		{"not written to", func(http.ResponseWriter, *http.Request) {}, false},
		{"buffered", write("hello"), false},
		{"an informational response", answering(http.StatusEarlyHints), false},
		{"an error that releases the key", then(answering(http.StatusBadGateway), flush), false},
		{"a mark that releases the key", then(retryable, write("x"), flush), false},
		{"uncertain", then(uncertain, large), false},
	} {
		onCase(t, row.name, everyRouter, func(t *testing.T, m mounting) {
			errHungUp := errors.New("the client hung up")
			var before, cause error
			hangUp := func(error) {}
			s := m.start(t, program{
				policy: []policy.Option{policy.MaxResponseBytes(keptBytes), policy.MaxRun(3 * time.Second)},
				handler: func(w http.ResponseWriter, r *http.Request) {
					row.begin(w, r)
					before = context.Cause(r.Context())
					derived, cancel := context.WithCancel(r.Context())
					defer cancel()
					hangUp(errHungUp)
					if row.follows {
						<-derived.Done()
					}
					cause = context.Cause(derived)
				},
			})
			send := func(ctx context.Context) {
				var w *httptest.ResponseRecorder
				ctx, hangUp = context.WithCancelCause(ctx)
				w = httptest.NewRecorder()
				s.ServeHTTP(w, payment("k").WithContext(ctx))
			}
			if send(t.Context()); before != nil {
				t.Errorf("the context ended with %v before the client", before)
			}
			if row.follows != errors.Is(cause, errHungUp) || !row.follows && cause != nil {
				t.Errorf("the context ended with %v, want the client's cause: %t", cause, row.follows)
			}
		})
	}
}

// Case 86: a client that hung up before the stream began is noticed when it begins.
func TestStreamOfAClientThatHasLeft(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		ctx, hangUp := context.WithCancel(t.Context())
		var before, after error
		s := m.start(t, program{handler: func(w http.ResponseWriter, r *http.Request) {
			hangUp()
			before = r.Context().Err()
			events(w, r)
			after = r.Context().Err()
		}})
		s.ServeHTTP(httptest.NewRecorder(), payment("k").WithContext(ctx))
		if before != nil || !errors.Is(after, context.Canceled) {
			t.Errorf("got %v and then %v, want nil and %v", before, after, context.Canceled)
		}
		s.refuses(payment("k"), http.StatusConflict, problem.NotReplayable)
	})
}

// Case 86: a handler that took over its connection learns of its client by reading, as
// without a guard, and its context ends when it returns. It may end before: net/http ends its
// own when a read of the taken reader fails.
func TestHijackedConnectionAndItsContext(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		contexts := make(chan context.Context, 1)
		s := m.start(t, program{handler: func(w http.ResponseWriter, r *http.Request) {
			conn, stream, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			defer conn.Close()
			stream.WriteString("HTTP/1.1 202 Accepted\r\nContent-Length: 5\r\n\r\nhello")
			_ = stream.Flush()
			if err := r.Context().Err(); err != nil {
				t.Errorf("the context of a hijacked connection ended with %v", err)
			}
			_, _ = stream.ReadByte() // until the client hangs up
			contexts <- r.Context()
		}})
		client := serveService(s)
		conn, _, answer := client.dial(t.Context())
		testkit.Equal(t, answer.StatusCode, http.StatusAccepted, "answer.StatusCode")
		conn.Close()
		<-(<-contexts).Done()
		client.conflicts(problem.NotReplayable)
		s.ran(1)
	})
}
