package adapters_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// hijacking is a handler that takes over its connection.
func hijacking(use func(w http.ResponseWriter, stream *bufio.ReadWriter)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, stream, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		use(w, stream)
		_ = stream.Flush()
	}
}

// Case 29: the handler takes over the connection, the client gets all its bytes, and the
// handler does not run again.
func TestHijack(t *testing.T) {
	t.Parallel()
	const hello = "HTTP/1.1 202 Accepted\r\nContent-Length: 5\r\n\r\nhello"
	for name, handler := range map[string]http.HandlerFunc{
		"ResponseController": hijacking(func(_ http.ResponseWriter, stream *bufio.ReadWriter) { stream.WriteString(hello) }),
		"Hijacker": func(w http.ResponseWriter, _ *http.Request) {
			conn, stream, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			defer conn.Close()
			stream.WriteString(hello)
			_ = stream.Flush()
		},
		"after it was flushed": then(answering(http.StatusAccepted), flush, hijacking(func(_ http.ResponseWriter, stream *bufio.ReadWriter) {
			stream.WriteString("5\r\nhello\r\n0\r\n\r\n")
		})),
		"and written to after that": hijacking(func(w http.ResponseWriter, stream *bufio.ReadWriter) {
			if _, err := w.Write([]byte("no")); !errors.Is(err, http.ErrHijacked) {
				panic("wrote to a hijacked connection")
			}
			w.WriteHeader(http.StatusTeapot)
			_ = http.NewResponseController(w).Flush()
			stream.WriteString(hello)
		}),
	} {
		onCase(t, name, everyRouter, func(t *testing.T, m mounting) {
			s := m.start(t, program{handler: handler})
			client := serveService(s)
			_, _, answer := client.dial(t.Context())
			body, _ := io.ReadAll(answer.Body)
			if answer.StatusCode != http.StatusAccepted || string(body) != "hello" {
				t.Errorf("got %d %q, want 202 hello", answer.StatusCode, body)
			}
			client.conflicts(problem.NotReplayable)
			s.ran(1)
		})
	}
}

// upgrade responds with 101 and echoes a line, as libraries for WebSocket do. Some write
// the response to the connection, others to the writer.
func upgrade(byWriter bool) http.HandlerFunc {
	return then(func(w http.ResponseWriter, _ *http.Request) {
		if byWriter {
			w.Header().Set("Upgrade", "echo")
			w.Header().Set("Connection", "Upgrade")
			w.WriteHeader(http.StatusSwitchingProtocols)
			if onGin, ok := w.(interface{ WriteHeaderNow() }); ok {
				onGin.WriteHeaderNow()
			}
		}
	}, hijacking(func(_ http.ResponseWriter, stream *bufio.ReadWriter) {
		if !byWriter {
			stream.WriteString("HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
		}
		stream.WriteString("welcome\n")
		_ = stream.Flush()
		line, _ := stream.ReadString('\n')
		stream.WriteString(line)
	}))
}

// Case 29
func TestUpgrade(t *testing.T) {
	t.Parallel()
	for name, byWriter := range map[string]bool{"101 by the connection": false, "101 by the writer": true} {
		onCase(t, name, everyRouter, func(t *testing.T, m mounting) {
			s := m.start(t, program{handler: upgrade(byWriter)})
			client := serveService(s)
			request := client.request(http.MethodPost)
			request.Body, request.ContentLength = http.NoBody, 0
			request.Header.Set("Upgrade", "echo")
			request.Header.Set("Connection", "Upgrade")
			answer, err := client.Client().Do(request)
			testkit.Must(t, err)
			defer answer.Body.Close()
			if answer.StatusCode != http.StatusSwitchingProtocols || answer.Header.Get("Upgrade") != "echo" {
				t.Fatalf("got %d %v, want 101", answer.StatusCode, answer.Header)
			}
			io.WriteString(answer.Body.(io.Writer), "ping\n")
			if said, _ := io.ReadAll(answer.Body); string(said) != "welcome\nping\n" {
				t.Errorf("the connection said %q", said)
			}
			s.refuses(post("/payments", "k", ""), http.StatusConflict, problem.NotReplayable)
			s.ran(1)
		})
	}
}

// A failed hijack does not use up a key.
func TestHijackThatIsNotSupported(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		var err error
		s := m.start(t, program{handler: func(w http.ResponseWriter, r *http.Request) {
			_, _, err = http.NewResponseController(w).Hijack()
			created(w, r)
		}})
		client := serve(t, s, true) // HTTP/2 connections cannot be hijacked
		first := client.send(http.MethodPost)
		testkit.Fails(t, "Hijack", err, http.ErrNotSupported)
		equalSeen(t, "replay", client.send(http.MethodPost), first.marked())
	})
}

