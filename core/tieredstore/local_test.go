package tieredstore_test

import (
	"testing"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/tieredstore"
)

// A memory store as the hot tier is a local cache of finished records, in front of
// the store that all processes share.
func TestLocalCache(t *testing.T) {
	t.Parallel()
	shared := newServer()
	mine, others := shared.link(), shared.link()
	here := tieredstore.New(memstore.New(memstore.Cache()), mine, tieredstore.Logger(silent))
	there := tieredstore.New(memstore.New(memstore.Cache()), others, tieredstore.Logger(silent))

	lease := win(t, here, claim("key"))
	runs(t, there, "key")
	must(t, here.Complete(t.Context(), lease, result("answer")))
	mine.taken()
	for range 3 {
		replays(t, here, "key", "answer")
	}
	mine.wants(t, 0)

	replays(t, there, "key", "answer")
	others.taken()
	replays(t, there, "key", "answer")
	others.wants(t, 0)
}

// A full cache drops records. The shared store replays the dropped records.
func TestFullLocalCache(t *testing.T) {
	t.Parallel()
	shared := newServer().link()
	store := tieredstore.New(memstore.New(memstore.Cache(), memstore.MaxRecords(1)), shared, tieredstore.Logger(silent))
	finish(t, store, "first", "a")
	finish(t, store, "second", "b")
	shared.taken()
	replays(t, store, "second", "b")
	shared.wants(t, 0)
	replays(t, store, "first", "a")
	shared.wants(t, 1)
}
