package redistest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

// oldestMajor is the oldest version that redisstore supports: SET takes NX and GET together from 7.0 on.
const oldestMajor = 7

const versionDeadline = time.Minute

var errNotFound = errors.New(
	"redis-server not found: install it (Debian: apt-get install redis-server), or run make check")

var versionPattern = regexp.MustCompile(`\bv=((\d+)\.\S*)`)

// findBinary looks once: every test of a package starts servers, and the result does not change.
var findBinary = sync.OnceValues(func() (string, error) {
	return locate(cmp.Or(os.Getenv("ONCEKEY_REDIS_SERVER"), "redis-server"))
})

// requireBinary returns the redis-server to run. Without a supported version the test is skipped or fails.
func requireBinary(t testing.TB) string {
	t.Helper()
	binary, err := findBinary()
	if err != nil {
		serverproc.Missing(t, err.Error())
	}
	return binary
}

// locate returns the path of a redis-server, and checks its version.
func locate(name string) (string, error) {
	binary, err := exec.LookPath(name)
	if err != nil {
		return "", errNotFound
	}
	ctx, cancel := context.WithTimeout(context.Background(), versionDeadline)
	defer cancel()
	banner, err := exec.CommandContext(ctx, binary, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", binary, err)
	}
	return binary, checkVersion(string(banner))
}

func checkVersion(banner string) error {
	match := versionPattern.FindStringSubmatch(banner)
	if match == nil {
		return fmt.Errorf("redis-server --version printed no version that can be read: %q", banner)
	}
	if major, err := strconv.Atoi(match[2]); err != nil || major < oldestMajor {
		return fmt.Errorf("redis-server %s is too old: %d.0 is the oldest that is supported", match[1], oldestMajor)
	}
	return nil
}
