package load

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Pacer is a client that sends requests at fixed times. One thread sends and receives, and
// it never sleeps: it has no timer, no goroutine and no wake-up that could be late. Give it
// a processor that the server does not use. Its methods are not safe for concurrent use.
type Pacer struct {
	poll        int // of epoll
	connections []paced
	free        []int // places of connections without a request
	events      []unix.EpollEvent
}

// paced is a connection of a Pacer. Only one request at a time is under way.
type paced struct {
	preparedRequest
	socket   int
	number   int // of the request
	received []byte
}

// DialPaced opens the connections to an IPv4 address, for requests with the given JSON body.
// They are not package net's, whose poller would wake up other threads for each response.
func DialPaced(address string, connections int, body []byte) (*Pacer, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	poll, err := unix.EpollCreate1(0)
	if err != nil {
		return nil, err
	}
	p := &Pacer{poll: poll, events: make([]unix.EpollEvent, connections)}
	for place := range connections {
		socket, err := connect(to)
		if err == nil {
			p.connections = append(p.connections, paced{prepareRequest(address, body), socket, 0, make([]byte, 0, 8<<10)})
			p.free = append(p.free, place)
			err = unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, socket, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(place)})
		}
		if err != nil {
			p.Close()
			return nil, err
		}
	}
	return p, nil
}

// connect opens a socket that does not block after it is connected.
func connect(to netip.AddrPort) (socket int, err error) {
	socket, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	err = unix.Connect(socket, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()})
	if err == nil {
		err = unix.SetsockoptInt(socket, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	if err == nil {
		err = unix.SetNonblock(socket, true)
	}
	if err != nil {
		_ = unix.Close(socket)
	}
	return socket, err
}

// Close ends the connections.
func (p *Pacer) Close() {
	for _, connection := range p.connections {
		_ = unix.Close(connection.socket)
	}
	_ = unix.Close(p.poll)
}

// Send sends request i at a fixed time, i times every after the first, and returns the
// nanoseconds from that time to the end of its response. A request that waits for a free
// connection counts its wait: no slow response hides the delay of the requests behind it
// (coordinated omission). See Client.Send for key and status.
//
// The calling goroutine's thread runs on the given processors only; none means all.
func (p *Pacer) Send(every time.Duration, n, status int, on *unix.CPUSet, key func(i int, into []byte)) ([]float64, error) {
	if on != nil {
		back, err := Pin(on)
		if err != nil {
			return nil, err
		}
		defer back()
	}
	took, begin := make([]float64, n), time.Now()
	for next, ended := 0, 0; ended < n; {
		now := time.Since(begin)
		if now > time.Duration(n)*every+patience {
			return nil, fmt.Errorf("load: %d of %d responses have not come", n-ended, n)
		}
		for ; next < n && len(p.free) > 0 && time.Duration(next)*every <= now; next++ {
			if err := p.start(next, key); err != nil {
				return nil, err
			}
		}
		free := len(p.free)
		err := p.receive(status, func(number int) {
			took[number] = float64(time.Since(begin) - time.Duration(number)*every)
		})
		if err != nil {
			return nil, err
		}
		ended += len(p.free) - free
	}
	return took, nil
}

// receive reads what has come, and passes the number of each request whose response has
// ended.
func (p *Pacer) receive(status int, end func(number int)) error {
	ready, err := unix.EpollWait(p.poll, p.events, 0)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return err
	}
	for _, event := range p.events[:max(ready, 0)] {
		connection := &p.connections[event.Fd]
		done, err := connection.receive(status)
		if err != nil {
			return err
		}
		if done {
			end(connection.number)
			p.free = append(p.free, int(event.Fd))
		}
	}
	return nil
}

// start sends request i on a free connection.
func (p *Pacer) start(i int, key func(i int, into []byte)) error {
	place := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	c := &p.connections[place]
	c.number, c.received = i, c.received[:0]
	key(i, c.key)
	if n, err := unix.Write(c.socket, c.request); err != nil || n < len(c.request) {
		return fmt.Errorf("load: %d bytes of a request are sent: %w", n, err)
	}
	return nil
}

var errLongResponse = errors.New("load: the response is longer than 8 KiB")

// receive reads what has come of the response, and reports whether that was the end.
func (c *paced) receive(status int) (bool, error) {
	n, err := unix.Read(c.socket, c.received[len(c.received):cap(c.received)])
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return false, nil
	case err != nil:
		return false, err
	case n == 0 && len(c.received) == cap(c.received):
		return false, errLongResponse
	case n == 0:
		return false, io.ErrUnexpectedEOF
	}
	c.received = c.received[:len(c.received)+n]
	head, body, found := bytes.Cut(c.received, []byte("\r\n\r\n"))
	if !found {
		return false, nil
	}
	if got := string(head[len("HTTP/1.1 "):len("HTTP/1.1 200")]); got != strconv.Itoa(status) {
		return false, fmt.Errorf("load: response with status %s, want %d", got, status)
	}
	length := 0
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		if name, value, _ := bytes.Cut(line, []byte(":")); bytes.EqualFold(name, lengthHeader[:len(lengthHeader)-1]) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return false, err
			}
		}
	}
	return len(body) >= length, nil
}

// Pin locks the calling goroutine to a thread that runs on these processors only, and before
// other programs if the system allows that. Another program would run for a whole tick of
// the scheduler (4 ms). The function back undoes both.
func Pin(to *unix.CPUSet) (back func(), err error) {
	runtime.LockOSThread()
	var before unix.CPUSet
	if err = unix.SchedGetaffinity(0, &before); err == nil {
		err = unix.SchedSetaffinity(0, to)
	}
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, -20) // of the thread; only for root
	return func() {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 0)
		_ = unix.SchedSetaffinity(0, &before) // as it was
		runtime.UnlockOSThread()
	}, nil
}

// Sleep is time.Sleep, which may be a millisecond late, with less delay.
func Sleep(d time.Duration) {
	if d > 0 {
		wait := unix.NsecToTimespec(int64(d))
		_ = unix.Nanosleep(&wait, nil) // an interrupted sleep is short
	}
}
