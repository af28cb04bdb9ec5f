// Package program_test tests the payments program from outside: by its command line, its output and its responses.
package program_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/internal/testkit"
	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

// built is the program, which is built once for all tests.
var built serverproc.Shared[string]

func TestMain(m *testing.M) { goleak.VerifyTestMain(built.Main(m)) }

// command is the program with arguments.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	binary := built.Get(t, func(t testing.TB) string { return serverproc.Build(t, "../../..", "./payments") })
	return exec.CommandContext(context.WithoutCancel(t.Context()), binary, args...)
}

// run runs the program to its end, and returns the exit code.
func run(t *testing.T, args []string, stdout, stderr io.Writer) int {
	t.Helper()
	program := command(t, args...)
	program.Stdout, program.Stderr = stdout, stderr
	_ = program.Run() // the exit code says it
	return program.ProcessState.ExitCode()
}

// routers are the values of -router.
var routers = []string{"chi", "gin"}

func TestWrongFlagsAreNamed(t *testing.T) {
	t.Parallel()
	tests := []struct{ args, flag, value, right string }{
		{"-router echo", "-router", `"echo"`, "chi or gin"},
		{"-store oracle", "-store", `"oracle"`, "memory, mysql, postgres, redis, sqlite or tiered"},
		{"-addr localhost", "-addr", `"localhost"`, "127.0.0.1:8080"},
		{"-addr localhost:http", "-addr", `"localhost:http"`, "a port from 0 to 65535"},
		{"-addr :65536", "-addr", `":65536"`, "a port from 0 to 65535"},
		{"-lock-ttl 30", "-lock-ttl", `"30"`, "such as 30s"},
		{"-lock-ttl 1ms", "-lock-ttl", `"1ms"`, "from 100ms to 1h"},
		{"-lock-ttl 72h", "-lock-ttl", `"72h"`, "from 100ms to 1h"},
		{"-store-timeout 0s", "-store-timeout", `"0s"`, "from 10ms to 1h"},
		{"-redis localhost:6379", "-redis", `"localhost:6379"`, "redis://127.0.0.1:6379/0"},
		{"-postgres localhost:5432", "-postgres", `"localhost:5432"`, "postgres://127.0.0.1:5432/postgres"},
		{"-mysql x", "-mysql", "", "-h lists the flags"},
		{"chi", "", `"chi"`, "everything is a flag"},
	}
	for _, test := range tests {
		var stdout, stderr bytes.Buffer
		code := run(t, strings.Fields(test.args), &stdout, &stderr)
		message := stderr.String()
		if code != 2 || stdout.Len() > 0 || strings.Count(message, "\n") != 1 {
			t.Errorf("%s: code %d, stdout %q, stderr %q, want code 2 and one line on stderr", test.args, code, &stdout, message)
		}
		for _, part := range []string{test.flag, test.value, test.right} {
			if !strings.Contains(message, part) {
				t.Errorf("%s: %q does not name %s", test.args, message, part)
			}
		}
	}
}

func TestHelpListsTheFlags(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if code := run(t, []string{"-h"}, &stdout, &stderr); code != 0 || stderr.Len() > 0 {
		t.Errorf("code %d, stderr %q, want neither", code, &stderr)
	}
	for _, name := range []string{"-addr", "-router", "-store", "-redis", "-postgres", "-file", "-dsn", "-lock-ttl", "-store-timeout", "-ledger"} {
		if !strings.Contains(stdout.String(), "  "+name+" ") {
			t.Errorf("%s is not listed in\n%s", name, &stdout)
		}
	}
}

func TestWhatCannotBeOpenedIsNamed(t *testing.T) {
	t.Parallel()
	taken := httptest.NewServer(http.NotFoundHandler())
	defer taken.Close()
	missing := filepath.Join(t.TempDir(), "none", "ledger")
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"-addr", taken.Listener.Addr().String()}, taken.Listener.Addr().String()},
		{[]string{"-ledger", missing}, missing},
		{[]string{"-store", "postgres", "-postgres", "postgres://127.0.0.1:1/shop?sslmode=disable"}, "postgres: "},
		{[]string{"-store", "sqlite", "-file", missing}, "sqlite: "},
		{[]string{"-store", "mysql", "-dsn", "root@tcp(127.0.0.1:1)/shop"}, "127.0.0.1:1"},
		{[]string{"-store", "tiered", "-postgres", "postgres://127.0.0.1:1/shop?sslmode=disable"}, "127.0.0.1:1"},
	} {
		var stdout, stderr bytes.Buffer
		args, want := row.args, row.want
		code := run(t, args, &stdout, &stderr)
		if code != 1 || stdout.Len() > 0 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%q: code %d, stdout %q, stderr %q, want code 1 and %s on stderr", args, code, &stdout, &stderr, want)
		}
	}
}

// Case 9: a signal ends the program after its running requests.
func TestSignalEndsInOrder(t *testing.T) {
	t.Parallel()
	for _, router := range routers {
		t.Run(router, func(t *testing.T) {
			t.Parallel()
			p := startProgram(t, "-router", router)
			answered := make(chan int, 1)
			go func() {
				defer close(answered) // also where send fails the test
				response, _ := send(t, p.url, pay("k", "tok_slow:300ms", 201))
				answered <- response.code
			}()
			awaitAttempt(t, p.url)
			p.end()
			testkit.Equal(t, <-answered, http.StatusCreated, "the status of the request in flight")
		})
	}
}

// program is the running program.
type program struct {
	*serverproc.Process
	t   *testing.T
	url string
}

// startProgram runs the program on a free port, until the test ends.
func startProgram(t *testing.T, args ...string) *program {
	t.Helper()
	p := &program{serverproc.Start(t, "payments", command(t, append(args, "-addr", "127.0.0.1:0")...)), t, ""}
	t.Cleanup(p.end)
	p.url = p.AwaitLine(regexp.MustCompile(`^listening on (http://127\.0\.0\.1:\d+)$`))[1]
	return p
}

// end signals the program, and wants an orderly end.
func (p *program) end() {
	p.t.Helper()
	p.Stop()
	testkit.Must(p.t, p.Wait())
}

// awaitAttempt returns when a handler runs.
func awaitAttempt(t *testing.T, url string) {
	t.Helper()
	testkit.Await(t, "for a handler to run", func() bool { return readLedger(t, url).Attempts > 0 })
}
