// Package serverproc runs the programs that a test needs beside itself: database servers, and our own example programs.
//
//	process := serverproc.Start(t, "payments", exec.CommandContext(context.Background(), binary))
//	address := process.AwaitLine(regexp.MustCompile(`listening on (\S+)`))[1]
//
// A program started here belongs to its test: it is stopped when the test ends, its output is added to a failed test's
// log, and on Linux it does not survive a test binary that was killed. Every wait has a deadline. Nothing here knows what
// it runs; redistest is built on top of it.
package serverproc

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

const (
	// readyDeadline bounds how long a program may take to become ready. It is generous for the sake of busy machines:
	// a program that cannot become ready usually exits, which is noticed at once.
	readyDeadline = 2 * time.Minute
	// stopDeadline bounds how long a program may take to end once it was told to.
	stopDeadline = time.Minute
	// outputDeadline bounds the wait for the rest of the output after the program's end: a grandchild that keeps the
	// output open must not keep the test.
	outputDeadline = 2 * time.Second
)

// Process is a program that a test has started. Its methods may be called from several goroutines, and all of them are
// harmless once the program has ended.
type Process struct {
	t       testing.TB
	name    string
	command *exec.Cmd
	output  output
	exited  chan struct{} // closed when the program has ended and its output is complete
	exit    error         // how it ended; to be read after exited is closed
}

// Start runs command in a process group of its own and collects what it prints. The name stands for it in messages.
// Set up anything else about the command before (arguments, directory, environment, user), but not its output, and give
// it a context that outlives the test: t.Context ends before the clean-up, and would kill a program that is to be stopped.
// A program that cannot be started fails the test.
func Start(t testing.TB, name string, command *exec.Cmd) *Process {
	t.Helper()
	p := &Process{t: t, name: name, command: command, exited: make(chan struct{})}
	command.Stdout, command.Stderr = &p.output, &p.output
	command.WaitDelay = outputDeadline
	isolate(command)

	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		t.Fatalf("serverproc: start %s: %v", name, err)
	}
	t.Cleanup(p.cleanUp)
	return p
}

// run starts the program and waits for its end, all on one thread: Linux delivers the parent-death signal when the thread
// that forked ends, not the process, so that thread has to live as long as the program.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.command.Start()
	started <- err
	if err != nil {
		return
	}
	p.exit = p.command.Wait()
	close(p.exited)
}

// Pid is the process's number.
func (p *Process) Pid() int { return p.command.Process.Pid }

// Output is what the program has printed so far, standard output and standard error in the order of arrival, line by line.
// Of a very talkative program only the newest lines are kept.
func (p *Process) Output() []string { return p.output.snapshot() }

// Stop asks the program to end and returns when it has. One that has not ended by the deadline is killed, and the test is
// told so in its log. A paused program is resumed first, since it could not hear the request otherwise.
func (p *Process) Stop() {
	p.t.Helper()
	p.Resume()
	p.must("stop", p.terminate())
	if !p.endedWithin(stopDeadline) {
		p.t.Logf("serverproc: %s did not stop within %s: killing it", p.name, stopDeadline)
		p.Kill()
	}
}

// Kill ends the program the hard way, paused or not, and returns when it is gone.
func (p *Process) Kill() {
	p.t.Helper()
	p.must("kill", p.kill())
	if !p.endedWithin(stopDeadline) {
		p.t.Errorf("serverproc: %s is still there %s after it was killed", p.name, stopDeadline)
	}
}

// Pause freezes the program. The kernel goes on accepting connections for it, which nobody answers: to its clients this is
// a server behind a network that swallows packets.
func (p *Process) Pause() {
	p.t.Helper()
	p.must("pause", p.freeze())
}

// Resume lets a paused program go on. One that is not paused does not notice.
func (p *Process) Resume() {
	p.t.Helper()
	p.must("resume", p.thaw())
}

// Wait returns when the program has ended: nil when it exited with status 0, and otherwise an [*exec.ExitError]. One that
// has not ended by the deadline is [os.ErrDeadlineExceeded].
func (p *Process) Wait() error {
	if !p.endedWithin(stopDeadline) {
		return os.ErrDeadlineExceeded
	}
	return p.exit
}

func (p *Process) cleanUp() {
	p.t.Helper()
	p.Stop()
	if p.t.Failed() {
		p.t.Logf("output of %s:\n%s", p.name, strings.Join(p.Output(), "\n"))
	}
}

// must reports a signal that could not be sent. That the program is gone already is no error: a test may end it any way
// it likes, and the clean-up comes anyway.
func (p *Process) must(action string, err error) {
	p.t.Helper()
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("serverproc: %s %s: %v", action, p.name, err)
	}
}

func (p *Process) hasEnded() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

func (p *Process) endedWithin(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-timer.C:
		return p.hasEnded()
	}
}
