package serverproc

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// TestingMain is the parameter and the result of [Shared.Main]: a *testing.M, and the parameter of goleak.VerifyTestMain.
type TestingMain interface{ Run() int }

// Shared is a server, or a program, that all tests of a process share. The zero value is ready, and starts no server before the
// first call of Get. Its methods are safe for concurrent use.
type Shared[Server any] struct {
	mutex     sync.Mutex
	expected  bool // Main will end the server
	owner     *Lasting
	server    Server
	databases atomic.Int64
}

// Main returns m with a clean-up of the server. TestMain runs the result instead of m.
func (s *Shared[Server]) Main(m TestingMain) TestingMain {
	return running(func() int {
		s.mutex.Lock()
		s.expected = true
		s.mutex.Unlock()
		defer s.end()
		return m.Run()
	})
}

type running func() int

func (run running) Run() int { return run() }

// Database returns the server, and a name for a database that no other test has got.
func (s *Shared[Server]) Database(t testing.TB, start func(testing.TB) Server) (server Server, name string) {
	t.Helper()
	return s.Get(t, start), fmt.Sprintf("test%d", s.databases.Add(1))
}

// Get returns the server. The first call starts it. Without Main the test fails, because the server would outlive the process.
func (s *Shared[Server]) Get(t testing.TB, start func(testing.TB) Server) Server {
	t.Helper()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !s.expected {
		t.Fatal("serverproc: a shared server needs a TestMain that runs the package's Main(m)")
	}
	if s.owner == nil {
		owner := &Lasting{TB: t}
		started := false
		defer func() {
			if !started { // start has failed the test
				owner.End()
			}
		}()
		s.server = start(owner)
		s.owner, started = owner, true
	}
	return s.server
}

func (s *Shared[Server]) end() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.owner != nil {
		s.owner.End()
	}
}
