package mysqltest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	serverproc "github.com/oncekey/oncekey/core/internal/testkit/server"
)

// The oldest version that sqlstore supports.
const oldestMajor, oldestMinor = 10, 6

const versionDeadline = time.Minute

var errNotFound = errors.New("mariadbd not found: install it (Debian: apt-get install mariadb-server), or run make check")

var versionPattern = regexp.MustCompile(`Ver ((\d+)\.(\d+)\S*)-MariaDB`)

// programs are the paths of the programs that run a server.
type programs struct{ install, server, client string }

// findPrograms looks once: every test of a package starts servers, and the result does not change.
var findPrograms = sync.OnceValues(func() (programs, error) { return locate(exec.LookPath) })

// requirePrograms returns the programs to run. Without a supported version it skips or fails the test.
func requirePrograms(t testing.TB) programs {
	t.Helper()
	found, err := findPrograms()
	if err != nil {
		serverproc.Missing(t, err.Error())
	}
	return found
}

// locate finds the programs on the PATH, or in the folder of Debian's servers, which users may not have on the PATH.
func locate(look func(string) (string, error)) (found programs, err error) {
	for _, program := range []struct {
		name string
		path *string
	}{{"mariadb-install-db", &found.install}, {"mariadbd", &found.server}, {"mariadb", &found.client}} {
		if *program.path, err = look(program.name); err != nil {
			*program.path, err = look("/usr/sbin/" + program.name)
		}
		if err != nil {
			return programs{}, errNotFound
		}
	}
	return found, checkProgram(found.server)
}

func checkProgram(server string) error {
	ctx, cancel := context.WithTimeout(context.Background(), versionDeadline)
	defer cancel()
	banner, err := exec.CommandContext(ctx, server, "--no-defaults", "--version").Output()
	if err != nil {
		return fmt.Errorf("%s --version: %w", server, err)
	}
	return checkVersion(string(banner))
}

func checkVersion(banner string) error {
	match := versionPattern.FindStringSubmatch(banner)
	if match == nil {
		return fmt.Errorf("mariadbd --version printed no version of MariaDB: %q", banner)
	}
	major, majorErr := strconv.Atoi(match[2])
	minor, minorErr := strconv.Atoi(match[3])
	if err := errors.Join(majorErr, minorErr); err != nil {
		return err
	}
	if major < oldestMajor || major == oldestMajor && minor < oldestMinor {
		return fmt.Errorf("mariadbd %s is too old: %d.%d is the oldest that is supported", match[1], oldestMajor, oldestMinor)
	}
	return nil
}

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
		t.Fatal("mysqltest: Shared needs a TestMain that runs mysqltest.Main(m)")
	}
	requirePrograms(t)
	server, database := common.next(t)
	return server.dsn("root", database)
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
	database := "test" + strconv.Itoa(c.databases)
	c.server.Execute("CREATE DATABASE " + database)
	return c.server, database
}

func (c *sharedServer) end() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.owner != nil {
		c.owner.End()
	}
}
