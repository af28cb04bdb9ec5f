//go:build !linux

package servers

import "syscall"

// dieWithParent does nothing: the system has no such thing.
func dieWithParent(*syscall.SysProcAttr) {}
