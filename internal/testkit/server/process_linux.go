package serverproc

import "syscall"

// dieWithParent makes the kernel kill the program if the test binary is killed before its clean-up.
func dieWithParent(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGKILL }
