package tieredstore

import (
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit/golden"
)

// goldenRefill is a record as the hot tier keeps it after a refill, and as it is replayed.
type goldenRefill struct{ Hot, Replayed storage.Record }

// Records with which released versions have refilled the hot tier are replayed with the run's attempt and times.
func TestGoldenRefills(t *testing.T) {
	t.Parallel()
	golden.Each(t, "refills.jsonl", func(*testing.T) (all []goldenRefill) {
		at := time.Date(2026, time.January, 2, 15, 4, 5, 678_000, time.UTC)
		origin := storage.Origin{Route: "POST /payments", Holder: "pod-1", KeyHash: "f2ca1bb6", Trace: "4bf92f35-00f0"}
		for _, o := range []storage.Origin{
			origin, withRun(origin, 37), withRun(origin, 3, at, at.Add(time.Minute), at.Add(time.Hour)), withRun(storage.Origin{}, 3, at, time.Time{}, time.Time{}),
		} {
			hot := storage.Record{State: storage.Completed, Attempt: 1, Status: 201, Body: []byte("{}"), Origin: o, Created: at.Add(2 * time.Hour)}
			all = append(all, goldenRefill{hot, *original(&hot)})
		}
		return all
	}, func(t *testing.T, released goldenRefill) {
		t.Helper()
		golden.Want(t, goldenRefill{released.Hot, *original(&released.Hot)}, released)
	})
}
