package servers

import "syscall"

// dieWithParent lets no server outlive this program when it is killed, and cannot
// clean up.
func dieWithParent(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGKILL }
