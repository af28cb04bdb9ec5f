//go:build !unix

package serverproc

import (
	"errors"
	"os/exec"
)

// Systems without signals: Stop kills the program, and Pause is unsupported. Our servers do not run on such systems; the
// file exists only for compilation.

func isolate(*exec.Cmd) {}

func (p *Process) terminate() error { return p.kill() }

func (p *Process) kill() error { return p.command.Process.Kill() }

func (p *Process) freeze() error { return errors.ErrUnsupported }

func (p *Process) thaw() error { return nil }
