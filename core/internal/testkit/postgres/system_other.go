//go:build !unix

package postgrestest

import (
	"os/exec"
	"syscall"
)

// Nothing can be frozen here.
const freezing, resuming = syscall.Signal(0), syscall.Signal(0)

// account is nobody else than the one who runs the test.
type account struct{}

func serverAccount() (account, error) { return account{}, nil }

func (account) own(string) error { return nil }

func (account) become(*exec.Cmd) {}
