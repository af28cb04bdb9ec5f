package pgstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
)

// Case 20: a row that is no record is neither replayed nor claimed.
func TestCorruptRows(t *testing.T) {
	t.Parallel()
	_, pool := open(t)
	tests := []struct{ name, change, mentions string }{
		{"future version", `version = 3`, "version is 3"},
		{"version before the first", `version = 0`, "version is 0"},
		{"unknown state", `state = 'done'`, `"done"`},
		{"state of another package", `state = 'expired'`, `"expired"`},
		{"tombstone with a status too low", `version = 2, state = 'gone', status = 99`, "99"},
		{"origin with an unknown escape", `origin = '\q', origin_token = token`, `origin is "\\q"`},
		{"invalid state", `state = 'invalid'`, `"invalid"`},
		{"no attempt", `attempt = 0`, "attempt number is 0"},
		{"no status", `status = NULL`, "status is missing"},
		{"status too low", `status = 99`, "99"},
		{"status too high", `status = 1000`, "1000"},
		{"header of another shape", `header = '{"A": "b"}'`, `header is "{`},
		{"header that is one string", `header = '"set"'`, `header is "`},
		{"header without fields", `header = '["set","A","b"]'`, `header is "[`},
		{"field with a number", `header = '[["set","A",1]]'`, `header is "[[`},
		{"field with a list", `header = '[["set","A",["b"]]]'`, `header is "[[`},
		{"field with a null", `header = '[["set",null,"b"]]'`, `header is "[[`},
		{"unknown operation", `header = '[["put","A","b"]]'`, "header field 0"},
		{"field of two words", `header = '[["set","A"]]'`, "header field 0"},
		{"unknown encoding", `header = '[["set","A","b","hex"]]'`, "header field 0"},
		{"no base64", `header = '[["set","A","b","base64"]]'`, "header field 0"},
		{"lease without end", `state = 'in_progress', lease_until = NULL`, "lease has no end"},
		{"endless lease", `state = 'in_progress', lease_until = 'infinity'`, "lease has no end"},
	}
	check := func(t *testing.T, store *pgstore.Store, key, change, mentions string) {
		t.Helper()
		finish(t, store, key)
		execute(t, pool, `UPDATE oncekey.records SET `+change+` WHERE key = $1`, key)
		row := func() string {
			return queryOne[string](t, pool, `SELECT (r.*, r.ctid, r.xmin)::text FROM oncekey.records AS r WHERE key = $1`, key)
		}
		before := row()
		lease, record, err := store.Acquire(t.Context(), takeOver(key))
		if record != nil || lease != (storage.Lease{}) || !errors.Is(err, storage.ErrCorruptRecord) {
			t.Fatalf("Acquire returned %+v, %+v and %v, want ErrCorruptRecord", lease, record, err)
		}
		for _, part := range []string{`"` + key + `"`, mentions} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("the error is %q, want it to mention %s", err, part)
			}
		}
		if _, err := store.Lookup(t.Context(), key); !errors.Is(err, storage.ErrCorruptRecord) {
			t.Errorf("Lookup returned %v, want ErrCorruptRecord", err)
		}
		if after := row(); after != before {
			t.Errorf("the row was %s\nand is %s", before, after)
		}
	}
	for name, store := range map[string]*pgstore.Store{
		"alone": pgstore.New(pool, pgstore.WithoutBatches()), "in batches": pgstore.New(pool).AlwaysBatch(),
	} {
		for _, test := range tests {
			t.Run(test.name+" "+name, func(t *testing.T) {
				t.Parallel()
				check(t, store, test.name+" "+name, test.change, test.mentions)
			})
		}
	}
}

func TestRecordKeptForEverIsReplayed(t *testing.T) {
	t.Parallel()
	store, pool := open(t)
	finish(t, store, "key")
	execute(t, pool, `UPDATE oncekey.records SET expires_at = 'infinity'`)
	if r := find(t, store, claim("key")); string(r.Body) != "key" {
		t.Errorf("the record is %+v, want the response", r)
	}
}
