package main

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
)

// process is a merchant in a process of its own.
type process struct {
	*merchant
	command *exec.Cmd
	stopped chan struct{}
	ended   chan struct{}
}

// launch starts this test's binary as a merchant: the program itself, with a backend that
// stops at the point.
func (m *merchant) launch(router, file, point string) *process {
	m.Helper()
	binary, err := os.Executable()
	testkit.Must(m, err)
	command := exec.CommandContext(context.WithoutCancel(m.Context()), binary,
		"-addr", "127.0.0.1:0", "-router", router, "-store", "sqlite", "-file", file, "-lock-ttl", "1s")
	command.Env = append(os.Environ(), pointVariable+"="+point)
	var log strings.Builder
	command.Stderr = &log
	output, err := command.StdoutPipe()
	testkit.Must(m, err)
	testkit.Must(m, command.Start())
	p := &process{&merchant{T: m.T, b: m.b}, command, make(chan struct{}), make(chan struct{})}
	listening := make(chan string, 1)
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if url, is := strings.CutPrefix(lines.Text(), "listening on "); is {
				listening <- url
			}
			if lines.Text() == "stopped" {
				close(p.stopped)
			}
		}
		_ = command.Wait() // killed
	}()
	m.Cleanup(func() {
		p.kill()
		if m.Failed() {
			m.Logf("the merchant on %s, stopping %q:\n%s", router, point, &log)
		}
	})
	select {
	case p.url = <-listening:
	case <-p.ended:
		m.Fatalf("the merchant ended: %s", &log)
	case <-time.After(patience):
		m.Fatalf("the merchant does not listen after %v", patience)
	}
	return p
}

// kill ends the process by SIGKILL, and waits for its end.
func (p *process) kill() {
	_ = p.command.Process.Kill() // it may have ended
	<-p.ended
}

// retry sends a request until it gets 200 or 201, as an agent does: after a 409 with Retry-After, a
// 503 and a lost connection. It returns an answer without a status when ctx ends.
func (m *merchant) retry(ctx context.Context, r request) answer {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond) // and not a second, to save the test's time
	defer ticker.Stop()
	for {
		a, err := m.try(ctx, r)
		temporary := err != nil || a.status == http.StatusServiceUnavailable || a.status == http.StatusConflict && a.header.Get("Retry-After") != ""
		switch {
		case a.status == http.StatusOK || a.status == http.StatusCreated || ctx.Err() != nil:
			return a
		case !temporary:
			m.Errorf("the retry of %s got %d %s", r.path, a.status, a.body)
			return a
		}
		<-ticker.C
	}
}

// killedAt sends a request until the process reaches its point, and kills the process.
func (p *process) killedAt(r request) {
	p.Helper()
	ctx, cancel := context.WithCancel(p.Context())
	defer cancel()
	given := make(chan answer, 1)
	go func() { given <- p.retry(ctx, r) }()
	select {
	case <-p.stopped:
	case a := <-given:
		p.Fatalf("the request ended before the point, with %d %s", a.status, a.body)
	}
	p.kill()
	cancel()
	if a := <-given; a.status == http.StatusOK || a.status == http.StatusCreated {
		p.Errorf("the killed process sent %s", a.body)
	}
}
