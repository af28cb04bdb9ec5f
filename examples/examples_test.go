// Package examples_test runs the smallest examples like a reader: it builds each program,
// starts it, and pays.
package examples_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/examples/internal/freeport"
)

const (
	buildDeadline  = 10 * time.Minute // of a busy machine that has compiled nothing yet
	answerDeadline = time.Minute      // for the first answer of a program, and for its end
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1")) // it never ends
}

// The three programs are equal, except for their routers.
var routers = []string{"chi", "gin", "nethttp"}

func TestExamplesPayOnce(t *testing.T) {
	t.Parallel()
	for _, router := range routers {
		t.Run(router, func(t *testing.T) {
			t.Parallel()
			p := start(t, router)

			first := p.pay(t, "secret", "k1")
			if first.status != http.StatusCreated || first.body != "payment 1\n" || first.replayed {
				t.Fatalf("the first request got %+v, want 201 and payment 1", first)
			}
			again := p.pay(t, "secret", "k1")
			if again.status != first.status || again.body != first.body || !again.replayed {
				t.Errorf("the same key got %+v, want a replay of the first response", again)
			}
			// The next payment's number counts the side effects: the replay had none.
			next := p.pay(t, "secret", "k2")
			if next.status != http.StatusCreated || next.body != "payment 2\n" || next.replayed {
				t.Errorf("another key got %+v, want 201 and payment 2", next)
			}

			// Case 24: a client without a login gets no stored response.
			for _, password := range []string{"", "wrong"} {
				if a := p.pay(t, password, "k1"); a.status != http.StatusUnauthorized {
					t.Errorf("alice with password %q got %+v, want 401", password, a)
				}
			}
			if a := p.pay(t, "secret", ""); a.status != http.StatusBadRequest {
				t.Errorf("without a key: %+v, want 400", a)
			}
			p.end(t)
		})
	}
}

// Each example must fit on one screen.
func TestExamplesAreShort(t *testing.T) {
	t.Parallel()
	for _, router := range routers {
		source, err := os.ReadFile(filepath.Join(router, "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(string(source), "\n"); lines >= 80 {
			t.Errorf("%s has %d lines, want fewer than 80", router, lines)
		}
	}
}

// program is a running example.
type program struct {
	url    string
	ended  chan error
	signal func() error
}

// start builds the example, with the race detector if the test has it, and runs the program
// on a port of its own.
func start(t *testing.T, router string) *program {
	t.Helper()
	binary := filepath.Join(t.TempDir(), router)
	arguments := append([]string{"build"}, raceFlag...)
	building, cancel := context.WithTimeout(t.Context(), buildDeadline)
	defer cancel()
	build := exec.CommandContext(building, "go", append(arguments, "-o", binary, "./"+router)...)
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, output)
	}
	const tries = 5 // each failure means that another program took the port in the meantime
	for range tries {
		if p := launch(t, binary); p != nil {
			return p
		}
	}
	t.Fatalf("found no port to listen on in %d tries", tries)
	return nil
}

func launch(t *testing.T, binary string) *program {
	t.Helper()
	addr := freeport.Reserve(t)
	var log strings.Builder
	command := exec.CommandContext(context.WithoutCancel(t.Context()), binary)
	command.Env = append(os.Environ(), "ADDR="+addr)
	command.Stdout, command.Stderr = &log, &log
	command.WaitDelay = answerDeadline
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	p := &program{
		url:    "http://" + addr,
		ended:  make(chan error, 1),
		signal: func() error { return command.Process.Signal(syscall.SIGTERM) },
	}
	exited := make(chan struct{})
	go func() {
		p.ended <- command.Wait()
		close(exited)
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill() // the program may have ended
		<-exited
		if t.Failed() {
			t.Logf("output of %s:\n%s", binary, &log)
		}
	})
	if !listens(t, addr, exited) {
		return nil
	}
	return p
}

// listens waits until a program listens, or the started program has ended.
func listens(t *testing.T, addr string, exited <-chan struct{}) bool {
	t.Helper()
	deadline := time.After(answerDeadline)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		if err == nil {
			connection.Close()
			return true
		}
		select {
		case <-exited:
			return false
		case <-deadline:
			t.Fatalf("no program listens on %s after %v: %v", addr, answerDeadline, err)
		case <-ticker.C:
		}
	}
}

type answer struct {
	status   int
	body     string
	replayed bool
}

func (p *program) pay(t *testing.T, password, key string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), answerDeadline)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/payments", strings.NewReader("amount=42"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.SetBasicAuth("alice", password)
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, string(body), response.Header.Get("X-Idempotent-Replay") == "true"}
}

// end sends an orchestrator's signal, and wants an orderly end.
func (p *program) end(t *testing.T) {
	t.Helper()
	if err := p.signal(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-p.ended:
		if err != nil {
			t.Errorf("SIGTERM ended the program with %v, want exit code 0", err)
		}
	case <-time.After(answerDeadline):
		t.Errorf("the program still runs %v after SIGTERM", answerDeadline)
	}
}
