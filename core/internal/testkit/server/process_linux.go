package serverproc

import "syscall"

// dieWithParent lets no program outlive a test binary that was killed, and so never had the chance to clean up.
func dieWithParent(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGKILL }
