package servers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// Postgres is a PostgreSQL server of this program.
type Postgres struct {
	*process
	// DSN leads to an empty database of its superuser.
	DSN string
	// Version is the version that the server reports.
	Version string
}

// settings are the server's defaults, except for memory and for settings that let a large
// table load in a reasonable time. The server waits for the disk, and autovacuum is on.
var settings = []string{
	"listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=200", "shared_buffers=256MB",
	"min_wal_size=3GB", "max_wal_size=8GB", "fsync=on", "full_page_writes=on", "synchronous_commit=on", "dynamic_shared_memory_type=mmap",
}

// StartPostgres runs the newest installed PostgreSQL, or the one in the folder
// ONCEKEY_POSTGRES_BIN. Without an installation the error wraps ErrMissing.
func StartPostgres(ctx context.Context) (*Postgres, error) {
	programs, err := postgresFolder()
	if err != nil {
		return nil, err
	}
	return startOnFreePort(ctx, func(port int) (*Postgres, error) { return startPostgres(ctx, programs, port) })
}

func startPostgres(ctx context.Context, programs string, port int) (*Postgres, error) {
	credential, err := unprivileged()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "oncekey-bench-postgres-")
	if err != nil {
		return nil, err
	}
	if credential != nil {
		if err := os.Chown(folder, int(credential.Uid), int(credential.Gid)); err != nil {
			return nil, err
		}
	}
	data := filepath.Join(folder, "data")
	run := func(program string, arguments ...string) *exec.Cmd {
		//nolint:gosec // the programs that the user has installed or named
		command := exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(programs, program), arguments...)
		command.Dir = folder
		command.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
		return command
	}
	if output, err := run("initdb", "--pgdata", data, "--username", "postgres", "--auth", "trust", "--encoding", "UTF8",
		"--locale", "C").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, output)
	}
	arguments := []string{"-D", data, "-p", strconv.Itoa(port)}
	for _, setting := range settings {
		arguments = append(arguments, "-c", setting)
	}
	server := &Postgres{DSN: fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)}
	server.process, err = start(ctx, run("postgres", arguments...), folder, syscall.SIGINT, func(ctx context.Context) error {
		return server.ask(ctx, data)
	})
	if err != nil {
		return nil, err
	}
	return server, nil
}

// ask asks the server for its version, and for its data folder.
func (s *Postgres) ask(ctx context.Context, data string) error {
	connection, err := pgx.Connect(ctx, s.DSN)
	if err != nil {
		return err
	}
	defer connection.Close(ctx)
	var folder string
	err = connection.QueryRow(ctx, "SELECT current_setting('server_version'), current_setting('data_directory')").Scan(&s.Version, &folder)
	if err == nil && folder != data {
		err = errOther
	}
	return err
}

// walFiles is how many WAL files of 16 MB a server keeps at min_wal_size.
const walFiles = 3 << 30 / (16 << 20)

// Age gives the server WAL files to write to, as many as asked for, but no more than it
// keeps. A server that has run for a day reuses its files. A new one creates a file each
// time, and all commits wait for that.
func (s *Postgres) Age(ctx context.Context, files int) error {
	connection, err := pgx.Connect(ctx, s.DSN)
	if err != nil {
		return err
	}
	defer connection.Close(ctx)
	for range min(files, walFiles) {
		// Nothing is switched if nothing was written since the last time.
		if _, err := connection.Exec(ctx, "SELECT pg_logical_emit_message(false, 'bench', ''), pg_switch_wal()"); err != nil {
			return err
		}
	}
	_, err = connection.Exec(ctx, "CHECKPOINT") // the files before it are reused
	return err
}

var digits = regexp.MustCompile(`\d+`)

// postgresFolder returns the folder of initdb and postgres.
func postgresFolder() (string, error) {
	folders, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // Debian; fails for a malformed pattern only
	slices.SortFunc(folders, func(a, b string) int { return version(b) - version(a) })
	if named := os.Getenv("ONCEKEY_POSTGRES_BIN"); named != "" {
		folders = []string{named}
	} else if found, err := exec.LookPath("postgres"); err == nil {
		folders = append(folders, filepath.Dir(found))
	}
	for _, folder := range folders {
		if _, err := exec.LookPath(filepath.Join(folder, "initdb")); err != nil {
			continue
		}
		if _, err := exec.LookPath(filepath.Join(folder, "postgres")); err == nil {
			return folder, nil
		}
	}
	return "", fmt.Errorf("PostgreSQL: %w", ErrMissing)
}

func version(folder string) int {
	number, _ := strconv.Atoi(digits.FindString(folder)) // zero for a folder without a number
	return number
}

// unprivileged returns the user to run PostgreSQL as, because PostgreSQL refuses to run as
// root. Nil means the current user.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // the current user is suitable
	}
	for _, name := range []string{"postgres", "nobody"} {
		account, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(account.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(account.Gid, 10, 32)
		if uidErr == nil && gidErr == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, fmt.Errorf("no user postgres or nobody to run PostgreSQL as: %w", ErrMissing)
}
