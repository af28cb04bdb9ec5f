// Package postgrestest gives tests real PostgreSQL servers, which they may stop, kill and freeze as they like.
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Main(m)) }
//
//	pool, err := pgxpool.New(t.Context(), postgrestest.Shared(t)) // an empty database on a server that the package shares
//
//	server := postgrestest.Start(t) // a server of the test's own
//	server.Kill()
//	server.Restart()
//
// Starting a server takes most of a second, a database on the shared one a small part of that. Tests can run in parallel
// with either.
//
// The programs are looked for in the folder that ONCEKEY_POSTGRES_BIN names, or else where systems install them, the
// highest version first, and then on the PATH; they must be of version 13 or newer. Without them the test is skipped, or
// fails when ONCEKEY_REQUIRE_SERVERS is set. PostgreSQL refuses to run as root: for root the server runs as the user
// postgres, or nobody. The package imports no PostgreSQL client.
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
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	serverproc "github.com/oncekey/oncekey/core/internal/testkit/server"
)

// toolDeadline bounds the programs that do their work and end.
const toolDeadline = 5 * time.Minute

// readyLine is printed by the server that we have started, and by no other one that may have taken its port. A standby
// accepts those that only read, which version 13 spells in two words.
var readyLine = regexp.MustCompile(`database system is ready to accept (read.only )?connections`)

var errNotReady = errors.New("it has not said that it accepts connections")

// Server is a PostgreSQL server with all its processes. Its methods may be called from several goroutines; they take turns.
type Server struct {
	t        testing.TB
	programs programs
	account  account
	folder   string // that of the data folder
	port     int
	settings []string

	mutex   sync.Mutex // one change of state at a time
	process *serverproc.Process
}

// Start runs a new, empty server, waits until it answers, and takes it away when the test ends. Settings are words of
// postgresql.conf ("max_connections=10") and override the defaults.
//
// What a server has acknowledged is there again after Kill and Restart. That it would survive the machine's end too costs
// time, so it takes [Durable].
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s := &Server{t: t, programs: requirePrograms(t), settings: settings}
	s.createFolder()
	if err := s.run(s.programs.initdb, "--pgdata", s.data(), "--username", "postgres", "--auth", "trust",
		"--encoding", "UTF8", "--locale", "C", "--no-sync", "--wal-segsize", "1"); err != nil {
		t.Fatalf("postgrestest: %v", err)
	}
	s.start()
	return s
}

// Standby runs a server that follows this one, with all that this one has by now, and takes it away when the test ends. It
// only reads until somebody sends it SELECT pg_promote(). This one waits for it where its synchronous_standby_names says so.
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

// start launches the server on a port that is free.
func (s *Server) start() {
	s.t.Helper()
	serverproc.StartOnFreePort(s.t, func(port int) error {
		s.port = port
		return s.launch()
	}, s.portTaken)
}

// Durable are the settings of a server that waits for its disk before it acknowledges, as one in production does. To add
// more: Start(t, append(postgrestest.Durable(), "max_connections=10")...).
func Durable() []string {
	return []string{"fsync=on", "full_page_writes=on", "synchronous_commit=on"}
}

// DSN is the address of the server's database postgres, in which the user is a superuser. It stays the same over a restart.
func (s *Server) DSN() string { return s.dsn("postgres") }

func (s *Server) dsn(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
}

// Stop shuts the server down in order and returns when it is gone. It does not wait for clients to leave.
func (s *Server) Stop() {
	s.t.Helper()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.end(syscall.SIGINT)
}

// Kill ends all processes of the server at once, as a crash would, and returns when they are gone.
func (s *Server) Kill() {
	s.t.Helper()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	family := s.freeze()
	s.must("kill", signalAll(family, syscall.SIGKILL))
	s.process.Kill()
	s.must("kill", awaitGone(family))
}

// Pause freezes all processes of the server: connections to it still succeed, but nothing answers until Resume.
func (s *Server) Pause() {
	s.t.Helper()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.must("pause", signalAll(s.freeze(), freezing))
}

// Resume lets a paused server go on. It answers what was asked of it in the meantime.
func (s *Server) Resume() {
	s.t.Helper()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.resume()
}

// Restart starts the server again on the same port with the same settings and data, stopping it first if need be, and
// returns when it has recovered and answers. It fails the test when that does not succeed, so call it from the test's own
// goroutine.
func (s *Server) Restart() {
	s.t.Helper()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.end(syscall.SIGINT)
	if err := s.launch(); err != nil {
		s.t.Fatalf("postgrestest: restart: %v", err)
	}
}

// createFolder makes room for the data. It is not under t.TempDir, which nobody but the test's own user can enter.
func (s *Server) createFolder() {
	s.t.Helper()
	account, err := serverAccount()
	if err != nil {
		serverproc.Missing(s.t, err.Error())
	}
	s.account = account
	s.folder, err = os.MkdirTemp("", "oncekey-postgres-")
	if err != nil {
		s.t.Fatalf("postgrestest: %v", err)
	}
	s.t.Cleanup(func() { s.must("remove the data of", os.RemoveAll(s.folder)) })
	if err := s.account.own(s.folder); err != nil {
		s.t.Fatalf("postgrestest: %v", err)
	}
}

func (s *Server) data() string { return filepath.Join(s.folder, "data") }

// launch starts the process and waits until it answers.
func (s *Server) launch() error {
	s.t.Helper()
	arguments := []string{"-D", s.data(), "-p", strconv.Itoa(s.port)}
	for _, setting := range slices.Concat(defaults, s.settings) {
		arguments = append(arguments, "-c", setting)
	}
	s.process = serverproc.Start(s.t, fmt.Sprintf("postgres on port %d", s.port), s.command(context.Background(), s.programs.postgres, arguments...))
	s.t.Cleanup(s.takeAway) // before the process's own clean-up, which would wait for all clients to leave
	return s.process.Await(func(context.Context) error {
		if slices.ContainsFunc(s.process.Output(), readyLine.MatchString) {
			return nil
		}
		return errNotReady
	})
}

var defaults = []string{
	"listen_addresses=127.0.0.1",
	"unix_socket_directories=",
	"max_connections=200",
	"shared_buffers=32MB",
	"fsync=off",
	"full_page_writes=off",
	"max_wal_size=1GB",
	// A killed server leaves its shared memory behind: in its own folder, which is removed.
	"dynamic_shared_memory_type=mmap",
}

// command prepares a program to run as the server's user, in a folder that this user can enter.
func (s *Server) command(ctx context.Context, program string, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, program, arguments...)
	command.Dir = s.folder
	command.Env = append(os.Environ(), "LC_ALL=C") // so that its messages are the ones that we know
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

func (s *Server) portTaken() bool {
	return strings.Contains(strings.Join(s.process.Output(), "\n"), "Address already in use")
}

// must reports what could not be done. A process that is gone already is no error.
func (s *Server) must(action string, err error) {
	s.t.Helper()
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Errorf("postgrestest: %s the server: %v", action, err)
	}
}
