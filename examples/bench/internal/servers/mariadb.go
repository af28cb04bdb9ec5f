package servers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	_ "github.com/go-sql-driver/mysql" // the client
)

// MariaDB is a MariaDB server of this program.
type MariaDB struct {
	*process
	// DSN leads to an empty database of an account with all rights.
	DSN string
	// Version is the version that the server reports.
	Version string
}

// mariadbSettings are the server's defaults, except for memory. The server waits for the
// disk at each commit.
var mariadbSettings = []string{
	"bind-address=127.0.0.1", "skip-name-resolve", "innodb-buffer-pool-size=256M", "innodb-log-file-size=256M",
	"innodb-flush-log-at-trx-commit=1",
}

// StartMariaDB runs the mariadbd of the PATH or of /usr/sbin, or the one in the folder
// ONCEKEY_MARIADB_BIN. Without an installation the error wraps ErrMissing.
func StartMariaDB(ctx context.Context) (*MariaDB, error) {
	install, err := mariadbProgram("mariadb-install-db")
	if err != nil {
		return nil, err
	}
	server, err := mariadbProgram("mariadbd")
	if err != nil {
		return nil, err
	}
	return startOnFreePort(ctx, func(port int) (*MariaDB, error) { return startMariaDB(ctx, install, server, port) })
}

func startMariaDB(ctx context.Context, install, binary string, port int) (*MariaDB, error) {
	folder, err := os.MkdirTemp("", "oncekey-bench-mariadb-")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(folder, "data")
	run := func(program string, arguments ...string) *exec.Cmd {
		arguments = append([]string{"--no-defaults", "--datadir=" + data, "--tmpdir=" + folder}, arguments...)
		if os.Geteuid() == 0 {
			arguments = append(arguments, "--user=root") // mariadbd refuses to run as root without it
		}
		return exec.CommandContext(context.WithoutCancel(ctx), program, arguments...) //nolint:gosec // the programs that the user has installed or named
	}
	if output, err := run(install, "--auth-root-authentication-method=normal").CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("mariadb-install-db: %w: %s", err, output), os.RemoveAll(folder))
	}
	arguments := []string{"--port=" + strconv.Itoa(port), "--socket=" + filepath.Join(folder, "socket"), "--pid-file=" + filepath.Join(folder, "pid")}
	for _, setting := range mariadbSettings {
		arguments = append(arguments, "--"+setting)
	}
	server := &MariaDB{DSN: fmt.Sprintf("root@tcp(127.0.0.1:%d)/test", port)}
	server.process, err = start(ctx, run(binary, arguments...), folder, syscall.SIGTERM, func(ctx context.Context) error {
		return server.ask(ctx, data)
	})
	if err != nil {
		return nil, err
	}
	return server, nil
}

// ask asks the server for its version, and for its data folder.
func (s *MariaDB) ask(ctx context.Context, data string) error {
	db, err := sql.Open("mysql", s.DSN)
	if err != nil {
		return err
	}
	defer db.Close()
	var folder string
	err = db.QueryRowContext(ctx, "SELECT @@version, @@datadir").Scan(&s.Version, &folder)
	if err == nil && strings.TrimSuffix(folder, "/") != data {
		err = errOther
	}
	return err
}

// mariadbProgram finds a program. Debian keeps servers in a folder that the PATH of users
// lacks.
func mariadbProgram(name string) (string, error) {
	names := []string{name, "/usr/sbin/" + name}
	if folder := os.Getenv("ONCEKEY_MARIADB_BIN"); folder != "" {
		names = []string{filepath.Join(folder, name)}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("MariaDB: %w", ErrMissing)
}
