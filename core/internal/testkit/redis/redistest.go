// Package redistest gives tests real Redis servers, which they may stop, kill and freeze as they like.
//
//	server := redistest.Start(t)
//	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
//	server.Kill()
//	server.Restart()
//
// Each Start runs a redis-server of its own on a free loopback port, empty, and takes it away with the test: tests can run
// in parallel and share nothing. A server keeps nothing over a restart unless it was started with [Persistent].
//
// [StartCluster] and [StartSentinel] run several of them that replace each other:
//
//	cluster := redistest.StartCluster(t, 3, 1)
//	shard := cluster.ShardOf("key")
//	shard.Master.Kill()
//	successor := cluster.Promote(shard.Replicas[0])
//
// They do so when they are told to, and never by themselves: on a busy machine a slow server looks dead to the others.
//
// The redis-server on the PATH is used, or the one that ONCEKEY_REDIS_SERVER names; it must be 7.0 or newer. Without one
// the test is skipped, or fails when ONCEKEY_REQUIRE_SERVERS is set.
package redistest

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	serverproc "github.com/oncekey/oncekey/core/internal/testkit/server"
)

// Server is a redis-server process. Its methods may be called from several goroutines; they take turns.
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

// Start runs a new, empty Redis server, waits until it answers, and stops it when the test ends. Arguments are words of
// redis.conf as the command line takes them ("--maxmemory", "1mb") and override the defaults; the server must answer
// without a password.
func Start(t testing.TB, arguments ...string) *Server {
	t.Helper()
	s := &Server{t: t, binary: requireBinary(t), directory: t.TempDir(), arguments: arguments}
	s.start()
	return s
}

// start launches the server on a port that is free.
func (s *Server) start() {
	s.t.Helper()
	serverproc.StartOnFreePort(s.t, func(port int) error {
		s.port = port
		return s.launch()
	}, s.portTaken)
}

// Persistent are the arguments for a server that loses nothing it has acknowledged, not even when it is killed. To add
// more: Start(t, append(redistest.Persistent(), "--maxmemory", "1mb")...).
func Persistent() []string {
	return []string{"--appendonly", "yes", "--appendfsync", "always"}
}

// Addr is the server's host and port. It stays the same over a restart.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL is the server's address as redis.ParseURL takes it.
func (s *Server) URL() string { return "redis://" + s.Addr() + "/0" }

// Ping returns nil when the server answers and serves commands, and an error when it is down, paused or still loading.
func (s *Server) Ping(ctx context.Context) error {
	s.mutex.Lock()
	pid := s.process.Pid()
	s.mutex.Unlock()
	return ping(ctx, s.Addr(), pid)
}

// Do sends one command, word by word, on a connection of its own. The answer is a string, an int64, nil, or a list of
// these; what the server refuses is an error with its words.
func (s *Server) Do(ctx context.Context, words ...string) (any, error) {
	return do(ctx, s.Addr(), words...)
}

// Stop shuts the server down in order and returns when it is gone.
func (s *Server) Stop() { s.t.Helper(); s.change((*serverproc.Process).Stop, true) }

// Kill ends the server at once, as a crash would, and returns when it is gone.
func (s *Server) Kill() { s.t.Helper(); s.change((*serverproc.Process).Kill, true) }

// Pause freezes the server: connections to it still succeed, but nothing answers until Resume.
func (s *Server) Pause() { s.t.Helper(); s.change((*serverproc.Process).Pause, false) }

// Resume lets a paused server go on. It answers what was asked of it in the meantime.
func (s *Server) Resume() { s.t.Helper(); s.change((*serverproc.Process).Resume, false) }

// Restart starts the server again on the same port with the same arguments and data directory, stopping it first if need
// be, and returns when it has loaded its data and answers. It fails the test when that does not succeed, so call it from
// the test's own goroutine.
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

// launch starts the process and waits until it answers.
func (s *Server) launch() error {
	s.t.Helper()
	command := exec.CommandContext(context.Background(), s.binary, s.commandLine()...)
	s.gone = false
	s.process = serverproc.Start(s.t, fmt.Sprintf("redis-server on port %d", s.port), command)
	s.t.Cleanup(s.process.Kill) // quicker than Stop, and nobody needs the data any more
	return s.process.Await(func(ctx context.Context) error { return ping(ctx, s.Addr(), s.process.Pid()) })
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

func (s *Server) portTaken() bool {
	return strings.Contains(strings.Join(s.process.Output(), "\n"), "Address already in use")
}
