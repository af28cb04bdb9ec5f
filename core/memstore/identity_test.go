package memstore_test

import (
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
)

// A text that resembles a storage key or a fingerprint, and is neither, comes back as
// it was spelled, and equals no other text.
func TestAlmostHexadecimal(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	digits := strings.Repeat("0123456789abcdef", 4)
	spellings := []string{
		digits, strings.ToUpper(digits), strings.Replace(digits, "f", "F", 1), strings.Replace(digits, "0", "g", 1),
		strings.Replace(digits, "a", "\xff", 1), strings.Replace(digits, "1", "\x00", 1), digits[1:], digits + "0", "",
	}
	for _, spelling := range spellings {
		c := claim(0)
		c.Key, c.Fingerprint = spelling, "sha256:"+spelling
		must(t, store.Complete(t.Context(), win(t, store, c), result("of "+spelling)))
	}
	for _, spelling := range spellings {
		record, err := store.Lookup(t.Context(), spelling)
		if err != nil || record == nil || string(record.Body) != "of "+spelling || record.Fingerprint != "sha256:"+spelling {
			t.Errorf("Lookup of %q returned %+v and %v", spelling, record, err)
		}
	}
	listed := listAll(t, store, storage.Completed, 2)
	for _, spelling := range spellings {
		if listed[spelling] == nil {
			t.Errorf("%q is not listed", spelling)
		}
	}
}
