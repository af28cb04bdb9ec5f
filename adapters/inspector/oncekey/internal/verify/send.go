package verify

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// The limits of a response. A longer body is cut off, a longer header is a failure.
const (
	maxBody   = 1 << 20
	maxHeader = 64 << 10
)

// errLimit ends the probes.
var errLimit = errors.New("the limit of requests is reached")

// sender sends the requests, each over a connection of its own: net/http repeats a request with
// an idempotency key by itself if a reused connection fails.
type sender struct {
	timeout time.Duration

	mu   sync.Mutex
	left int // requests that may still be sent
}

// take reserves n requests, or none.
func (s *sender) take(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > s.left {
		return errLimit
	}
	s.left -= n
	return nil
}

// send sends a request that take has reserved. A failure is part of the exchange.
func (s *sender) send(ctx context.Context, r *http.Request, when cut) *Exchange {
	seen := &Exchange{cut: when != never, failed: "no response"}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if when == beforeResponse {
		if err := write(ctx, r); err != nil {
			seen.failed = s.reason(ctx, err)
		}
		return seen
	}
	link := new(connection)
	network := link.transport()
	defer network.CloseIdleConnections()
	response, err := network.RoundTrip(r.WithContext(ctx)) // no redirect is followed
	if err != nil {
		seen.failed = s.reason(ctx, err)
		return seen
	}
	defer response.Body.Close()
	seen.failed, seen.Status, seen.Header = "", response.StatusCode, response.Header
	if when != never {
		link.reset()
		return seen
	}
	seen.Body, err = io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		seen.Status, seen.failed = 0, fmt.Sprintf("%d, then the body: %s", seen.Status, s.reason(ctx, err))
	}
	return seen
}

// reason says in a few words why there is no response.
func (s *sender) reason(ctx context.Context, err error) string {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Sprintf("no whole response within %s", s.timeout)
	}
	if in, is := errors.AsType[*url.Error](err); is {
		err = in.Err
	}
	return err.Error()
}

// write sends a whole request, and closes the connection without reading.
func write(ctx context.Context, r *http.Request) error {
	address := net.JoinHostPort(r.URL.Hostname(), cmp.Or(r.URL.Port(), r.URL.Scheme))
	dial := new(net.Dialer).DialContext
	if r.URL.Scheme == "https" {
		dial = new(tls.Dialer).DialContext
	}
	to, err := dial(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer to.Close()
	if deadline, has := ctx.Deadline(); has {
		_ = to.SetWriteDeadline(deadline) // a closed connection fails below
	}
	r.Close = true
	return r.Write(to)
}

// connection is the one connection of a request whose response is read.
type connection struct {
	mu  sync.Mutex
	tcp net.Conn
}

func (c *connection) transport() *http.Transport {
	only := new(http.Protocols)
	only.SetHTTP1(true)
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, DisableCompression: true,
		MaxResponseHeaderBytes: maxHeader, Protocols: only, DialContext: c.dial,
	}
}

func (c *connection) dial(ctx context.Context, network, address string) (tcp net.Conn, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tcp, err = new(net.Dialer).DialContext(ctx, network, address)
	return c.tcp, err
}

// reset closes the connection at once, and the server's next write fails.
func (c *connection) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if tcp, is := c.tcp.(*net.TCPConn); is {
		_ = tcp.SetLinger(0) // without it the server may not notice
	}
	_ = c.tcp.Close() // gone already is as good
}