// hijacks is the writer of middleware that has Hijack over HTTP/2 too, and no Unwrap, as those of go-restful and iris.
type hijacks struct{ http.ResponseWriter }

func (hijacks) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, errors.New("no connection")
}

// A h2c.NewHandler inside of the guard must not take the connection, whose requests would go around the guard.
func TestHTTP2AroundTheGuard(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		method, upgrade string
		opts            []policy.Option
		want            bool
	}{
		{method: "PRI"},
		{method: http.MethodPost, upgrade: "h2c"},
		{method: http.MethodGet, upgrade: "other, H2C"},
		{method: "PRI", opts: []policy.Option{policy.ObserveOnly(true)}, want: true},
	} {
		takes := false
		guarded := engineFor(t).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // as h2c decides
			if r.Method == "PRI" || httpguts.HeaderValuesContainsToken(r.Header["Upgrade"], "h2c") {
				_, _, err := http.NewResponseController(w).Hijack()
				takes = !errors.Is(err, http.ErrNotSupported)
			}
		}), tt.opts...)
		request := post("/payments", "k", "")
		request.Method = tt.method
		request.Header.Set("Upgrade", tt.upgrade)
		guarded.ServeHTTP(hijacks{httptest.NewRecorder()}, request)
		if takes != tt.want {
			t.Errorf("%s with Upgrade: %s takes the connection: %v", tt.method, tt.upgrade, takes)
		}
	}
}

// The response after a hijack that fails is the client's. Over HTTP/2, which has none, it is kept too.
func TestHijackThatFails(t *testing.T) {
	t.Parallel()
	type version struct {
		major int
		kept  bool
	}
	testkit.Each(t, map[string]version{"HTTP/1.1": {1, false}, "HTTP/2": {2, true}}, func(t *testing.T, over version) {
		engine, err := core.New(memstore.New(), core.SharedScope)
		testkit.Must(t, err)
		guarded := engine.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if _, _, err := http.NewResponseController(w).Hijack(); err == nil {
				t.Error("Hijack returned no error")
			}
			http.Error(w, "no WebSocket", http.StatusMethodNotAllowed)
		}))
		send := func() *httptest.ResponseRecorder {
			request := post("/payments", "k", "")
			request.ProtoMajor = over.major
			w := httptest.NewRecorder()
			guarded.ServeHTTP(hijacks{w}, request)
			return w
		}
		if w := send(); w.Code != http.StatusMethodNotAllowed || w.Body.String() != "no WebSocket\n" {
			t.Errorf("got %d %q, want the handler's response", w.Code, w.Body)
		}
		want := http.StatusConflict // not_replayable
		if over.kept {
			want = http.StatusMethodNotAllowed
		}
		if w := send(); w.Code != want {
			t.Errorf("a retry got %d %q, want %d", w.Code, w.Body, want)
		}
	})
}

