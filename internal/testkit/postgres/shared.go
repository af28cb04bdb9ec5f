package postgrestest

import (
	"strconv"
	"strings"
	"testing"

	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

// Main returns m with a clean-up of the server that [Shared] starts. TestMain runs the result instead of m.
func Main(m serverproc.TestingMain) serverproc.TestingMain { return common.Main(m) }

// common is the server of this process.
var common serverproc.Shared[*Server]

// Shared returns the address of an empty database for one test, on a server that all tests of a process share. The server
// runs from the first call to the end of the process. Do not stop or slow it down; use [Start] for that. The test's TestMain
// must use [Main].
func Shared(t testing.TB) string {
	t.Helper()
	serverproc.Require(t, findPrograms)
	server, database := common.Database(t, func(t testing.TB) *Server { return Start(t) })
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

func newest(lines []string) string {
	const enough = 50
	return strings.Join(lines[max(0, len(lines)-enough):], "\n")
}
