package mysqltest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

// initializeDeadline bounds the making of a data folder.
const initializeDeadline = 5 * time.Minute

// Vendor is a maker of servers: [MySQL] or [MariaDB]. Its methods are safe for concurrent use.
type Vendor struct {
	name      string
	program   string
	places    []string // of the program, beside the PATH
	isMariaDB bool
	oldest    string // the oldest version that sqlstore supports
	install   string // how to get the program
	settings  []string
	// initialize is the command that makes a data folder. Without a program it is the server.
	initialize []string

	// Every test of a package starts servers, and the results do not change.
	find     func() (program, error)
	template func() (string, error)
	common   serverproc.Shared[*Server]
}

// program is a server's path, and the version that it prints.
type program struct{ path, version string }

var (
	// MySQL is Oracle's server.
	MySQL = newVendor(&Vendor{
		name: "MySQL", program: "mysqld", oldest: "8.0", install: "run sh tools/install-mysql.sh, or make check",
		places: append(installed(), // of tools/install-mysql.sh
			"/usr/sbin/mysqld",                    // packages for Linux
			"/opt/homebrew/opt/mysql*/bin/mysqld", // Homebrew
			"/usr/local/opt/mysql*/bin/mysqld",    // Homebrew on Intel
		),
		settings:   []string{"innodb_redo_log_capacity=8M", "innodb_log_buffer_size=1M", "secure_file_priv=NULL", "mysqlx=OFF", "skip_log_bin", "innodb_doublewrite=OFF"},
		initialize: []string{"", "--initialize-insecure"},
	})

	// MariaDB is the MariaDB server.
	MariaDB = newVendor(&Vendor{
		name: "MariaDB", program: "mariadbd", isMariaDB: true, oldest: "10.6",
		install:    "install it (Debian: apt-get install mariadb-server), or run make check",
		places:     []string{"/usr/sbin/mariadbd"}, // Debian's, which users may not have on the PATH
		settings:   []string{"innodb_log_file_size=16M", "skip_name_resolve"},
		initialize: []string{"mariadb-install-db", "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-log-bin"},
	})
)

func newVendor(v *Vendor) *Vendor {
	v.find = sync.OnceValues(func() (program, error) {
		return v.locate(append([]string{v.program}, v.places...))
	})
	v.template = sync.OnceValues(v.makeTemplate)
	return v
}

// Main returns m with a clean-up of the servers that [Vendor.Shared] starts. TestMain runs the result instead of m.
func Main(m serverproc.TestingMain) serverproc.TestingMain {
	return MySQL.common.Main(MariaDB.common.Main(m))
}

// Shared returns the address of an empty database for one test, on a server that all tests of a process share. The server
// runs from the first call to the end of the process. Do not stop or slow it down; use [Vendor.Start] for that. The test's
// TestMain must use [Main].
func (v *Vendor) Shared(t testing.TB) string {
	t.Helper()
	serverproc.Require(t, v.find)
	server, database := v.common.Database(t, func(t testing.TB) *Server { return v.Start(t) })
	server.Execute("CREATE DATABASE " + database)
	return server.dsn(database)
}

// makeTemplate returns a data folder for copies.
func (v *Vendor) makeTemplate() (string, error) {
	found, err := v.find()
	if err != nil {
		return "", err
	}
	return serverproc.Template(v.name, slices.Concat([]string{found.version}, v.initialize, v.settings), func(folder string) error {
		command := slices.Clone(v.initialize)
		if command[0] == "" {
			command[0] = found.path
		}
		arguments := append(options(filepath.Dir(folder), v.settings), command[1:]...)
		ctx, cancel := context.WithTimeout(context.Background(), initializeDeadline)
		defer cancel()
		if output, err := exec.CommandContext(ctx, command[0], arguments...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w:\n%s", command[0], err, output)
		}
		return nil
	})
}

// installed lists the places where tools/install-mysql.sh may have put the server: the build folder of the repository, in
// which tests run below the folder of the repository.
func installed() (places []string) {
	folder, err := os.Getwd()
	for err == nil && folder != filepath.Dir(folder) {
		places = append(places, filepath.Join(folder, "build", "mysql", "mysqld"))
		folder = filepath.Dir(folder)
	}
	return places
}

// locate returns the first program that is a supported version of the vendor's. The error is that of the last one.
func (v *Vendor) locate(places []string) (program, error) {
	wrong := fmt.Errorf("%s not found: %s", v.program, v.install)
	for _, place := range places {
		matches, _ := filepath.Glob(place) // fails for a malformed pattern only
		if path, err := exec.LookPath(place); err == nil {
			matches = []string{path}
		}
		for _, path := range matches {
			banner, err := serverproc.Banner(path, "--no-defaults")
			if err != nil {
				wrong = err
				continue
			}
			version, err := v.check(banner)
			if err == nil {
				return program{path, version}, nil
			}
			if !errors.Is(err, errOtherVendor) {
				wrong = err
			}
		}
	}
	return program{}, wrong
}

var versionPattern = regexp.MustCompile(`Ver (\d+\.\d+\.\d+\S*)`)

var errOtherVendor = errors.New("a server of another vendor")

// check returns the version in a banner. MariaDB's packages install a mysqld too.
func (v *Vendor) check(banner string) (string, error) {
	if strings.Contains(banner, "MariaDB") != v.isMariaDB {
		return "", fmt.Errorf("%w than %s: %q", errOtherVendor, v.name, banner)
	}
	return serverproc.CheckVersion(v.name, banner, versionPattern, v.oldest)
}
