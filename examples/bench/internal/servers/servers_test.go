package servers_test

import (
	"errors"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/examples/bench/internal/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRedis(t *testing.T) {
	server, err := servers.StartRedis(t.Context())
	if errors.Is(err, servers.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if server.Version == "" {
		t.Error("the server has no version")
	}
	expectEnd(t, server.Addr, server.Stop)

	t.Setenv("ONCEKEY_REDIS_SERVER", "no-such-program")
	if _, err := servers.StartRedis(t.Context()); !errors.Is(err, servers.ErrMissing) {
		t.Errorf("a server that is not there is the error %v", err)
	}
}

func TestPostgres(t *testing.T) {
	server, err := servers.StartPostgres(t.Context())
	if errors.Is(err, servers.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	config, err := pgx.ParseConfig(server.DSN)
	if err != nil || server.Version == "" {
		t.Errorf("version %q at %q: %v", server.Version, server.DSN, err)
	}
	expectEnd(t, net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))), server.Stop)

	t.Setenv("ONCEKEY_POSTGRES_BIN", t.TempDir())
	if _, err := servers.StartPostgres(t.Context()); !errors.Is(err, servers.ErrMissing) {
		t.Errorf("a server that is not there is the error %v", err)
	}
}

// expectEnd expects a listener at the address until stop, and none after stop.
func expectEnd(t *testing.T, address string, stop func()) {
	t.Helper()
	dialer := net.Dialer{Timeout: 5 * time.Second}
	conn, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		stop()
		t.Fatal(err)
	}
	conn.Close()
	stop()
	if conn, err := dialer.DialContext(t.Context(), "tcp", address); err == nil {
		conn.Close()
		t.Error("the server listens after Stop")
	}
}
