package golden

import (
	"context"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// long is how long the records of a file live: tests on any day read them.
const long = 100 * 365 * 24 * time.Hour

const hash = "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

// Tombstone writes a record that a sweep in three hours makes a tombstone.
func Tombstone(t *testing.T, store storage.Store) {
	t.Helper()
	c := claim("a tombstone")
	c.Retain, c.Remember = time.Hour, long
	result := response(storage.Completed)
	result.Retain, result.Remember = time.Hour, long
	testkit.Must(t, store.Complete(t.Context(), testkit.Win(t, store, c), result))
}

// Fill writes a record of each kind.
func Fill(t *testing.T, store storage.Store) {
	t.Helper()
	for key, state := range map[string]storage.State{"a response": storage.Completed, "an error": storage.Failed, "no response": storage.Unreplayable} {
		testkit.Must(t, store.Complete(t.Context(), testkit.Win(t, store, claim(key)), response(state)))
	}
	running := testkit.Win(t, store, claim("a run with steps"))
	running.Steps = "charge\nship\n"
	testkit.Must(t, store.Extend(t.Context(), running, long))
	abandoned := claim("an abandoned run")
	abandoned.LockTTL = time.Millisecond
	testkit.Win(t, store, abandoned)
	released := testkit.Win(t, store, claim("released with steps"))
	released.Steps = "charge\n"
	testkit.Must(t, store.Release(t.Context(), released))
	again := claim("released at the second attempt")
	again.LockTTL = time.Millisecond
	testkit.Win(t, store, again)
	again.Token, again.TakeOver = storage.NewToken(), true
	testkit.Eventually(t, func() bool {
		lease, _, err := store.Acquire(t.Context(), again)
		testkit.Must(t, err)
		if lease.Attempt == 2 {
			testkit.Must(t, store.Release(t.Context(), lease))
		}
		return lease.Attempt == 2
	})
}

func claim(key string) storage.Claim {
	return storage.Claim{
		Key: key, Token: storage.NewToken(), Fingerprint: hash, Digest: storage.Digest{0xd1, 15: 0x9e}, LockTTL: long, Retain: long,
		Origin: storage.Origin{Route: "POST /payments", Holder: "pod-é", KeyHash: "9c56cc51b374c3ba", Trace: "4bf9-00f0", Program: "1f00ba42"},
	}
}

func response(state storage.State) storage.Result {
	return storage.Result{
		State: state, Status: 201, Body: []byte("{}\n"), Sketch: []byte("\x00\xff"), Retain: long,
		Header: storage.Header{{Name: "Content-Type", Value: "application/json"}, {Op: storage.Delete, Name: "Server"}, {Op: storage.Add, Name: "X", Value: "\xff"}},
	}
}

// StoredRow is a row of v0.1.0 or later, and its record: nil for a row that only has an attempt number.
type StoredRow struct {
	Key       string
	Row       Row
	Record    *storage.Record
	Abandoned bool
}

// Stored returns a row with its record, as a store reads it today.
func Stored(t *testing.T, store storage.Inspector, key string, row Row) StoredRow {
	t.Helper()
	stored := StoredRow{Key: key, Row: row}
	found, err := store.Lookup(context.WithoutCancel(t.Context()), key)
	testkit.Must(t, err)
	if found != nil {
		record := *found
		stored.Abandoned = record.Abandoned()
		record.LeaseLeft = 0
		record.Created, record.Finished, record.Expires = record.Created.UTC(), record.Finished.UTC(), record.Expires.UTC()
		stored.Record = &record
	}
	return stored
}
