//go:build unix && !linux

package serverproc

import "syscall"

// dieWithParent can do nothing here: only Linux can signal a child about its parent's death.
func dieWithParent(*syscall.SysProcAttr) {}
