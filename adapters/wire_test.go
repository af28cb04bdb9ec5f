package adapters_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"reflect"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/internal/testkit"
)

// server serves a handler over real connections.
type server struct {
	*httptest.Server
	testing.TB
}

// serve serves HTTP/1.1 or HTTP/2. Neither is encrypted: a fifth of the processor time would be that of handshakes.
func serve(t testing.TB, handler http.Handler, http2 bool) *server {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // panics, and net/http's warnings about handlers
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(!http2)
	s.Config.Protocols.SetUnencryptedHTTP2(http2)
	s.Start()
	t.Cleanup(s.Close)
	s.Client().Transport.(*http.Transport).Protocols = s.Config.Protocols
	s.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &server{s, t}
}

// serveService serves a service by HTTP/1.1.
func serveService(s *service) *server { return serve(s.TB, s, false) }

// seen is a response as a client sees it.
type seen struct {
	Interim []string // informational responses with their Link headers
	Status  int
	Header  http.Header // without Date
	Body    string
	Trailer http.Header
	Length  int64    // -1 when it is not known
	Coding  []string // Transfer-Encoding
	Cut     bool     // the connection ended before the response
}

// request makes a payment under the key k that goes to the server.
func (s *server) request(method string) *http.Request {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, s.URL+"/payments", strings.NewReader(amount))
	testkit.Must(s, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept-Encoding", "identity") // keeps the client from decoding the body
	r.Header.Set(core.KeyHeader, "k")
	return r
}

// send makes a payment and returns the response as the client sees it.
func (s *server) send(method string) seen {
	s.Helper()
	var got seen
	trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
		got.Interim = append(got.Interim, fmt.Sprint(code, header["Link"]))
		return nil
	}}
	r := s.request(method)
	answer, err := s.Client().Do(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	if err != nil {
		s.Log(err)
		return seen{Header: make(http.Header), Cut: true}
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	answer.Header.Del("Date")
	got.Status, got.Header, got.Body, got.Cut = answer.StatusCode, answer.Header, string(body), err != nil
	got.Trailer, got.Length, got.Coding = answer.Trailer, answer.ContentLength, answer.TransferEncoding
	if len(got.Trailer) == 0 {
		got.Trailer = nil
	}
	return got
}

// marked returns the replay of a response: the response without the parts that are sent only
// once.
func (a seen) marked() seen {
	a.Interim = nil // sent only with the first response
	a.Header = a.Header.Clone()
	a.Header.Del("Set-Cookie")
	a.Header.Set(marker, "true")
	return a
}

// equalSeen compares two responses and reports the differing parts.
func equalSeen(t testing.TB, name string, got, want seen) {
	t.Helper()
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range g.NumField() {
		if a, b := g.Field(i).Interface(), w.Field(i).Interface(); !reflect.DeepEqual(a, b) {
			t.Errorf("%s: %s is %s\nwant %s", name, g.Type().Field(i).Name, shorten(a), shorten(b))
		}
	}
}

func shorten(v any) string {
	const enough = 300
	if s := fmt.Sprintf("%q", v); len(s) > enough {
		return fmt.Sprintf("%s... (%d characters)", s[:enough], len(s))
	}
	return fmt.Sprintf("%v", v)
}

// dial opens a new connection, sends a payment, and reads the beginning of the response.
func (s *server) dial(ctx context.Context) (net.Conn, *bufio.Reader, *http.Response) {
	s.Helper()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Listener.Addr().String())
	testkit.Must(s, err)
	s.Cleanup(func() { conn.Close() })
	r := s.request(http.MethodPost)
	testkit.Must(s, r.Write(conn))
	reader := bufio.NewReader(conn)
	answer, err := http.ReadResponse(reader, r)
	testkit.Must(s, err)
	return conn, reader, answer
}

// conflicts expects a 409 with a code in response to a payment.
func (s *server) conflicts(code string) {
	s.Helper()
	got := s.send(http.MethodPost)
	if got.Status != http.StatusConflict || !strings.Contains(got.Body, fmt.Sprintf("%q:%q", "code", code)) {
		s.Errorf("got %d %s, want 409 %q", got.Status, got.Body, code)
	}
}

// protocols are the protocols of the wire tests.
var protocols = []struct {
	name  string
	http2 bool
}{{"HTTP1", false}, {"HTTP2", true}}
