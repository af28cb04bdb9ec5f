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

// MySQL is a server of MySQL or MariaDB of this program.
type MySQL struct {
	*process
	// DSN leads to an empty database of an account with all rights.
	DSN string
	// Version is the version that the server reports.
	Version string
}

// mysqlVendor is a maker of servers.
type mysqlVendor struct {
	name      string
	isMariaDB bool
	server    string
	// initialize is the command that makes a data folder. Without a program it is the
	// server's.
	initialize []string
	// environment names the variable with the folder of the programs.
	environment string
	// folders have the programs, beside the PATH.
	folders  []string
	settings []string
}

// StartMariaDB runs the mariadbd of the PATH or of /usr/sbin, or the one in the folder
// ONCEKEY_MARIADB_BIN. Without an installation the error wraps ErrMissing.
func StartMariaDB(ctx context.Context) (*MySQL, error) {
	return startMySQL(ctx, mysqlVendor{
		name: "MariaDB", isMariaDB: true, server: "mariadbd", environment: "ONCEKEY_MARIADB_BIN",
		initialize: []string{"mariadb-install-db", "--auth-root-authentication-method=normal"},
		settings:   []string{"skip-name-resolve", "innodb-log-file-size=256M"},
	})
}

// StartMySQL runs the mysqld of the PATH, of /usr/sbin or of the repository's build/mysql
// (see tools/install-mysql.sh), or the one in the folder ONCEKEY_MYSQL_BIN. It passes over
// MariaDB's mysqld. Without an installation the error wraps ErrMissing.
func StartMySQL(ctx context.Context) (*MySQL, error) {
	return startMySQL(ctx, mysqlVendor{
		name: "MySQL", server: "mysqld", environment: "ONCEKEY_MYSQL_BIN", folders: buildFolders(),
		initialize: []string{"", "--initialize-insecure"},
		settings:   []string{"mysqlx=OFF", "secure-file-priv=NULL", "innodb-redo-log-capacity=256M"},
	})
}

// mysqlSettings, and those of the vendor, are the server's defaults, except for memory. The
// server waits for the disk at each commit.
var mysqlSettings = []string{"bind-address=127.0.0.1", "innodb-buffer-pool-size=256M", "innodb-flush-log-at-trx-commit=1"}

// buildFolders lists the folders build/mysql above the working folder.
func buildFolders() (folders []string) {
	folder, err := os.Getwd()
	for err == nil && folder != filepath.Dir(folder) {
		folders = append(folders, filepath.Join(folder, "build", "mysql"))
		folder = filepath.Dir(folder)
	}
	return folders
}

func startMySQL(ctx context.Context, v mysqlVendor) (*MySQL, error) {
	server, err := v.find(ctx, v.server)
	if err != nil {
		return nil, err
	}
	initialize := server
	if v.initialize[0] != "" {
		if initialize, err = v.find(ctx, v.initialize[0]); err != nil {
			return nil, err
		}
	}
	return startOnFreePort(ctx, func(port int) (*MySQL, error) { return v.start(ctx, initialize, server, port) })
}

func (v mysqlVendor) start(ctx context.Context, initialize, binary string, port int) (*MySQL, error) {
	folder, err := os.MkdirTemp("", "oncekey-bench-mysql-")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(folder, "data")
	run := func(program string, arguments ...string) *exec.Cmd {
		arguments = append([]string{"--no-defaults", "--datadir=" + data, "--tmpdir=" + folder}, arguments...)
		if os.Geteuid() == 0 {
			arguments = append(arguments, "--user=root") // the server refuses to run as root without it
		}
		return exec.CommandContext(context.WithoutCancel(ctx), program, arguments...) //nolint:gosec // the programs that the user has installed or named
	}
	if output, err := run(initialize, v.initialize[1:]...).CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w: %s", initialize, err, output), os.RemoveAll(folder))
	}
	arguments := []string{"--port=" + strconv.Itoa(port), "--socket=" + filepath.Join(folder, "socket"), "--pid-file=" + filepath.Join(folder, "pid")}
	for _, setting := range append(v.settings, mysqlSettings...) {
		arguments = append(arguments, "--"+setting)
	}
	server := &MySQL{DSN: fmt.Sprintf("root@tcp(127.0.0.1:%d)/bench", port)}
	server.process, err = start(ctx, run(binary, arguments...), folder, syscall.SIGTERM, func(ctx context.Context) error {
		return server.ask(ctx, data)
	})
	if err != nil {
		return nil, err
	}
	return server, nil
}

// ask asks the server for its version and for its data folder, and makes the database.
func (s *MySQL) ask(ctx context.Context, data string) error {
	db, err := sql.Open("mysql", strings.TrimSuffix(s.DSN, "bench"))
	if err != nil {
		return err
	}
	defer db.Close()
	var folder string
	if err := db.QueryRowContext(ctx, "SELECT @@version, @@datadir").Scan(&s.Version, &folder); err != nil {
		return err
	}
	if strings.TrimSuffix(folder, "/") != data {
		return errOther
	}
	_, err = db.ExecContext(ctx, "CREATE DATABASE IF NOT EXISTS bench")
	return err
}

// find finds a program of the vendor. Debian keeps servers in a folder that the PATH of users
// lacks, and MariaDB's packages have a mysqld too.
func (v mysqlVendor) find(ctx context.Context, name string) (string, error) {
	names := []string{name, "/usr/sbin/" + name}
	for _, folder := range v.folders {
		names = append(names, filepath.Join(folder, name))
	}
	if folder := os.Getenv(v.environment); folder != "" {
		names = []string{filepath.Join(folder, name)}
	}
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if v.isMariaDB {
			return path, nil
		}
		banner, err := exec.CommandContext(ctx, path, "--no-defaults", "--version").Output() //nolint:gosec // a program that the user has installed or named
		if err == nil && !strings.Contains(string(banner), "MariaDB") {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: %w", v.name, ErrMissing)
}
