package postgrestest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

// The tests talk to the server by psql, which is installed with it: so the root module requires no PostgreSQL driver.

// command is a psql that prints values alone and ends at the first error.
func command(ctx context.Context, t *testing.T, dsn string, arguments ...string) *exec.Cmd {
	t.Helper()
	program := filepath.Join(filepath.Dir(serverproc.Require(t, findPrograms).createdb), "psql")
	return exec.CommandContext(ctx, program, append([]string{
		"--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set", "ON_ERROR_STOP=1", "--dbname", dsn,
	}, arguments...)...)
}

// psql runs one statement on a connection of its own, and returns all that was printed.
func psql(ctx context.Context, t *testing.T, dsn, statement string) (string, error) {
	t.Helper()
	output, err := command(ctx, t, dsn, "--command", statement).CombinedOutput()
	return strings.TrimSpace(string(output)), err
}

func run(t *testing.T, dsn, statement string) {
	t.Helper()
	if output, err := psql(t.Context(), t, dsn, statement); err != nil {
		t.Fatalf("%s: %v: %s", statement, err, output)
	}
}

func expect(t *testing.T, dsn, query, want string) {
	t.Helper()
	if got, err := psql(t.Context(), t, dsn, query); err != nil || got != want {
		t.Errorf("%s gives %q and error %v, want %q", query, got, err, want)
	}
}

// session is a connection that lasts until the test ends.
type session struct {
	input io.Writer
	lines chan string // closed when the connection is
}

// open connects, and returns when the server serves the connection.
func open(t *testing.T, dsn string) *session {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	process := command(ctx, t, dsn)
	input, err := process.StdinPipe()
	testkit.Must(t, err)
	output, err := process.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, process.Start())
	s := &session{input: input, lines: make(chan string, 16)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(s.lines)
		for scanner := bufio.NewScanner(output); scanner.Scan(); {
			s.lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		_ = process.Wait() // it was killed
	})
	if answer := s.ask(t, "SELECT 'connected'"); answer != "connected" {
		t.Fatalf("a new connection gives %q", answer)
	}
	return s
}

func (s *session) ask(t *testing.T, query string) string {
	t.Helper()
	s.say(t, query)
	return s.hear(t)
}

// say sends a query. One that is sent on a connection that was cut is lost.
func (s *session) say(t *testing.T, query string) {
	t.Helper()
	if _, err := fmt.Fprintln(s.input, query+";"); err != nil {
		t.Logf("%s was not sent: %v", query, err)
	}
}

// hear returns the next line of an answer, or nothing when the connection has ended.
func (s *session) hear(t *testing.T) string {
	t.Helper()
	select {
	case line := <-s.lines:
		return line
	case <-time.After(10 * time.Second):
		t.Fatal("the server does not answer")
		return ""
	}
}
