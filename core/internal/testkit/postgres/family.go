package postgrestest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A server is a family: the postmaster, which is the process that was started, and a child for each connection and each
// chore. The children leave the postmaster's process group, so a signal to the group does not reach them.

const (
	goneDeadline = time.Minute
	goneInterval = 5 * time.Millisecond
)

var (
	errStillThere = errors.New("processes are still there after they were killed")
	errNoSegment  = errors.New("postmaster.pid names no shared memory")
)

// freeze stops the postmaster, so that the family grows no more, and returns the others.
func (s *Server) freeze() []int {
	s.t.Helper()
	s.process.Pause()
	family, err := children(s.process.Pid())
	s.must("look at the processes of", err)
	return family
}

// resume wakes the children before the postmaster, which would wonder about those who do not react.
func (s *Server) resume() {
	s.t.Helper()
	family, err := children(s.process.Pid())
	s.must("look at the processes of", err)
	s.must("resume", signalAll(family, resuming))
	s.process.Resume()
}

// end asks the server to end: with SIGINT in order, with SIGQUIT at once. Both disconnect the clients.
func (s *Server) end(request syscall.Signal) {
	s.t.Helper()
	s.resume()
	s.must("stop", signal(s.process.Pid(), request))
	if errors.Is(s.process.Wait(), os.ErrDeadlineExceeded) {
		s.t.Errorf("postgrestest: the server did not stop")
		s.process.Kill()
	}
}

// takeAway ends the server, whose data nobody needs any more.
func (s *Server) takeAway() {
	s.t.Helper()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.end(syscall.SIGQUIT)
	s.removeSharedMemory()
}

// removeSharedMemory removes the segment by which a server that was killed would have recognized its own survivors. A
// server that was stopped has removed it, and the file that names it too.
func (s *Server) removeSharedMemory() {
	s.t.Helper()
	if segment, err := s.sharedMemory(); err == nil {
		s.must("remove the shared memory of", s.run("ipcrm", "-m", segment[1]))
	}
}

// sharedMemory is the segment's key and number, which the server has written into its data folder.
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

// awaitGone waits for killed processes, whose memory a new server would find in use.
func awaitGone(family []int) error {
	for start := time.Now(); ; <-time.After(goneInterval) {
		alive := 0
		for _, pid := range family {
			if isAlive(pid) {
				alive++
			}
		}
		if alive == 0 {
			return nil
		}
		if time.Since(start) > goneDeadline {
			return errStillThere
		}
	}
}
