// Package redistest runs real Redis servers for tests, which may stop, kill and freeze the servers.
//
//	server := redistest.Start(t)
//	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
//	server.Kill()
//	server.Restart()
//
// Each Start runs an empty redis-server on a free loopback port, and removes the server at the end of the test. Tests can
// run in parallel and share no server. A restart loses all data, unless the server was started with [Persistent].
//
// [StartCluster] and [StartSentinel] run groups of servers that can replace a master:
//
//	cluster := redistest.StartCluster(t, 3, 1)
//	shard := cluster.ShardOf("key")
//	shard.Master.Kill()
//	successor := cluster.Promote(shard.Replicas[0])
//
// A replacement happens only on request, never by itself, because on a busy machine a slow server looks dead to the others.
//
// The package uses the redis-server on the PATH, or the program in ONCEKEY_REDIS_SERVER. Its version must be 7.0 or newer.
// Without one the test is skipped, or fails if ONCEKEY_REQUIRE_SERVERS is set.
package redistest

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

// Server is a redis-server process. Its methods are safe for concurrent use, and run one at a time.
type Server struct {
	t         testing.TB
	binary    string
	directory string
	port      int
	arguments []string
	// configuration is the file of a sentinel, and empty for every other server.
	configuration string

	mutex   sync.Mutex // one change of state at a time
	process *serverproc.Process
	gone    bool // stopped or killed
}

// Start runs a new, empty Redis server, waits until the server responds, and stops the server at the end of the test. The
// arguments are directives of redis.conf in command-line form ("--maxmemory", "1mb") and override the defaults. The server
// must not require a password.
func Start(t testing.TB, arguments ...string) *Server {
	t.Helper()
	s := &Server{t: t, binary: serverproc.Require(t, findBinary), directory: serverproc.Folder(t), arguments: arguments}
	s.start()
	return s
}

// start launches the server on a free port.
func (s *Server) start() {
	s.t.Helper()
	serverproc.StartOnFreePort(s.t, func(port int) error {
		s.port = port
		return s.launch()
	}, func() bool { return s.process.PortTaken() })
}

// Persistent returns the arguments of a server that keeps every acknowledged write, even after Kill. To add more:
// Start(t, append(redistest.Persistent(), "--maxmemory", "1mb")...).
func Persistent() []string {
	return []string{"--appendonly", "yes", "--appendfsync", "always"}
}

// Addr returns the server's host and port, which stay the same after a restart.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL returns the server's address in the form of redis.ParseURL.
func (s *Server) URL() string { return "redis://" + s.Addr() + "/0" }

// Ping returns nil if the server serves commands, and an error if the server is down, paused or still loading.
func (s *Server) Ping(ctx context.Context) error {
	s.mutex.Lock()
	pid := s.process.Pid()
	s.mutex.Unlock()
	return s.ping(ctx, pid)
}

// ProcessorTime returns the server's processor time: see [serverproc.Process.ProcessorTime].
func (s *Server) ProcessorTime() time.Duration { return s.process.ProcessorTime() }

// Stop shuts the server down in order and waits for its end.
func (s *Server) Stop() { s.t.Helper(); s.change((*serverproc.Process).Stop, true) }

// Kill ends the server at once, like a crash, and waits for its end.
func (s *Server) Kill() { s.t.Helper(); s.change((*serverproc.Process).Kill, true) }

// Pause freezes the server: connections still succeed, but the server does not reply until Resume.
func (s *Server) Pause() { s.t.Helper(); s.change((*serverproc.Process).Pause, false) }

// Resume continues a paused server. The server then replies to the commands of the meantime.
func (s *Server) Resume() { s.t.Helper(); s.change((*serverproc.Process).Resume, false) }

// Restart starts the server again with the same port, arguments and data directory. A running server is stopped first. It
// returns when the server has loaded its data and responds. It may fail the test, so call it from the test's own goroutine.
func (s *Server) Restart() {
	s.t.Helper()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.process.Stop()
	if err := s.launch(); err != nil {
		s.t.Fatalf("redistest: restart: %v", err)
	}
}

func (s *Server) change(action func(*serverproc.Process), ends bool) {
	s.t.Helper()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	action(s.process)
	s.gone = s.gone || ends
}

// launch starts the process and waits until the server responds.
func (s *Server) launch() error {
	s.t.Helper()
	command := exec.CommandContext(context.Background(), s.binary, s.commandLine()...)
	s.gone = false
	s.process = serverproc.Start(s.t, fmt.Sprintf("redis-server on port %d", s.port), command)
	s.t.Cleanup(s.process.Kill) // quicker than Stop, because the data is no longer needed
	return s.process.Await(func(ctx context.Context) error { return s.ping(ctx, s.process.Pid()) })
}

func (s *Server) commandLine() []string {
	everywhere := []string{"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.directory, "--daemonize", "no"}
	if s.configuration != "" {
		return append([]string{s.configuration, "--sentinel"}, everywhere...)
	}
	return slices.Concat(everywhere, []string{"--save", "", "--appendonly", "no"}, s.arguments)
}

// isGone reports whether the server has been stopped or killed.
func (s *Server) isGone() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.gone
}
