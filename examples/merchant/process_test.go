package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"time"

	"github.com/oncekey/oncekey/internal/testkit"
	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

// process is a merchant in a process of its own.
type process struct {
	*merchant
	program *serverproc.Process
}

var listening = regexp.MustCompile(`^listening on (\S+)$`)

// launch starts this test's binary as a merchant: the program itself, with a backend that
// stops at the point.
func (m *merchant) launch(router, file, point string) *process {
	m.Helper()
	command := exec.CommandContext(context.WithoutCancel(m.Context()), os.Args[0],
		"-addr", "127.0.0.1:0", "-router", router, "-store", "sqlite", "-file", file, "-lock-ttl", "1s")
	command.Env = append(os.Environ(), pointVariable+"="+point)
	p := &process{&merchant{T: m.T, b: m.b}, serverproc.Start(m, fmt.Sprintf("the merchant on %s, stopping %q", router, point), command)}
	m.Cleanup(p.program.Kill)
	p.url = p.program.AwaitLine(listening)[1]
	return p
}

// isStopped reports whether the process waits for its end at its point.
func (p *process) isStopped() bool { return slices.Contains(p.program.Output(), "stopped") }

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
	testkit.Await(p, "for the point", func() bool { return p.isStopped() || len(given) > 0 })
	if !p.isStopped() {
		a := <-given
		p.Fatalf("the request ended before the point, with %d %s", a.status, a.body)
	}
	p.program.Kill()
	cancel()
	if a := <-given; a.status == http.StatusOK || a.status == http.StatusCreated {
		p.Errorf("the killed process sent %s", a.body)
	}
}
