package servers_test

import (
	"errors"
	"net"
	"runtime"
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
	expectProcessorTime(t, server)
	expectEnd(t, net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))), server.Stop)

	t.Setenv("ONCEKEY_POSTGRES_BIN", t.TempDir())
	if _, err := servers.StartPostgres(t.Context()); !errors.Is(err, servers.ErrMissing) {
		t.Errorf("a server that is not there is the error %v", err)
	}
}

// expectProcessorTime expects that the work of a backend counts while the backend runs, and
// after it has ended.
func expectProcessorTime(t *testing.T, server *servers.Postgres) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return
	}
	before := server.ProcessorTime()
	connection, err := pgx.Connect(t.Context(), server.DSN)
	if err != nil {
		t.Fatal(err)
	}
	grown := func() bool { return server.ProcessorTime()-before >= 20*time.Millisecond }
	for deadline := time.Now().Add(time.Minute); !grown() && time.Now().Before(deadline); {
		if _, err := connection.Exec(t.Context(), "SELECT count(*) FROM generate_series(1, 100000)"); err != nil {
			t.Fatal(err)
		}
	}
	running := server.ProcessorTime()
	if running-before < 20*time.Millisecond {
		t.Errorf("after queries for a minute the server's time has grown by %v", running-before)
	}
	connection.Close(t.Context())
	if ended := server.ProcessorTime(); ended < running {
		t.Errorf("the server's time falls from %v to %v as a backend ends", running, ended)
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
