// Package serverproc runs the programs that a test needs: database servers, and our own example programs.
//
//	process := serverproc.Start(t, "payments", exec.CommandContext(context.Background(), binary))
//	address := process.AwaitLine(regexp.MustCompile(`listening on (\S+)`))[1]
//
// A program belongs to a test. At the end of the test the program is stopped, and a failed test logs the program's output.
// On Linux the program does not survive a killed test binary. Every wait has a deadline. The package knows no particular
// server; package redistest builds on serverproc.
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
	// readyDeadline bounds the time until a program is ready, and is long for busy machines. A program that cannot become
	// ready usually exits, and Await notices the exit at once.
	readyDeadline = 2 * time.Minute
	// stopDeadline bounds the time that a program may take to end after the request.
	stopDeadline = time.Minute
	// outputDeadline bounds the wait for the remaining output after the program's end. A grandchild with the open output
	// must not block the test.
	outputDeadline = 2 * time.Second
)

// Process is a program that a test has started. Its methods are safe for concurrent use, and have no effect after the
// program has ended.
type Process struct {
	t       testing.TB
	name    string
	command *exec.Cmd
	output  output
	exited  chan struct{} // closed when the program has ended and its output is complete
	exit    error         // the result; read it only after exited is closed
}

// Start runs command in a process group of its own and collects the output. Messages contain the name. Set the command's
// arguments, directory, environment and user before, but not the output. The context must outlive the test: t.Context ends
// before the clean-up, and would kill the program. If the program cannot be started, the test fails.
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

// run starts the program and waits for its end on one thread. Linux sends the parent-death signal when the thread that
// forked ends, not the process, so the thread has to live as long as the program.
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

// Pid returns the process number.
func (p *Process) Pid() int { return p.command.Process.Pid }

// Output returns the program's output so far, line by line, with standard output and standard error in order of arrival.
// Only the newest lines are kept.
func (p *Process) Output() []string { return p.output.snapshot() }

// Stop asks the program to end and waits for the end. After the deadline Stop kills the program and logs the kill in the
// test. A paused program is resumed first, because a paused program cannot handle the request.
func (p *Process) Stop() {
	p.t.Helper()
	p.Resume()
	p.must("stop", p.terminate())
	if !p.endedWithin(stopDeadline) {
		p.t.Logf("serverproc: %s did not stop within %s: killing the process", p.name, stopDeadline)
		p.Kill()
	}
}

// Kill ends the program by SIGKILL, paused or not, and waits for the end.
func (p *Process) Kill() {
	p.t.Helper()
	p.must("kill", p.kill())
	if !p.endedWithin(stopDeadline) {
		p.t.Errorf("serverproc: %s still runs %s after SIGKILL", p.name, stopDeadline)
	}
}

// Pause freezes the program. The kernel still accepts connections, but the program does not respond. Clients see a server
// behind a network that drops packets.
func (p *Process) Pause() {
	p.t.Helper()
	p.must("pause", p.freeze())
}

// Resume continues a paused program. It has no effect on a running program.
func (p *Process) Resume() {
	p.t.Helper()
	p.must("resume", p.thaw())
}

// Wait waits for the program's end. It returns nil for exit status 0, and otherwise an [*exec.ExitError]. After the
// deadline it returns [os.ErrDeadlineExceeded].
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

// must reports a signal that could not be sent. A program that has already ended is no error, because a test may end the
// program before the clean-up.
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
