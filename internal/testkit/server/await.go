package serverproc

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

const (
	probeInterval = 10 * time.Millisecond
	probeDeadline = 10 * time.Second
)

var errNoSuchLine = errors.New("no such line yet")

// Await calls probe until it succeeds. Await gives up when the program ends or the deadline passes. The error then names
// the reason, the last error of probe and the program's output. The context bounds a single call of probe.
func (p *Process) Await(probe func(context.Context) error) error {
	giveUp := time.NewTimer(readyDeadline)
	defer giveUp.Stop()
	for {
		// Checked before the probe, so that the probe sees all output of a program that has ended.
		ended := p.hasEnded()
		err := Probe(probe)
		if err == nil {
			return nil
		}
		if ended {
			return p.notReady(fmt.Sprintf("ended (%v)", p.exit), err)
		}
		next := time.NewTimer(probeInterval)
		select {
		case <-next.C:
		case <-p.exited:
		case <-giveUp.C:
			return p.notReady(fmt.Sprintf("was not ready within %s", readyDeadline), err)
		}
		next.Stop()
	}
}

// AwaitLine is FindLine. Without a matching line the test fails.
func (p *Process) AwaitLine(pattern *regexp.Regexp) []string {
	p.t.Helper()
	match, err := p.FindLine(pattern)
	if err != nil {
		p.t.Fatalf("serverproc: waiting for a line like %q: %v", pattern, err)
	}
	return match
}

// FindLine waits for a matching line of output. It returns the match and its groups like
// [regexp.Regexp.FindStringSubmatch].
func (p *Process) FindLine(pattern *regexp.Regexp) (match []string, err error) {
	err = p.Await(func(context.Context) error {
		for _, line := range p.Output() {
			if match = pattern.FindStringSubmatch(line); match != nil {
				return nil
			}
		}
		return errNoSuchLine
	})
	return match, err
}

// PortTaken reports whether the program has printed that another one has its port.
func (p *Process) PortTaken() bool {
	return strings.Contains(strings.ToLower(strings.Join(p.Output(), "\n")), "address already in use")
}

// Probe calls probe once, with a time limit: a frozen server does not respond.
func Probe(probe func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), probeDeadline)
	defer cancel()
	return probe(ctx)
}

func (p *Process) notReady(reason string, last error) error {
	return fmt.Errorf("%s %s: %w; output:\n%s", p.name, reason, last, strings.Join(p.Output(), "\n"))
}
