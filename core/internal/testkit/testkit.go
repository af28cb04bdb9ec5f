// Package testkit has common steps of the stores' tests. Its folders have the servers and the proxy that they use.
package testkit

import (
	"os"
	"testing"

	"github.com/oncekey/oncekey/core/storage"
)

// Win claims a key, and expects to get the lease.
func Win(t testing.TB, store storage.Store, c storage.Claim) storage.Lease {
	t.Helper()
	lease, record, err := store.Acquire(t.Context(), c)
	if err != nil || record != nil {
		t.Fatalf("Acquire returned record %+v and error %v, want a lease", record, err)
	}
	return lease
}

// Find claims a key, and expects to get its record.
func Find(t testing.TB, store storage.Store, c storage.Claim) *storage.Record {
	t.Helper()
	lease, record, err := store.Acquire(t.Context(), c)
	if err != nil || record == nil {
		t.Fatalf("Acquire returned lease %+v and error %v, want a record", lease, err)
	}
	return record
}

// Must expects no error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Many is the number of keys of a test over a large store: few in a check, and a million
// in `make soak`, which sets ONCEKEY_SOAK.
func Many(few int) int {
	if os.Getenv("ONCEKEY_SOAK") == "" {
		return few
	}
	return 1_000_000
}
