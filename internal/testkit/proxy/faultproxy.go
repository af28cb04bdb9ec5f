// Package faultproxy puts a proxy between a test and a real server, to simulate network
// faults: latency, lost packets, reset connections, cut replies and lost replies.
//
//	proxy := faultproxy.Start(t, server.Addr())
//	client := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
//	proxy.Set(faultproxy.CutReplies(10))
//	proxy.Set(faultproxy.None())
package faultproxy

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"
)

// Fault is a fault of the network. It applies to data that arrives from now on, also on
// open connections.
type Fault struct {
	blackhole bool          // no data passes, in either direction
	refuse    bool          // all connections are reset
	latency   time.Duration // before each piece of a reply
	cut       bool          // the connection ends after some bytes of a reply
	after     int
	lose      bool // the connection ends instead of forwarding a request
	hold      bool // replies wait for the next fault
}

// None is a network without faults.
func None() Fault { return Fault{} }

// Blackhole drops all data without an error.
func Blackhole() Fault { return Fault{blackhole: true} }

// Refuse resets every connection.
func Refuse() Fault { return Fault{refuse: true} }

// Latency delays every reply by d.
func Latency(d time.Duration) Fault { return Fault{latency: d} }

// CutReplies ends a connection after the given number of bytes of the next reply.
func CutReplies(after int) Fault { return Fault{cut: true, after: after} }

// LoseReplies forwards requests, and ends the connection instead of forwarding the reply.
// The server has applied the request, and the client does not know that.
func LoseReplies() Fault { return CutReplies(0) }

// LoseRequests ends the connection instead of forwarding a request. The server has not
// applied the request, and the client does not know that.
func LoseRequests() Fault { return Fault{lose: true} }

// HoldReplies forwards requests, and delays all replies until the next fault.
func HoldReplies() Fault { return Fault{hold: true} }

// Proxy forwards connections to one server. It is safe for concurrent use.
type Proxy struct {
	listener net.Listener
	ended    context.Context //nolint:containedctx // the context lives as long as the proxy
	end      context.CancelFunc
	running  sync.WaitGroup

	mu      sync.Mutex
	target  string
	fault   Fault
	changed chan struct{} // closed at the next Set
	open    map[net.Conn]bool
}

// Start forwards to the server at target until the test ends.
func Start(t testing.TB, target string) *Proxy {
	t.Helper()
	p, err := Open(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// Open forwards to the server at target until Close.
func Open(target string) (*Proxy, error) {
	var listen net.ListenConfig
	listener, err := listen.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("faultproxy: %w", err)
	}
	p := &Proxy{target: target, listener: listener, changed: make(chan struct{}), open: map[net.Conn]bool{}}
	p.ended, p.end = context.WithCancel(context.Background())
	p.running.Go(p.accept)
	return p, nil
}

// Addr returns the proxy's address.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Set changes the fault.
func (p *Proxy) Set(fault Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = fault
	close(p.changed)
	p.changed = make(chan struct{})
	if fault.refuse {
		p.resetAll()
	}
}

// Move resets all connections, and forwards new ones to another server.
func (p *Proxy) Move(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
	p.resetAll()
}

// now returns the current fault, and a channel that is closed at the next change.
func (p *Proxy) now() (Fault, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault, p.changed
}

// Close resets all connections, and waits until no connection is left. Repeated calls
// are allowed.
func (p *Proxy) Close() {
	p.end()
	_ = p.listener.Close()
	p.mu.Lock()
	p.resetAll()
	p.mu.Unlock()
	p.running.Wait()
}

func (p *Proxy) resetAll() {
	for connection := range p.open {
		reset(connection)
	}
}

// reset closes the connection by RST, like a crashing peer, and not by FIN.
func reset(connection net.Conn) {
	if tcp, ok := connection.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = connection.Close()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // the proxy is closed
		}
		p.running.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	var dialer net.Dialer
	server, err := dialer.DialContext(p.ended, "tcp", target)
	if err != nil {
		reset(client)
		return
	}
	if !p.track(target, client, server) {
		return
	}
	defer p.forget(client, server)
	p.running.Go(func() {
		defer reset(server)
		p.forward(server, client, false)
	})
	defer reset(client)
	p.forward(client, server, true)
}

// track records a pair of connections, unless the proxy is closed, refuses connections, or
// has moved away from the target.
func (p *Proxy) track(target string, pair ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault.refuse || p.target != target || p.ended.Err() != nil {
		for _, connection := range pair {
			reset(connection)
		}
		return false
	}
	for _, connection := range pair {
		p.open[connection] = true
	}
	return true
}

func (p *Proxy) forget(pair ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, connection := range pair {
		delete(p.open, connection)
	}
}

// forward copies data until a side closes the connection or a fault does.
func (p *Proxy) forward(to, from net.Conn, replies bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !p.pass(to, buffer[:n], replies) {
			return
		}
		if err != nil {
			return
		}
	}
}

// pass forwards one piece of data under the current fault.
func (p *Proxy) pass(to net.Conn, piece []byte, reply bool) bool {
	fault, ended := p.await(reply)
	if ended {
		return false
	}
	if reply && fault.latency > 0 {
		select {
		case <-time.After(fault.latency):
		case <-p.ended.Done():
			return false
		}
	}
	if reply && fault.cut {
		_, _ = to.Write(piece[:min(fault.after, len(piece))])
		return false
	}
	if !reply && fault.lose {
		return false
	}
	_, err := to.Write(piece)
	return err == nil
}

// await waits for a fault that lets the piece pass, and returns the fault.
func (p *Proxy) await(reply bool) (fault Fault, ended bool) {
	fault, changed := p.now()
	for fault.blackhole || reply && fault.hold {
		select {
		case <-changed:
			fault, changed = p.now()
		case <-p.ended.Done():
			return fault, true
		}
	}
	return fault, false
}
