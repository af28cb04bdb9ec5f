//go:build !linux

package servers

import "syscall"

// dieWithParent has no effect, because the system has no such signal.
func dieWithParent(*syscall.SysProcAttr) {}
