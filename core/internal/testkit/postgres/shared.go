package postgrestest

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	serverproc "github.com/oncekey/oncekey/core/internal/testkit/server"
)

// TestingMain is the parameter and the result of [Main]: a *testing.M, and the parameter of goleak.VerifyTestMain.
type TestingMain interface{ Run() int }

// Main returns m with a clean-up of the server that [Shared] starts. TestMain runs the result instead of m.
func Main(m TestingMain) TestingMain { return sharing{m} }

type sharing struct{ TestingMain }

func (s sharing) Run() int {
	common.expected = true
	defer common.end()
	return s.TestingMain.Run()
}

// common is the server of this process.
var common sharedServer

type sharedServer struct {
	expected bool // Main will end the server

	mutex     sync.Mutex
	owner     *serverproc.Lasting
	server    *Server
	databases int
}

// Shared returns the address of an empty database for one test, on a server that all tests of a process share. The server
// runs from the first call to the end of the process. Do not stop or slow it down; use [Start] for that. The test's TestMain
// must use [Main].
func Shared(t testing.TB) string {
	t.Helper()
	if !common.expected {
		t.Fatal("postgrestest: Shared needs a TestMain that runs postgrestest.Main(m)")
	}
	requirePrograms(t)
	server, database := common.next(t)
	if err := server.run(server.programs.createdb, "--host", "127.0.0.1", "--port", strconv.Itoa(server.port),
		"--username", "postgres", "--no-password", database); err != nil {
		t.Fatalf("postgrestest: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the newest output of the shared server:\n%s", newest(server.process.Output()))
		}
	})
	return server.dsn(database)
}

// next returns the server, and the name of a new database. It starts the server on first use.
func (c *sharedServer) next(t testing.TB) (*Server, string) {
	t.Helper()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.server == nil {
		c.owner = &serverproc.Lasting{TB: t}
		c.server = Start(c.owner)
	}
	c.databases++
	return c.server, fmt.Sprintf("test%d", c.databases)
}

func (c *sharedServer) end() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.owner != nil {
		c.owner.End()
	}
}

func newest(lines []string) string {
	const enough = 50
	return strings.Join(lines[max(0, len(lines)-enough):], "\n")
}
