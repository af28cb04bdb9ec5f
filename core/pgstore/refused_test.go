package pgstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core/storage"
)

const longest = 100 // bytes of a body that the tables of these tests allow

// Case 95: in a transaction such a response is rolled back with the handler's writes. A
// constraint of the handler's own tables is no refusal of the response.
func TestTransactionWhoseResponseCannotBeStored(t *testing.T) {
	t.Parallel()
	r := begin(t, nil)
	execute(t, r.pool, fmt.Sprintf(`ALTER TABLE oncekey_records ADD CHECK (octet_length(body) <= %d) NOT VALID`, longest))
	err := r.Commit(t.Context(), r.lease, result(strings.Repeat("x", longest+1)))
	if !errors.Is(err, storage.ErrRolledBack) || !errors.Is(err, storage.ErrNotStorable) {
		t.Errorf("Commit returned %v, want ErrRolledBack and ErrNotStorable", err)
	}
	r.ends(t, false)
	must(t, r.store.Release(t.Context(), r.lease))

	r = begin(t, nil)
	r.pay(t, 7) // a deferred constraint fails
	if err := r.Commit(t.Context(), r.lease, result("paid")); !errors.Is(err, storage.ErrRolledBack) || errors.Is(err, storage.ErrNotStorable) {
		t.Errorf("Commit returned %v, want ErrRolledBack alone", err)
	}
}
