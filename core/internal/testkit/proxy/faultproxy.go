// Package faultproxy puts a network between a test and a real server that fails
// on demand: it is slow, swallows what it is sent, resets connections, cuts a
// reply in the middle, or lets a request through and loses its reply.
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

// Fault is what is wrong with the network. It holds for what arrives from now
// on, on open connections too.
type Fault struct {
	blackhole bool          // nothing passes, in either direction
	refuse    bool          // connections are reset, old ones and new ones
	latency   time.Duration // before each piece of a reply
	cut       bool          // the connection ends after so many bytes of a reply
	after     int
	lose      bool // the connection ends in place of passing on a request
	hold      bool // replies wait for the next fault
}

// None is a network that works.
func None() Fault { return Fault{} }

// Blackhole lets nothing pass, and says nothing.
func Blackhole() Fault { return Fault{blackhole: true} }

// Refuse resets every connection.
func Refuse() Fault { return Fault{refuse: true} }

// Latency holds every reply back for d.
func Latency(d time.Duration) Fault { return Fault{latency: d} }

// CutReplies ends a connection after so many bytes of the next reply.
func CutReplies(after int) Fault { return Fault{cut: true, after: after} }

// LoseReplies lets requests through, and ends the connection in place of the
// reply: what was asked for is done, and its caller does not know.
func LoseReplies() Fault { return CutReplies(0) }

// LoseRequests ends the connection in place of passing on what a client sends: it is
// not done, and its caller does not know.
func LoseRequests() Fault { return Fault{lose: true} }

// HoldReplies lets requests through, and no reply until the next fault.
func HoldReplies() Fault { return Fault{hold: true} }

// Proxy forwards connections to one server. It is safe for concurrent use.
type Proxy struct {
	target   string
	listener net.Listener
	ended    context.Context //nolint:containedctx // the proxy's own life
	end      context.CancelFunc
	running  sync.WaitGroup

	mu      sync.Mutex
	fault   Fault
	changed chan struct{} // closed at the next Set
	open    map[net.Conn]bool
}

// Start begins to forward to the server at target, until the test ends.
func Start(t testing.TB, target string) *Proxy {
	t.Helper()
	p, err := Open(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// Open begins to forward to the server at target, until Close.
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

// Addr is where to connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Set changes what is wrong with the network.
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

// now returns the fault of the moment, and what is closed when it changes.
func (p *Proxy) now() (Fault, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault, p.changed
}

// Close resets all connections, and returns when none is left. It may be called again.
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

// reset closes with a RST, as a dying peer does, and not with an orderly FIN.
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
			return // closed
		}
		p.running.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	var dialer net.Dialer
	server, err := dialer.DialContext(p.ended, "tcp", p.target)
	if err != nil {
		reset(client)
		return
	}
	if !p.track(client, server) {
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

// track remembers a pair of connections, unless there must be none.
func (p *Proxy) track(pair ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault.refuse || p.ended.Err() != nil {
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

// forward copies until a side ends or a fault does it.
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

// pass hands on one piece, under the fault of the moment.
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

// await returns the fault under which a piece is handed on: one that lets it pass.
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
