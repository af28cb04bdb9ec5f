package redistest

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/internal/testkit"
	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
	"github.com/redis/go-redis/v9"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAnotherServerOnThePortIsNotTakenForOurs(t *testing.T) {
	t.Parallel()
	server := Start(t)
	limited, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	testkit.Fails(t, "ping", server.ping(limited, os.Getpid()), nil, "another server")
}

func TestTakenPortIsRecognized(t *testing.T) {
	t.Parallel()
	first, second := Start(t), Start(t)
	second.Stop()
	second.port = first.port
	if err := second.launch(); err == nil || !second.process.PortTaken() {
		t.Errorf("a second server on the same port gives %v, want the port to be recognized as taken", err)
	}
}

func TestVersionOlderThanTheOldestSupportedIsRefused(t *testing.T) {
	t.Parallel()
	serverproc.Versions(t, checkVersion, map[string]string{
		"Redis server v=7.0.0 sha=00000000:0 malloc=libc bits=64 build=1":           "<nil>",
		"Redis server v=8.2.1 sha=00000000:1 malloc=jemalloc-5.3.0 bits=64 build=1": "<nil>",
		"Redis server v=10.0.0 sha=00000000:0":                                      "<nil>",
		"Valkey server v=8.0.2 sha=00000000:0":                                      "<nil>",
		"Redis server v=6.2.14 sha=00000000:0":                                      "redis-server 6.2.14 is too old: 7.0 is the oldest",
		"command not understood":                                                    "no version that can be read",
	})
}

func TestMissingBinarySaysWhatToInstall(t *testing.T) {
	t.Parallel()
	_, err := locate(t.TempDir() + "/redis-server")
	testkit.Fails(t, "locate", err, nil, "apt-get install redis-server")
}

func TestDoReturnsTheServersError(t *testing.T) {
	t.Parallel()
	_, err := Start(t).Do(t.Context(), "NONSENSE")
	var refused redis.Error
	if !errors.As(err, &refused) || !strings.HasPrefix(refused.Error(), "ERR unknown command") {
		t.Errorf("the error is %v, want the server's own", err)
	}
}

// has expects a reply to a command.
func has(t *testing.T, server *Server, want any, command ...string) {
	t.Helper()
	if got, err := server.Do(t.Context(), command...); err != nil || got != want {
		t.Errorf("%q gives %v and %v, want %v", command, got, err, want)
	}
}
