package pgstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core/storage"
)

const longest = 100 // bytes of a body that the tables of these tests allow

// raises lets a trigger raise an error for a long body.
func raises(code string) string {
	return fmt.Sprintf(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF octet_length(NEW.body) > %d THEN RAISE 'refused' USING ERRCODE = '%s'; END IF; RETURN NEW; END $$;
		CREATE TRIGGER refuse BEFORE UPDATE ON oncekey_records FOR EACH ROW EXECUTE FUNCTION refuse()`, longest, code)
}

// Case 95: a response that the server can never keep is storage.ErrNotStorable, and the
// outcome is kept without it. Other errors may pass, and are not.
func TestResponseThatCannotBeStored(t *testing.T) {
	t.Parallel()
	faults := map[string]bool{ // by the statement that prepares one: whether it is for good
		fmt.Sprintf(`ALTER TABLE oncekey_records ADD CHECK (octet_length(body) <= %d)`, longest): true,
	}
	for _, code := range []string{"22001", "22021", "22P05", "23502", "23503", "23505", "23514", "44000", "54000", "P0001"} {
		faults[raises(code)] = true
	}
	for _, code := range []string{"53100", "53200", "55000", "57014", "58030", "XX000"} {
		faults[raises(code)] = false
	}
	for prepare, forGood := range faults {
		for _, size := range []int{longest + 1, 100_000} { // in a batch, and alone
			t.Run(fmt.Sprint(prepare[strings.LastIndex(prepare, "ERRCODE")+1:][:20], size), func(t *testing.T) {
				t.Parallel()
				store, pool := open(t)
				store.AlwaysBatch()
				lease := win(t, store, claim("key"))
				execute(t, pool, prepare)
				res := result(strings.Repeat("x", size))
				res.Sketch = nil
				if err := store.Complete(t.Context(), lease, res); err == nil || errors.Is(err, storage.ErrNotStorable) != forGood {
					t.Errorf("Complete returned %v, want ErrNotStorable: %t", err, forGood)
				}
				must(t, store.Complete(t.Context(), lease, storage.Result{State: storage.Unreplayable, Status: 201, Retain: lease.Retain}))
				if r := find(t, store, claim("key")); r.State != storage.Unreplayable || r.Status != 201 {
					t.Errorf("the record is %+v, want an Unreplayable one", r)
				}
			})
		}
	}
}

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
