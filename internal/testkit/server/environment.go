package serverproc

import (
	"os"
	"testing"
)

// RequireServers is an environment variable. If set, a test without its server fails instead of being skipped, so that a
// full check runs every test.
const RequireServers = "ONCEKEY_REQUIRE_SERVERS"

// Missing ends a test whose server is not installed: skipped, or failed if [RequireServers] is set.
func Missing(t testing.TB, explanation string) {
	t.Helper()
	missing(t, os.Getenv(RequireServers) != "", explanation)
}

func missing(t testing.TB, required bool, explanation string) {
	t.Helper()
	if required {
		t.Fatal(explanation)
	}
	t.Skip(explanation)
}
