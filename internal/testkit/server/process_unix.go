//go:build unix

package serverproc

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// isolate gives the program a process group of its own. An interrupt at the terminal then reaches only the test, which
// stops its programs in order. A signal to the group also reaches the program's children.
func isolate(command *exec.Cmd) {
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Setpgid = true
	dieWithParent(command.SysProcAttr)
}

// terminate signals only the program, which must stop its children.
func (p *Process) terminate() error { return p.command.Process.Signal(syscall.SIGTERM) }

func (p *Process) kill() error   { return p.signalGroup(syscall.SIGKILL) }
func (p *Process) freeze() error { return p.signalGroup(syscall.SIGSTOP) }
func (p *Process) thaw() error   { return p.signalGroup(syscall.SIGCONT) }

func (p *Process) signalGroup(signal syscall.Signal) error {
	if p.hasEnded() {
		return os.ErrProcessDone // another process may have the number now
	}
	err := syscall.Kill(-p.Pid(), signal)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}
