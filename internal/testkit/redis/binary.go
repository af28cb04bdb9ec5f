package redistest

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"sync"

	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

// oldest is the oldest version that redisstore supports: SET takes NX and GET together from 7.0 on.
const oldest = "7.0"

var errNotFound = errors.New(
	"redis-server not found: install it (Debian: apt-get install redis-server), or run make check")

var versionPattern = regexp.MustCompile(`\bv=(\d+\.\S*)`)

// findBinary looks once: every test of a package starts servers, and the result does not change.
var findBinary = sync.OnceValues(func() (string, error) {
	return locate(cmp.Or(os.Getenv("ONCEKEY_REDIS_SERVER"), "redis-server"))
})

// locate returns the path of a redis-server, and checks its version.
func locate(name string) (string, error) {
	binary, err := exec.LookPath(name)
	if err != nil {
		return "", errNotFound
	}
	banner, err := serverproc.Banner(binary)
	if err != nil {
		return "", err
	}
	return binary, checkVersion(banner)
}

func checkVersion(banner string) error {
	_, err := serverproc.CheckVersion("redis-server", banner, versionPattern, oldest)
	return err
}
