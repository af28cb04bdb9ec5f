//go:build !unix

package postgrestest

import (
	"os/exec"
	"syscall"
)

// Systems without signals cannot freeze a process.
const freezing, resuming = syscall.Signal(0), syscall.Signal(0)

// account is always the test's own user.
type account struct{}

func serverAccount() (account, error) { return account{}, nil }

func (account) own(string) error { return nil }

func (account) become(*exec.Cmd) {}
