package adapters_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core/problem"
)

// upload sends the raw request and then stops.
func (s *server) upload(request string) *http.Response {
	s.Helper()
	conn, err := new(net.Dialer).DialContext(s.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { conn.Close() })
	io.WriteString(conn, request)
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		s.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		s.Fatal(err)
	}
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
				if answer.StatusCode != http.StatusRequestEntityTooLarge {
					t.Errorf("got %d, want 413", answer.StatusCode)
				}
			} else if opError := new(net.OpError); !errors.As(err, &opError) && !errors.Is(err, io.EOF) {
				t.Logf("the client got %v", err)
			}
			s.ran(0)
			s.claimed(0)
		})
	}
}
