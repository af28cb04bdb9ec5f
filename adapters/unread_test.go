package adapters_test

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	chimiddleware "github.com/go-chi/chi/v5/middleware"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/problem"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

// exchangeRaw sends the raw request while it waits for the response, as proxies do. A write
// that fails before the response was read loses the response.
func (s *server) exchangeRaw(head, body string) (status int, code string, err error) {
	s.Helper()
	conn, err := new(net.Dialer).DialContext(s.Context(), "tcp", s.Listener.Addr().String())
	testkit.Must(s, err)
	defer conn.Close()
	testkit.Must(s, conn.SetDeadline(time.Now().Add(time.Minute)))
	wrote := make(chan error, 1)
	go func() {
		_, err := io.WriteString(conn, head+body)
		wrote <- err
	}()
	defer func() {
		select {
		case failed := <-wrote:
			err = cmp.Or(err, failed)
		default: // the client still writes
		}
	}()
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	for _, known := range []string{problem.PrincipalMissing, problem.KeyMissing, problem.KeyInvalid, problem.BodyTooLarge, problem.BodyUnreadable} {
		if strings.Contains(string(text), `"code":"`+known+`"`) {
			code = known
		}
	}
	return answer.StatusCode, code, err
}

// wrapping is middleware that has replaced the writer and the body, as most
// programs' has.
func wrapping(wrap func(http.ResponseWriter, *http.Request) http.ResponseWriter) middleware {
	return middleware{std: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(wrap(w, r), r) })
	}}
}

// Case 68: a refusal of an unread body reaches a client whose connection ends with
// the request.
func TestRefusalOfAnUnreadBody(t *testing.T) {
	t.Parallel()
	const rounds = 3
	large := strings.Repeat("x", 1<<20)
	keyed := "Idempotency-Key: k\r\n"
	wraps := map[string][]middleware{
		"bare": nil,
		"wrapped": {wrapping(func(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
			return chimiddleware.NewWrapResponseWriter(w, r.ProtoMajor)
		})},
		"body replaced": {wrapping(func(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
			r.Body = http.MaxBytesReader(w, r.Body, 64<<20)
			return w
		})},
	}
	rows := []struct {
		name, head string
		body       string
		limit      int64
		scope      core.Scope
		status     int
		code       string
	}{
		{"no key", "", large, 1 << 20, nil, 400, problem.KeyMissing},
		{"wrong key", "Idempotency-Key: a,b\r\n", large, 1 << 20, nil, 400, problem.KeyInvalid},
		{"no principal", keyed, large, 1 << 20, nobody, 401, problem.PrincipalMissing},
		{"too large by a little", keyed, large, 1 << 10, nil, 413, problem.BodyTooLarge},
		{"too large by far", keyed, strings.Repeat("x", 3<<20), 1 << 20, nil, 413, problem.BodyTooLarge},
		{"no key, and too large by far", "", strings.Repeat("x", 3<<20), 1 << 20, nil, 400, problem.KeyMissing},
		{"unknown length, too large", keyed + "Transfer-Encoding: chunked\r\n", chunk(large), 1 << 10, nil, 413, problem.BodyTooLarge},
		{"unknown length, no key", "Transfer-Encoding: chunked\r\n", chunk(large), 1 << 20, nil, 400, problem.KeyMissing},
		{"not a chunk", keyed + "Transfer-Encoding: chunked\r\n", "zz\r\n" + large, 1 << 20, nil, 400, problem.BodyUnreadable},
	}
	for wrapped, outside := range wraps {
		t.Run(wrapped, func(t *testing.T) {
			t.Parallel()
			test := func(t *testing.T, m mounting) {
				for _, row := range rows {
					s := m.start(t, program{
						scope:  row.scope,
						policy: []policy.Option{policy.MaxRequestBytes(row.limit)}, outside: outside,
					})
					client := serveService(s)
					for version, closing := range map[string]string{"HTTP/1.0": "", "HTTP/1.1": "Connection: close\r\n", "HTTP/1.1 kept": ""} {
						head := "POST /payments " + version[:8] + "\r\nHost: shop.example\r\n" + closing + row.head
						if !strings.Contains(row.head, "chunked") {
							head += fmt.Sprintf("Content-Length: %d\r\n", len(row.body))
						} else if version == "HTTP/1.0" {
							continue // which knows no chunks
						}
						for range rounds {
							status, code, err := client.exchangeRaw(head+"\r\n", row.body)
							if status != row.status || code != row.code || err != nil {
								t.Errorf("%s by %s: got %d %q and %v, want %d %q", row.name, version, status, code, err, row.status, row.code)
							}
						}
					}
					s.ran(0)
				}
			}
			for _, router := range []string{"net_http", "chi/Policy", "gin/Handle"} {
				onRouters(t, router, test)
			}
		})
	}
}

