package postgrestest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"

	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

// oldest is the oldest version that pgstore supports.
const oldest = "13"

var errNotFound = errors.New(
	"postgres not found: install it (Debian: apt-get install postgresql), or name the folder of its programs in ONCEKEY_POSTGRES_BIN")

var versionPattern = regexp.MustCompile(`\(PostgreSQL\) (\d+\S*)`)

// places are the folders of installed packages, one for each version. The PATH comes last, because its program is often a
// wrapper of one version without half of the programs.
var places = []string{
	"/usr/lib/postgresql/*/bin",          // Debian
	"/usr/pgsql-*/bin",                   // the PostgreSQL project's packages for Red Hat
	"/usr/libexec/postgresql*",           // Alpine
	"/opt/homebrew/opt/postgresql@*/bin", // Homebrew
	"/usr/local/opt/postgresql@*/bin",    // Homebrew on Intel
}

// programs are the paths of the programs that run a server, and what the server says about its version.
type programs struct{ initdb, postgres, createdb, backup, version string }

// findPrograms looks once: every test of a package starts servers, and the result does not change.
var findPrograms = sync.OnceValues(func() (programs, error) {
	return locate(os.Getenv("ONCEKEY_POSTGRES_BIN"), places)
})

// locate finds the programs in the folder. Without a folder it searches the places and the PATH.
func locate(folder string, places []string) (programs, error) {
	folders := []string{folder}
	if folder == "" {
		folders = append(installed(places), onPath()...)
	}
	for _, folder := range folders {
		in := func(name string) string { return filepath.Join(folder, name) }
		found := programs{initdb: in("initdb"), postgres: in("postgres"), createdb: in("createdb"), backup: in("pg_basebackup")}
		if executable(found.initdb) && executable(found.postgres) && executable(found.createdb) && executable(found.backup) {
			version, err := serverproc.Banner(found.postgres)
			if err == nil {
				err = checkVersion(version)
			}
			found.version = version
			return found, err
		}
	}
	return programs{}, errNotFound
}

func executable(path string) bool {
	_, err := exec.LookPath(path)
	return err == nil
}

// installed lists the folders in the places, the highest version first.
func installed(places []string) []string {
	var folders []string
	for _, place := range places {
		matches, _ := filepath.Glob(place) // fails for a malformed pattern only
		folders = append(folders, matches...)
	}
	slices.SortStableFunc(folders, func(a, b string) int { return versionIn(b) - versionIn(a) })
	return folders
}

var number = regexp.MustCompile(`\d+`)

// versionIn returns the major version in a folder's name, ignoring bin, or 0.
func versionIn(folder string) int {
	major := 0
	for _, digits := range number.FindAllString(folder, -1) {
		if n, err := strconv.Atoi(digits); err == nil {
			major = n
		}
	}
	return major
}

// onPath returns the real folder of the PATH's postgres, which also has the other programs.
func onPath() []string {
	found, err := exec.LookPath("postgres")
	if err != nil {
		return nil
	}
	if target, err := filepath.EvalSymlinks(found); err == nil {
		found = target
	}
	return []string{filepath.Dir(found)}
}

func checkVersion(banner string) error {
	_, err := serverproc.CheckVersion("PostgreSQL", banner, versionPattern, oldest)
	return err
}
