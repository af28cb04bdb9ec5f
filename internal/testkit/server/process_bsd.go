//go:build unix && !linux

package serverproc

import "syscall"

// dieWithParent has no effect: only Linux can signal a child at its parent's death.
func dieWithParent(*syscall.SysProcAttr) {}