// chunk writes a body as one chunk.
func chunk(body string) string { return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body) }

// Case 68: a client with Expect: 100-continue gets no 100 for a body that is refused.
func TestRefusalBeforeTheBodyIsAskedFor(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{scope: nobody})
		client := serveService(s)
		status, code, err := client.exchangeRaw("POST /payments HTTP/1.1\r\nHost: shop.example\r\nIdempotency-Key: k\r\n"+
			"Expect: 100-continue\r\nContent-Length: 1000\r\n\r\n", "")
		if status != http.StatusUnauthorized || code != problem.PrincipalMissing || err != nil {
			t.Errorf("got %d %q and %v, want 401 at once", status, code, err)
		}
	})
}

// Case 68: a refused request whose body was small does not cost its connection.
func TestRefusalKeepsTheConnection(t *testing.T) {
	t.Parallel()
	onEveryRouter(t, func(t *testing.T, m mounting) {
		s := m.start(t, program{scope: nobody})
		client := serveService(s)
		conn, reader, answer := client.dial(t.Context())
		for range 3 {
			if answer.StatusCode != http.StatusUnauthorized || answer.Close {
				t.Fatalf("got %d, and the connection closes: %v", answer.StatusCode, answer.Close)
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			request := client.request(http.MethodPost)
			testkit.Must(t, request.Write(conn))
			var err error
			if answer, err = http.ReadResponse(reader, request); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// upload sends the raw request and then stops.
func (s *server) upload(request string) *http.Response {
	s.Helper()
	conn, err := new(net.Dialer).DialContext(s.Context(), "tcp", s.Listener.Addr().String())
	testkit.Must(s, err)
	s.Cleanup(func() { conn.Close() })
	io.WriteString(conn, request)
	testkit.Must(s, conn.(*net.TCPConn).CloseWrite())
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	testkit.Must(s, err)
	s.Cleanup(func() { answer.Body.Close() })
	return answer
}

// Case 33: a body that ends too early is refused.
func TestTruncatedUpload(t *testing.T) {
	t.Parallel()
	const head = "POST /payments HTTP/1.1\r\nHost: shop.example\r\nIdempotency-Key: k\r\n"
	for name, request := range map[string]string{
		"Content-Length":            head + "Content-Length: 100\r\n\r\n" + amount,
		"Content-Length, no byte":   head + "Content-Length: 100\r\n\r\n",
		"chunked":                   head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
		"chunked, inside a chunk":   head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhe",
		"chunked, not a chunk size": head + "Transfer-Encoding: chunked\r\n\r\nhello\r\n0\r\n\r\n",
	} {
		onCase(t, name, everyRouter, func(t *testing.T, m mounting) {
			s := m.start(t, program{})
			answer := serveService(s).upload(request)
			body, _ := io.ReadAll(answer.Body)
			if answer.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), problem.BodyUnreadable) {
				t.Errorf("got %d %s, want 400 body_unreadable", answer.StatusCode, body)
			}
			s.ran(0)
			s.claimed(0)
		})
	}
}

// Case 33: a client that sends without end gets a response and is cut off.
func TestEndlessUpload(t *testing.T) {
	t.Parallel()
	for _, protocol := range protocols {
		onCase(t, protocol.name, everyRouter, func(t *testing.T, m mounting) {
			s := m.start(t, limited(1<<10))
			client := serve(t, s, protocol.http2)
			request := client.request(http.MethodPost)
			body := new(endless)
			request.Body, request.ContentLength = body, -1
			// The client may notice the end of the connection before it sees the response.
			answer, err := client.Client().Do(request)
			if err == nil {
				defer answer.Body.Close()
				testkit.Equal(t, answer.StatusCode, http.StatusRequestEntityTooLarge, "answer.StatusCode")
			} else if opError := new(net.OpError); !errors.As(err, &opError) && !errors.Is(err, io.EOF) {
				t.Logf("the client got %v", err)
			}
			s.ran(0)
			s.claimed(0)
		})
	}
}
