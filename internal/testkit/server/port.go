package serverproc

import (
	"context"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Ports are taken from 12000 to 21999. Kernels use higher ports for outgoing connections (32768 and up on Linux), so no
// client takes the port of a stopped server. The bus of a Redis Cluster node listens 10000 higher, which is also below
// those ports, and meets no other server.
const (
	lowestPort = 12_000
	portCount  = 10_000
)

// startAttempts bounds the tries to start a server whose port another program has taken.
const startAttempts = 10

// StartOnFreePort calls launch with a free loopback port. The port belongs to the test until the test ends, so that the
// test can start the server again. Other tests that use this package, in any process, get other ports. If launch fails and
// taken reports that another program has the port, StartOnFreePort calls launch with another port. The test fails with
// launch's error, or if no port can be used.
func StartOnFreePort(t testing.TB, launch func(port int) error, taken func() bool) {
	t.Helper()
	var err error
	for range startAttempts {
		if err = launch(FreePort(t)); err == nil {
			return
		}
		if !taken() {
			break
		}
	}
	t.Fatalf("serverproc: start a server on a free port: %v", err)
}

// FreePort returns a free loopback port and reserves its number until the test ends, for a server that needs several ports.
// The test fails if all ports are in use. The reservation is the UDP socket of that
// number, which no server here uses. The system gives the socket to one process at a time, and frees it with the process.
func FreePort(t testing.TB) int {
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

// claimed reserves the port for the test, and reports whether that succeeded.
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
		_ = reservation.Close() // the socket has sent no data
		return false
	}
	_ = listener.Close()
	t.Cleanup(func() { _ = reservation.Close() })
	return true
}
