package serverproc

import (
	"context"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Ports are taken from 12000 to 21999. That is below the ports that kernels give to outgoing connections (32768 and up on
// Linux), so that no client takes the port while its server is down; and a Redis Cluster node's bus, which listens 10000
// higher, is below them too and meets no other server.
const (
	lowestPort = 12_000
	portCount  = 10_000
)

// startAttempts bounds how often a server is started on another port, because its port was taken in the meantime.
const startAttempts = 10

// StartOnFreePort calls launch with a loopback port on which no program listens. The port belongs to the test until it ends,
// so that a server can be started there again: other tests that use this package, in this process or in another one, get
// other ports. If launch fails and taken then reports that another program was faster, launch is called with another port.
// The test fails when no port can be used, or with launch's error.
func StartOnFreePort(t testing.TB, launch func(port int) error, taken func() bool) {
	t.Helper()
	var err error
	for range startAttempts {
		if err = launch(reservePort(t)); err == nil {
			return
		}
		if !taken() {
			break
		}
	}
	t.Fatalf("serverproc: start a server on a free port: %v", err)
}

// reservePort names a free port, and holds its number until the test ends: by the UDP socket of that number, which no
// server here uses. The system gives it to one process at a time, and takes it back however the process ends.
func reservePort(t testing.TB) int {
	t.Helper()
	for range portCount {
		port := lowestPort + rand.IntN(portCount)
		if claimed(t, port) {
			return port
		}
	}
	t.Fatalf("serverproc: no free port from %d to %d", lowestPort, lowestPort+portCount-1)
	return 0
}

// claimed reserves the port for the test, and reports whether it could.
func claimed(t testing.TB, port int) bool {
	t.Helper()
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	var listen net.ListenConfig
	reservation, err := listen.ListenPacket(context.Background(), "udp", address)
	if err != nil {
		return false
	}
	listener, err := listen.Listen(context.Background(), "tcp", address)
	if err != nil {
		_ = reservation.Close() // a socket that nothing was sent to
		return false
	}
	_ = listener.Close()
	t.Cleanup(func() { _ = reservation.Close() })
	return true
}
