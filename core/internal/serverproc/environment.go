package serverproc

import (
	"context"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"testing"
)

// RequireServers is the environment variable that turns a test skipped for want of a server into a failed one, so that a
// check which promises to have run everything has.
const RequireServers = "ONCEKEY_REQUIRE_SERVERS"

// FreePort takes from 12000 to 21999. That is below the ports that kernels give to outgoing connections (32768 and up on
// Linux), so that no client takes the port while its server is down; and a Redis Cluster node's bus, which listens 10000
// higher, is below them too and meets no other server.
const (
	lowestPort = 12_000
	portCount  = 10_000
)

// Missing ends a test whose server cannot be run on this machine: skipped, or failed when [RequireServers] is set.
func Missing(t testing.TB, explanation string) {
	t.Helper()
	missing(t, os.Getenv(RequireServers) != "", explanation)
}

func missing(t testing.TB, required bool, explanation string) {
	t.Helper()
	if required {
		t.Fatal(explanation)
	}
	t.Skip(explanation)
}

// FreePort names a loopback port that nobody listens on. Somebody else may still be faster to use it, so that a caller
// whose server cannot bind asks for another one.
func FreePort(t testing.TB) int {
	t.Helper()
	var listen net.ListenConfig
	for range portCount {
		port := lowestPort + rand.IntN(portCount)
		listener, err := listen.Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if err := listener.Close(); err != nil {
			t.Fatalf("serverproc: close the listener that tried port %d: %v", port, err)
		}
		return port
	}
	t.Fatalf("serverproc: no free port from %d to %d", lowestPort, lowestPort+portCount-1)
	return 0
}
