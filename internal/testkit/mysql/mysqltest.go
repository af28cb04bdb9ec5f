// Package mysqltest runs real servers of MySQL and MariaDB for tests, which may stop, kill and freeze the servers.
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(mysqltest.Main(m)) }
//
//	db, err := sql.Open("mysql", mysqltest.MariaDB.Shared(t)) // an empty database on a server that the package shares
//
//	server := mysqltest.MySQL.Start(t) // a server of the test's own
//	server.Kill()
//	server.Restart()
//
// MySQL is the mysqld on the PATH, in build/mysql of the repository (see tools/install-mysql.sh) or in the usual folders, of
// version 8.0 or newer. MariaDB is the mariadbd on the PATH or in /usr/sbin, of version 10.6 or newer. Without the program
// the test is skipped, or fails if ONCEKEY_REQUIRE_SERVERS is set. Addresses are in the form of
// github.com/go-sql-driver/mysql, which the test imports: the package has no client of its own.
package mysqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

// data is the name of the data folder.
const data = "data"

// Forgetful is the setting of a server that may lose what it has acknowledged within the last second.
const Forgetful = "innodb_flush_log_at_trx_commit=0"

// statementDeadline bounds one statement.
const statementDeadline = time.Minute

var readyLine = regexp.MustCompile(`ready for connections`)

// Server is a server of MySQL or MariaDB. Call its methods from one goroutine at a time, except Execute.
type Server struct {
	t        testing.TB
	vendor   *Vendor
	program  program
	folder   string // the parent of the data folder
	port     int
	settings []string
	process  *serverproc.Process
}

// Start runs a new, empty server, waits until the server responds, and removes the server at the end of the test. Settings
// are options without hyphens ("max_connections=10") and override the defaults.
//
// Acknowledged data survives Kill and Restart with the default settings. A crash of the machine is not tested.
func (v *Vendor) Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	serverproc.Require(t, v.find)
	template, err := v.template()
	if err != nil {
		t.Fatalf("mysqltest: prepare the data of %s: %v", v.name, err)
	}
	return v.startFrom(t, template, settings...)
}

// startFrom is Start with a copy of the data folder of a stopped server.
func (v *Vendor) startFrom(t testing.TB, template string, settings ...string) *Server {
	t.Helper()
	s := &Server{t: t, vendor: v, program: serverproc.Require(t, v.find), settings: settings}
	s.folder = serverproc.Folder(t)
	if slices.Contains(settings, Forgetful) { // in /dev/shm, MariaDB maps its log into memory, and loses nothing that it may lose
		s.folder = serverproc.FolderOnDisk(t)
	}
	folder := filepath.Join(s.folder, data)
	// Started by root, the rsync of a Galera node writes as another user. The parent folder keeps all users out.
	if err := errors.Join(os.CopyFS(folder, os.DirFS(template)), os.Chmod(folder, 0o777)); err != nil {
		t.Fatalf("mysqltest: %v", err)
	}
	serverproc.StartOnFreePort(t, func(port int) error {
		s.port = port
		return s.launch()
	}, func() bool { return s.process.PortTaken() })
	return s
}

// DSN returns the address of the database mysql, for an account with all rights. It stays the same after a restart.
func (s *Server) DSN() string { return s.dsn("mysql") }

func (s *Server) dsn(database string) string {
	return fmt.Sprintf("root@tcp(%s)/%s", s.Addr(), database)
}

// Addr returns the host and the port.
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// ProcessorTime returns the server's processor time: see [serverproc.Process.ProcessorTime].
func (s *Server) ProcessorTime() time.Duration { return s.process.ProcessorTime() }

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

// Execute runs one statement as an account with all rights.
func (s *Server) Execute(statement string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), statementDeadline)
	defer cancel()
	db, err := sql.Open("mysql", s.DSN())
	if err == nil {
		_, err = db.ExecContext(ctx, statement)
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		s.t.Fatalf("mysqltest: %s: %v", statement, err)
	}
}

// defaults are for both vendors, at the start of a server.
var defaults = []string{
	"bind_address=127.0.0.1",
	"max_connections=800", // tests have pools of 20, and many run at once
	"innodb_buffer_pool_size=32M",
	"performance_schema=off",
	// The file system's cache survives the kill of a process, so tests that kill the server need no fsync. The log is
	// still written at each commit.
	"innodb_flush_method=nosync",
	"innodb_fast_shutdown=2",
}

// options are those of all programs over a data folder. Running as root must be confirmed.
func options(folder string, settings []string) []string {
	// The kernel bounds the native requests of all servers together, and tests run many servers. A server that starts
	// removes the temporary tables of all others in its tmpdir, so each has a folder of its own.
	options := []string{"--no-defaults", "--datadir=" + filepath.Join(folder, data), "--tmpdir=" + folder, "--innodb-use-native-aio=0"}
	if os.Geteuid() == 0 {
		options = append(options, "--user=root")
	}
	for _, setting := range settings {
		options = append(options, "--"+setting)
	}
	return options
}

// launch starts the process and waits until the server responds.
func (s *Server) launch() error {
	s.t.Helper()
	own := []string{
		fmt.Sprintf("port=%d", s.port), "pid-file=" + filepath.Join(s.folder, "pid"),
		"socket=socket", // in the data folder: a socket's path has a hundred bytes at most
	}
	arguments := options(s.folder, slices.Concat(own, defaults, s.vendor.settings, s.settings))
	s.process = serverproc.Start(s.t, fmt.Sprintf("%s on port %d", s.vendor.name, s.port), exec.CommandContext(context.Background(), s.program.path, arguments...))
	s.t.Cleanup(s.process.Kill) // quicker than Stop, because the data is no longer needed
	_, err := s.process.FindLine(readyLine)
	return err
}
