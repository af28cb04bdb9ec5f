// Package postgrestest runs real PostgreSQL servers for tests, which may stop, kill and freeze the servers.
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Main(m)) }
//
//	pool, err := pgxpool.New(t.Context(), postgrestest.Shared(t)) // an empty database on a server that the package shares
//
//	server := postgrestest.Start(t) // a server of the test's own
//	server.Kill()
//	server.Restart()
//
// Starting a server takes a quarter of a second. Creating a database on the shared server takes a small part of that. Tests can
// run in parallel with either.
//
// The package searches the programs in the folder ONCEKEY_POSTGRES_BIN, or else in the usual folders, the highest version
// first, and then on the PATH. The version must be 13 or newer. Without the programs the test is skipped, or fails if
// ONCEKEY_REQUIRE_SERVERS is set. PostgreSQL refuses to run as root: for root the server runs as an
// unprivileged user, preferably postgres. The package imports no PostgreSQL client.
//
// Data folders are in the folder ONCEKEY_TEST_DATA, or else among the temporary files. A file system in memory halves
// the processor time of tests that create many databases.
package postgrestest

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
	"sync"
	"syscall"
	"testing"
	"time"

	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

// toolDeadline bounds programs such as initdb that do their work and end.
const toolDeadline = 5 * time.Minute

// readyLine is the ready message in our server's output, so another server on the port cannot be mistaken for ours. A
// standby accepts read-only connections, which version 13 spells in two words.
var readyLine = regexp.MustCompile(`database system is ready to accept (read.only )?connections`)

// Server is a PostgreSQL server with all its processes. Its methods are safe for concurrent use, and run one at a time.
type Server struct {
	t        testing.TB
	programs programs
	account  account
	folder   string // the parent of the data folder
	port     int
	settings []string

	mutex   sync.Mutex // one change of state at a time
	process *serverproc.Process
}

// Start runs a new, empty server, waits until the server responds, and removes the server at the end of the test. Settings
// are lines of postgresql.conf ("max_connections=10") and override the defaults.
//
// Acknowledged data survives Kill and Restart. Data that also survives a crash of the machine costs time, and needs
// [Durable].
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s := &Server{t: t, programs: serverproc.Require(t, findPrograms), settings: settings}
	s.createFolder()
	if err := s.initialize(); err != nil {
		t.Fatalf("postgrestest: %v", err)
	}
	s.start()
	return s
}

// initialize fills the data folder with a copy of a template.
func (s *Server) initialize() error {
	segments := "1" // megabytes a WAL file
	if slices.Contains(s.settings, waitsForDisk) {
		segments = "16"
	}
	arguments := []string{"--username", "postgres", "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync", "--wal-segsize", segments}
	template, err := serverproc.Template("PostgreSQL", append(arguments, s.programs.version), func(folder string) error {
		// The server's user cannot enter the folder of the templates.
		err := s.run(s.programs.initdb, append(arguments, "--pgdata", s.data())...)
		return errors.Join(err, os.CopyFS(folder, os.DirFS(s.data())), os.RemoveAll(s.data()))
	})
	if err != nil {
		return err
	}
	if err := errors.Join(os.CopyFS(s.data(), os.DirFS(template)), os.Chmod(s.data(), 0o700)); err != nil {
		return err
	}
	return filepath.WalkDir(s.data(), func(path string, _ os.DirEntry, err error) error { return errors.Join(err, s.account.own(path)) })
}

// Standby runs a server that follows this server from a copy of its data, and removes it at the end of the test. A standby
// is read-only until SELECT pg_promote(). The primary waits for the standby if synchronous_standby_names says so.
func (s *Server) Standby(settings ...string) *Server {
	s.t.Helper()
	standby := &Server{t: s.t, programs: s.programs, settings: settings}
	standby.createFolder()
	if err := standby.run(s.programs.backup, "--pgdata", standby.data(), "--dbname", s.DSN(), "--write-recovery-conf",
		"--checkpoint", "fast", "--no-sync"); err != nil {
		s.t.Fatalf("postgrestest: %v", err)
	}
	standby.start()
	return standby
}

// start launches the server on a free port.
func (s *Server) start() {
	s.t.Helper()
	serverproc.StartOnFreePort(s.t, func(port int) error {
		s.port = port
		return s.launch()
	}, func() bool { return s.process.PortTaken() })
}

