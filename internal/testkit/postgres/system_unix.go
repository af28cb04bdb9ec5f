//go:build unix

package postgrestest

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// The signals that other systems do not have.
const (
	freezing = syscall.SIGSTOP
	resuming = syscall.SIGCONT
)

var errNoAccount = errors.New("PostgreSQL does not run as root, and there is neither a user postgres nor nobody to run it as")

// account is the user that the server runs as. The zero value is the one who runs the test.
type account struct{ credential *syscall.Credential }

// serverAccount returns the test's own user, or an unprivileged user for root.
func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(found.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(found.Gid, 10, 32)
		if uidErr == nil && gidErr == nil && uid != 0 {
			return account{&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
		}
	}
	return account{}, errNoAccount
}

// own gives the folder to the account.
func (a account) own(folder string) error {
	if a.credential == nil {
		return nil
	}
	return os.Chown(folder, int(a.credential.Uid), int(a.credential.Gid))
}

// become lets the command run as the account.
func (a account) become(command *exec.Cmd) {
	if a.credential != nil {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: a.credential}
	}
}
