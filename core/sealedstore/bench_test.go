package sealedstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/sealedstore"
	"github.com/oncekey/oncekey/core/storage"
)

// newStore makes the same store with and without a seal.
var newStore = map[string]func() storage.Store{
	"plain":  func() storage.Store { return memstore.New() },
	"sealed": func() storage.Store { return sealedstore.New(memstore.New(), newGCM(1)) },
}

func response(size int) storage.Result {
	res := result(storage.Completed)
	res.Body = []byte(strings.Repeat("a", size))
	return res
}

// BenchmarkReplay asks the store for a finished record.
func BenchmarkReplay(b *testing.B) {
	for _, size := range []int{300, 64 << 10} {
		for name, open := range newStore {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				store := open()
				finish(b, store, "key", response(size))
				asking := claim("key")
				b.ReportAllocs()
				for b.Loop() {
					if _, found, err := store.Acquire(b.Context(), asking); err != nil || found == nil {
						b.Fatal(found, err)
					}
				}
			})
		}
	}
}

// BenchmarkFirst claims a key, stores its response and forgets it.
func BenchmarkFirst(b *testing.B) {
	for _, size := range []int{300, 64 << 10} {
		for name, open := range newStore {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				store := open()
				res, asking := response(size), claim("key")
				b.ReportAllocs()
				for b.Loop() {
					lease, _, err := store.Acquire(b.Context(), asking)
					if err == nil {
						err = store.Complete(b.Context(), lease, res)
					}
					if err == nil {
						_, err = store.(storage.Inspector).Forget(b.Context(), "key", storage.RerunIsSafe)
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
