//go:build !unix

package serverproc

import (
	"errors"
	"os/exec"
)

// These systems have no signals: a program is killed to stop it and cannot be paused. The servers that our tests use are
// not at home here either; this keeps the packages compiling.

func isolate(*exec.Cmd) {}

func (p *Process) terminate() error { return p.kill() }

func (p *Process) kill() error { return p.command.Process.Kill() }

func (p *Process) freeze() error { return errors.ErrUnsupported }

func (p *Process) thaw() error { return nil }
