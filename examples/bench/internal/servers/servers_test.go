package servers_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
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
	expectFiles(t, server)
	expectEnd(t, net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))), server.Stop)

	t.Setenv("ONCEKEY_POSTGRES_BIN", t.TempDir())
	if _, err := servers.StartPostgres(t.Context()); !errors.Is(err, servers.ErrMissing) {
		t.Errorf("a server that is not there is the error %v", err)
	}
}

func TestMariaDB(t *testing.T) {
	server, err := servers.StartMariaDB(t.Context())
	if errors.Is(err, servers.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, address, _ := strings.Cut(server.DSN, "(")
	address, _, _ = strings.Cut(address, ")")
	if server.Version == "" {
		t.Error("the server has no version")
	}
	if runtime.GOOS == "linux" && server.ProcessorTime() == 0 {
		t.Error("the server has used no processor time")
	}
	expectEnd(t, address, server.Stop)

	t.Setenv("ONCEKEY_MARIADB_BIN", t.TempDir())
	if _, err := servers.StartMariaDB(t.Context()); !errors.Is(err, servers.ErrMissing) {
		t.Errorf("a server that is not there is the error %v", err)
	}
}

// The benchmark itself starts MySQL, which takes seconds.
func TestMySQLIsMissing(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("ONCEKEY_MYSQL_BIN", folder)
	for _, program := range []string{"", "#!/bin/sh\necho 'mysqld  Ver 10.11.19-MariaDB'\n", "#!/bin/sh\nexit 1\n"} {
		if program != "" {
			if err := os.WriteFile(filepath.Join(folder, "mysqld"), []byte(program), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if server, err := servers.StartMySQL(t.Context()); !errors.Is(err, servers.ErrMissing) {
			t.Errorf("with the program %q the server is %v and the error %v, want ErrMissing", program, server, err)
		}
	}
}

// expectFiles expects that an aged server has WAL files that it has not written to yet.
func expectFiles(t *testing.T, server *servers.Postgres) {
	t.Helper()
	const files = 3
	if err := server.Age(t.Context(), files); err != nil {
		t.Fatal(err)
	}
	connection, err := pgx.Connect(t.Context(), server.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close(t.Context())
	var unwritten int
	if err := connection.QueryRow(t.Context(), "SELECT count(*) FROM pg_ls_waldir() WHERE name > pg_walfile_name(pg_current_wal_lsn())").
		Scan(&unwritten); err != nil || unwritten < files {
		t.Errorf("%d WAL files can be reused, want %d: %v", unwritten, files, err)
	}
}

// expectProcessorTime expects that the work of a backend counts while the backend runs, and
// after it has ended.
func expectProcessorTime(t *testing.T, server *servers.Postgres) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return
	}
	const (
		work = 100 * time.Millisecond
		step = 20 * time.Millisecond // the system counts ended processes in such steps
	)
	before := server.ProcessorTime()
	worker, err := pgx.Connect(t.Context(), server.DSN)
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for server.ProcessorTime()-before < work && time.Now().Before(deadline) {
		if _, err := worker.Exec(t.Context(), "SELECT count(*) FROM generate_series(1, 100000)"); err != nil {
			t.Fatal(err)
		}
	}
	worker.Close(t.Context())
	for time.Now().Before(deadline) {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", worker.PgConn().PID())); err != nil {
			break // the backend has ended
		}
		<-time.After(time.Millisecond)
	}
	if used := server.ProcessorTime() - before; used < work-step {
		t.Errorf("after queries of %v, and the end of their backend, the server has used %v", work, used)
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
