package sealedstore_test

import (
	"context"
	"testing"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/sealedstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/internal/testkit/golden"
)

// goldenRecord is a record as the next store keeps it, sealed with newGCM(1), and the record that the key opens.
type goldenRecord struct {
	Key          string
	Sealed, Read storage.Record
}

// holding is a store that finds one record.
type holding struct {
	testkit.Inspectable
	record storage.Record
}

func (h holding) Lookup(context.Context, string) (*storage.Record, error) { return &h.record, nil }

func openGolden(t *testing.T, key string, sealed storage.Record) goldenRecord {
	t.Helper()
	read, err := sealedstore.New(holding{memstore.New(), sealed}, newGCM(1)).Lookup(t.Context(), key)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return goldenRecord{Key: key, Sealed: sealed, Read: *read}
}

// Records that released versions have sealed can be opened.
func TestGoldenRecords(t *testing.T) {
	t.Parallel()
	golden.Each(t, "records.jsonl", func(t *testing.T) (all []goldenRecord) {
		t.Helper()
		next := memstore.New()
		store := sealedstore.New(next, newGCM(1))
		finish(t, store, "a response", result(storage.Completed))
		finish(t, store, "no response", result(storage.Unreplayable))
		running := win(t, store, claim("a run with steps"))
		running.Steps = "charge\nship\n"
		must(t, store.Extend(t.Context(), running, running.LockTTL))
		released := win(t, store, claim("released with steps"))
		released.Steps = "charge\n"
		must(t, store.Release(t.Context(), released))
		for _, key := range []string{"a response", "no response", "a run with steps", "released with steps"} {
			sealed, err := next.Lookup(t.Context(), key)
			must(t, err)
			all = append(all, openGolden(t, key, *sealed))
		}
		return all
	}, func(t *testing.T, released goldenRecord) {
		t.Helper()
		golden.Want(t, openGolden(t, released.Key, released.Sealed), released)
	})
}
