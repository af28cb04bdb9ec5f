// Package mysqltest runs real MariaDB servers for tests, which may stop, kill and freeze the servers.
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(mysqltest.Main(m)) }
//
//	db, err := sql.Open("mysql", mysqltest.Shared(t)) // an empty database on a server that the package shares
//
//	server := mysqltest.Start(t) // a server of the test's own
//	server.Kill()
//	server.Restart()
//
// The package uses the programs mariadbd, mariadb-install-db and mariadb on the PATH and in /usr/sbin. The version must be
// 10.6 or newer. Without the programs the test is skipped, or fails if ONCEKEY_REQUIRE_SERVERS is set. The package imports no
// client. Addresses are in the form of github.com/go-sql-driver/mysql.
package mysqltest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	serverproc "github.com/oncekey/oncekey/core/internal/testkit/server"
)

// toolDeadline bounds programs that do their work and end.
const toolDeadline = 5 * time.Minute

var readyLine = regexp.MustCompile(`ready for connections`)

var errNotReady = errors.New("the server has not reported that it accepts connections")

// Server is a MariaDB server. Call its methods from one goroutine at a time.
type Server struct {
	t        testing.TB
	programs programs
	folder   string // the parent of the data folder
	port     int
	settings []string
	process  *serverproc.Process
}

// Start runs a new, empty server, waits until the server responds, and removes the server at the end of the test. Settings
// are options without hyphens ("max_connections=10") and override the defaults.
//
// Acknowledged data survives Kill and Restart with the default settings. A crash of the machine is not tested.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s := &Server{t: t, programs: requirePrograms(t), settings: settings}
	var err error
	if s.folder, err = os.MkdirTemp("", "oncekey-mariadb-"); err != nil { //nolint:usetesting // a shared server outlives the test that starts it
		t.Fatalf("mysqltest: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(s.folder); err != nil {
			t.Errorf("mysqltest: remove the data: %v", err)
		}
	})
	s.run(s.programs.install, s.options("--auth-root-authentication-method=normal", "--skip-test-db", "--skip-log-bin")...)
	serverproc.StartOnFreePort(t, func(port int) error {
		s.port = port
		return s.launch()
	}, func() bool { return strings.Contains(strings.Join(s.process.Output(), "\n"), "Address already in use") })
	return s
}

// DSN returns the address of the database mysql, for an account with all rights. It stays the same after a restart.
func (s *Server) DSN() string { return s.dsn("root", "mysql") }

// As returns another DSN of the server with another account.
func (*Server) As(dsn, account string) string {
	_, rest, _ := strings.Cut(dsn, "@")
	return account + "@" + rest
}

func (s *Server) dsn(account, database string) string {
	return fmt.Sprintf("%s@tcp(127.0.0.1:%d)/%s", account, s.port, database)
}

// Addr returns the host and the port.
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// Stop shuts the server down in order and waits for its end.
func (s *Server) Stop() { s.process.Stop() }

// Kill ends the server at once, like a crash, and waits for its end.
func (s *Server) Kill() { s.process.Kill() }

// Pause freezes the server: connections still succeed, but the server does not respond until Resume.
func (s *Server) Pause() { s.process.Pause() }

// Resume continues a paused server.
func (s *Server) Resume() { s.process.Resume() }

// Restart starts the server again with the same port, settings and data. A running server is stopped first. It returns when
// the server has recovered and responds.
func (s *Server) Restart() {
	s.t.Helper()
	s.process.Stop()
	if err := s.launch(); err != nil {
		s.t.Fatalf("mysqltest: restart: %v", err)
	}
}

// Execute runs SQL as an account with all rights.
func (s *Server) Execute(statements string) {
	s.t.Helper()
	s.run(s.programs.client, "--no-defaults", "--host=127.0.0.1", "--port="+strconv.Itoa(s.port), "--user=root", "--execute="+statements)
}

// options are those of the server's programs. A server that runs as root needs to be told so.
func (s *Server) options(more ...string) []string {
	// The kernel bounds the native requests of all servers together, and tests run many servers. A server that starts
	// removes the temporary tables of all others in its tmpdir, so each has a folder of its own.
	options := []string{
		"--no-defaults", "--datadir=" + filepath.Join(s.folder, "data"), "--tmpdir=" + s.folder, "--innodb-use-native-aio=0",
	}
	if os.Geteuid() == 0 {
		options = append(options, "--user=root")
	}
	return append(options, more...)
}

var defaults = []string{
	"bind-address=127.0.0.1",
	"skip-name-resolve",
	"max_connections=200",
	"innodb_buffer_pool_size=32M",
	"innodb_log_file_size=16M",
	"performance_schema=off",
	// The file system's cache survives the kill of a process, so tests that kill the server need no fsync. The log is
	// still written at each commit.
	"innodb_flush_method=nosync",
	"innodb_fast_shutdown=2",
}

// launch starts the process and waits until the server responds.
func (s *Server) launch() error {
	s.t.Helper()
	arguments := s.options("--port="+strconv.Itoa(s.port), "--socket="+filepath.Join(s.folder, "socket"), "--pid-file="+filepath.Join(s.folder, "pid"))
	for _, setting := range slices.Concat(defaults, s.settings) {
		arguments = append(arguments, "--"+setting)
	}
	s.process = serverproc.Start(s.t, fmt.Sprintf("mariadbd on port %d", s.port), exec.CommandContext(context.Background(), s.programs.server, arguments...))
	return s.process.Await(func(context.Context) error {
		if slices.ContainsFunc(s.process.Output(), readyLine.MatchString) {
			return nil
		}
		return errNotReady
	})
}

// run runs a program to its end.
func (s *Server) run(program string, arguments ...string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), toolDeadline)
	defer cancel()
	if output, err := exec.CommandContext(ctx, program, arguments...).CombinedOutput(); err != nil {
		s.t.Fatalf("mysqltest: %s: %v:\n%s", filepath.Base(program), err, output)
	}
}
