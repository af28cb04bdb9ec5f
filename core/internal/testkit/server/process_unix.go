//go:build unix

package serverproc

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// isolate gives the program a process group of its own: an interrupt typed at the terminal then reaches the test alone,
// which ends its programs in order, and a signal can reach the program's own children with it.
func isolate(command *exec.Cmd) {
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Setpgid = true
	dieWithParent(command.SysProcAttr)
}

// terminate asks the program alone, which is then expected to see to its children.
func (p *Process) terminate() error { return p.command.Process.Signal(syscall.SIGTERM) }

func (p *Process) kill() error   { return p.signalGroup(syscall.SIGKILL) }
func (p *Process) freeze() error { return p.signalGroup(syscall.SIGSTOP) }
func (p *Process) thaw() error   { return p.signalGroup(syscall.SIGCONT) }

func (p *Process) signalGroup(signal syscall.Signal) error {
	if p.hasEnded() {
		return os.ErrProcessDone // its number may be somebody else's by now
	}
	err := syscall.Kill(-p.Pid(), signal)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}