// Case 29: a stream reaches the client while the handler runs. Case 58: a relayed one does so if it
// is an event stream or larger than MaxResponseBytes.
func TestStreamIsNotHeldBack(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", keptBytes+1)
	for _, row := range []struct {
		name, contentType, piece string
		relayed                  bool
	}{
		{"flushed", "text/plain", "hello\n", false},
		{"above MaxResponseBytes", "text/plain", large, false},
		{"relayed events", "text/event-stream", "data: 1\n\n", true},
		{"relayed events with a charset", "Text/Event-Stream; charset=utf-8", "data: 1\n\n", true},
		{"relayed lines of JSON", "application/x-ndjson", "{}\n", true},
		{"relayed above MaxResponseBytes", "text/plain", large, true},
	} {
		onCase(t, row.name, everyRouter, func(t *testing.T, m mounting) {
			arrived := make(chan struct{})
			p := program{
				policy: []policy.Option{policy.MaxResponseBytes(keptBytes)},
				handler: then(set("Content-Type", row.contentType), write(row.piece), flush, func(_ http.ResponseWriter, r *http.Request) {
					select {
					case <-arrived:
					case <-r.Context().Done():
					}
				}, write("bye\n")),
			}
			if row.relayed {
				p.handler = relaying(t, p.handler)
			}
			s := m.start(t, p)
			client := serveService(s)
			answer, err := client.Client().Do(client.request(http.MethodPost))
			testkit.Must(t, err)
			defer answer.Body.Close()
			piece := make([]byte, len(row.piece))
			if _, err := io.ReadFull(answer.Body, piece); err != nil || string(piece) != row.piece {
				t.Errorf("got %q and %v before the handler went on", piece, err)
			}
			client.conflicts(problem.NotReplayable) // while it still runs
			close(arrived)
			if rest, _ := io.ReadAll(answer.Body); string(rest) != "bye\n" {
				t.Errorf("the rest is %q", rest)
			}
			s.ran(1)
		})
	}
}

// Case 58: a flush by the handler itself starts streaming.
func TestFlushStreamsEveryType(t *testing.T) {
	t.Parallel()
	for _, contentType := range []string{"text/event-stream", "application/json", ""} {
		onCase(t, contentType, everyRouter, func(t *testing.T, m mounting) {
			var sent *httptest.ResponseRecorder
			s := m.start(t, program{handler: then(set("Content-Type", contentType), write("one"), flush, func(http.ResponseWriter, *http.Request) {
				if !sent.Flushed || sent.Body.String() != "one" {
					t.Errorf("flushed is %v with %q, want one", sent.Flushed, sent.Body)
				}
			})})
			sent = httptest.NewRecorder()
			s.ServeHTTP(sent, payment("k"))
			s.refuses(payment("k"), http.StatusConflict, problem.NotReplayable)
		})
	}
}

// A streamed response of a class that is not stored releases the key at the end.
func TestStreamedFailureFreesTheKey(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"503":           then(answering(503), flush),
		"MarkRetryable": then(retryable, created, flush),
	} {
		onCase(t, name, everyRouter, func(t *testing.T, m mounting) {
			var s *service
			s = m.start(t, program{handler: then(handler, func(http.ResponseWriter, *http.Request) {
				if s.runs.Load() == 1 {
					s.refuses(payment("k"), http.StatusConflict, problem.InProgress)
				}
			})})
			s.do(payment("k"))
			s.runsAgain(payment("k"))
		})
	}
}

// Case 8: the client disconnects while the handler runs. Its retry gets the response.
func TestClientGone(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		var gone <-chan struct{} // the connection's own context
		started, finished := make(chan struct{}), make(chan error, 1)
		s := m.start(t, program{
			outside: []middleware{before(func(_ http.ResponseWriter, r *http.Request) { gone = r.Context().Done() })},
			handler: func(w http.ResponseWriter, r *http.Request) {
				noticed := gone
				close(started)
				<-noticed
				finished <- r.Context().Err()
				created(w, r)
			},
		})
		client := serveService(s)
		stored := s.events.next(event.Completed)
		ctx, hangUp := context.WithCancel(t.Context())
		sent := make(chan error, 1)
		go func() {
			answer, err := client.Client().Do(client.request(http.MethodPost).WithContext(ctx))
			if err == nil {
				answer.Body.Close()
			}
			sent <- err
		}()
		<-started
		hangUp()
		if err := <-sent; !errors.Is(err, context.Canceled) {
			t.Errorf("the client got %v", err)
		}
		if err := <-finished; err != nil {
			t.Errorf("the handler's context ended: %v", err)
		}
		<-stored
		if retry := client.send(http.MethodPost); retry.Status != http.StatusCreated || retry.Header.Get(marker) != "true" {
			t.Errorf("the retry got %+v", retry)
		}
		s.ran(1)
	})
}
