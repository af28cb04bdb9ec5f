package serverproc

import (
	"os"
	"testing"
)

// RequireServers is the environment variable that turns a test skipped for want of a server into a failed one, so that a
// check which promises to have run everything has.
const RequireServers = "ONCEKEY_REQUIRE_SERVERS"

// Missing ends a test whose server cannot be run on this machine: skipped, or failed when [RequireServers] is set.
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
