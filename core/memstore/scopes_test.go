package memstore

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
)

// A store that has seen many scopes keeps the counts of those with a place or a window.
func TestCountsOfIdleScopesAreDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := New()
		admit := func(scope string, ttl time.Duration) {
			t.Helper()
			limit := storage.ScopeLimit{InFlight: 1, NewKeys: 1, Window: time.Minute}
			if _, err := store.Admit(t.Context(), storage.Place{Scope: scope, Token: storage.NewToken()}, ttl, limit); err != nil {
				t.Fatal(err)
			}
		}
		for n := range 1000 {
			admit(fmt.Sprint(n), time.Second)
		}
		admit("with a place", time.Hour)
		<-time.After(2 * time.Minute)
		admit("with a window", time.Second)
		testkit.Equal(t, len(store.counts), 2, "counts of the store")
	})
}
