// Package freeport reserves addresses for the servers of tests.
package freeport

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Reserve returns a free address whose port is below those of outgoing connections. Until the test ends, the UDP socket of
// that number keeps other tests from taking it: those of internal/testkit/server do the same.
func Reserve(t testing.TB) string {
	t.Helper()
	const lowest, count = 12_000, 10_000
	var listen net.ListenConfig
	for range count {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(lowest+rand.IntN(count))) //nolint:gosec // no secret
		reservation, err := listen.ListenPacket(t.Context(), "udp", address)
		if err != nil {
			continue
		}
		t.Cleanup(func() { reservation.Close() })
		if listener, err := listen.Listen(t.Context(), "tcp", address); err == nil {
			listener.Close()
			return address
		}
	}
	t.Fatal("found no free port")
	return ""
}
