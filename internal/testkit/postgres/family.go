package postgrestest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
)

// A server is a family of processes: the postmaster, and a child for each connection and each background task. The children
// leave the postmaster's process group, so a signal to the group does not reach the children.

var (
	errStillThere = errors.New("processes still run after SIGKILL")
	errNoSegment  = errors.New("postmaster.pid names no shared memory")
)

// freeze stops the postmaster, so that no new children appear, and returns the children.
func (s *Server) freeze() []int {
	s.t.Helper()
	s.process.Pause()
	family, err := children(s.process.Pid())
	s.must("look at the processes of", err)
	return family
}

// resume continues the children before the postmaster, so that the postmaster finds no unresponsive child.
func (s *Server) resume() {
	s.t.Helper()
	family, err := children(s.process.Pid())
	s.must("look at the processes of", err)
	s.must("resume", signalAll(family, resuming))
	s.process.Resume()
}

// end asks the server to end: SIGINT shuts down in order, SIGQUIT at once. Both disconnect the clients.
func (s *Server) end(request syscall.Signal) {
	s.t.Helper()
	s.resume()
	s.must("stop", signal(s.process.Pid(), request))
	if errors.Is(s.process.Wait(), os.ErrDeadlineExceeded) {
		s.t.Errorf("postgrestest: the server did not stop")
		s.process.Kill()
	}
}

// takeAway ends the server without saving its data.
func (s *Server) takeAway() {
	s.t.Helper()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.end(syscall.SIGQUIT)
	s.removeSharedMemory()
}

// removeSharedMemory removes the segment by which a restarted server recognizes surviving processes. A server that shut
// down in order has removed the segment and its file.
func (s *Server) removeSharedMemory() {
	s.t.Helper()
	if segment, err := s.sharedMemory(); err == nil {
		s.must("remove the shared memory of", s.run("ipcrm", "-m", segment[1]))
	}
}

// sharedMemory returns the segment's key and number from the server's data folder.
func (s *Server) sharedMemory() ([]string, error) {
	const line, words = 6, 2
	content, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return nil, err
	}
	if lines := strings.Split(string(content), "\n"); len(lines) > line {
		if segment := strings.Fields(lines[line]); len(segment) == words {
			return segment, nil
		}
	}
	return nil, errNoSegment
}

func signalAll(family []int, what syscall.Signal) error {
	var failures []error
	for _, pid := range family {
		if err := signal(pid, what); err != nil && !errors.Is(err, os.ErrProcessDone) {
			failures = append(failures, fmt.Errorf("process %d: %w", pid, err))
		}
	}
	return errors.Join(failures...)
}

func signal(pid int, what syscall.Signal) error {
	process, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return process.Signal(what)
}

// awaitGone waits for killed processes, because a new server would find their memory in use.
func awaitGone(family []int) error {
	if !testkit.Poll(time.Minute, func() bool { return !slices.ContainsFunc(family, isAlive) }) {
		return errStillThere
	}
	return nil
}