const waitsForDisk = "fsync=on"

// Durable returns the settings of a server that waits for its disk before each acknowledgement, like a production server. Its
// WAL files have 16 MB, which is PostgreSQL's default. To add more: Start(t, append(postgrestest.Durable(), "max_connections=10")...).
func Durable() []string {
	return []string{waitsForDisk, "full_page_writes=on", "synchronous_commit=on"}
}

// DSN returns the address of the database postgres, for a superuser. The address stays the same after a restart.
func (s *Server) DSN() string { return s.dsn("postgres") }

func (s *Server) dsn(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
}

// ProcessorTime returns the processor time of all the server's processes: see [serverproc.Process.ProcessorTime].
func (s *Server) ProcessorTime() time.Duration { return s.process.ProcessorTime() }

// Stop shuts the server down in order and waits for its end. It does not wait for clients to disconnect.
func (s *Server) Stop() {
	s.t.Helper()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.end(syscall.SIGINT)
}

// Kill ends all processes of the server at once, like a crash, and waits for their end.
func (s *Server) Kill() {
	s.t.Helper()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	family := s.freeze()
	s.must("kill", signalAll(family, syscall.SIGKILL))
	s.process.Kill()
	s.must("kill", awaitGone(family))
}

// Pause freezes all processes of the server: connections still succeed, but the server does not respond until Resume.
func (s *Server) Pause() {
	s.t.Helper()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.must("pause", signalAll(s.freeze(), freezing))
}

// Resume continues a paused server. The server then responds to the requests of the meantime.
func (s *Server) Resume() {
	s.t.Helper()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.resume()
}

// Restart starts the server again with the same port, settings and data. A running server is stopped first. It returns when
// the server has recovered and responds. It may fail the test, so call it from the test's own goroutine.
func (s *Server) Restart() {
	s.t.Helper()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.end(syscall.SIGINT)
	if err := s.launch(); err != nil {
		s.t.Fatalf("postgrestest: restart: %v", err)
	}
}

// createFolder creates the data folder. It is not under t.TempDir, which only the test's own user can enter.
func (s *Server) createFolder() {
	s.t.Helper()
	account, err := serverAccount()
	if err != nil {
		serverproc.Missing(s.t, err.Error())
	}
	s.account = account
	s.folder = serverproc.Folder(s.t)
	if err := s.account.own(s.folder); err != nil {
		s.t.Fatalf("postgrestest: %v", err)
	}
}

func (s *Server) data() string { return filepath.Join(s.folder, "data") }

// launch starts the process and waits until the server responds.
func (s *Server) launch() error {
	s.t.Helper()
	arguments := []string{"-D", s.data(), "-p", strconv.Itoa(s.port)}
	for _, setting := range slices.Concat(defaults, s.settings) {
		arguments = append(arguments, "-c", setting)
	}
	s.process = serverproc.Start(s.t, fmt.Sprintf("postgres on port %d", s.port), s.command(context.Background(), s.programs.postgres, arguments...))
	s.t.Cleanup(s.takeAway) // before the process's own clean-up, which would wait for all clients to disconnect
	_, err := s.process.FindLine(readyLine)
	return err
}

var defaults = []string{
	"listen_addresses=127.0.0.1",
	"unix_socket_directories=",
	"max_connections=800", // tests have pools of 20, and many run at once
	"shared_buffers=32MB",
	"fsync=off",
	"full_page_writes=off",
	"max_wal_size=1GB",
	// A killed server leaves its shared memory behind. Here that is in the server's folder, which is removed.
	"dynamic_shared_memory_type=mmap",
}

// command prepares a program to run as the server's user, in a folder that this user can enter.
func (s *Server) command(ctx context.Context, program string, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, program, arguments...)
	command.Dir = s.folder
	command.Env = append(os.Environ(), "LC_ALL=C") // English messages
	s.account.become(command)
	return command
}

// run runs a program to its end.
func (s *Server) run(program string, arguments ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), toolDeadline)
	defer cancel()
	if output, err := s.command(ctx, program, arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w:\n%s", filepath.Base(program), err, output)
	}
	return nil
}

// must reports a failed action. A process that has already ended is no error.
func (s *Server) must(action string, err error) {
	s.t.Helper()
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Errorf("postgrestest: %s the server: %v", action, err)
	}
}
