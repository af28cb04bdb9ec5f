package servers

import "syscall"

// dieWithParent makes the system kill the server when this program is killed and cannot
// clean up.
func dieWithParent(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGKILL }
