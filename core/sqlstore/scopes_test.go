package sqlstore_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/storetest"
)

func TestLimiterConformance(t *testing.T) {
	t.Parallel()
	over(t, servers, func(t *testing.T, s setUp) {
		open := s.opener(t)
		storetest.RunLimiter(t, storetest.Config{New: func(t testing.TB) storage.Store { return open(t) }, Unit: unit})
	})
}

func TestLimiterConformanceOfSQLite(t *testing.T) {
	t.Parallel()
	over(t, inProcess, func(t *testing.T, s setUp) {
		open := s.opener(t)
		storetest.RunLimiter(t, storetest.Config{New: func(t testing.TB) storage.Store { return open(t) }, Unit: unit, Wrap: synctest.Test})
	})
}

// A sweep removes the count of a scope that has had no key for long, and no other one.
func TestSweepRemovesCounts(t *testing.T) {
	t.Parallel()
	over(t, inProcess, func(t *testing.T, s setUp) {
		synctest.Test(t, func(t *testing.T) {
			store, db := s.open(t)
			for scope, ttl := range []time.Duration{time.Minute, 24 * time.Hour} {
				place := storage.Place{Scope: fmt.Sprintf("%064x", scope), Token: storage.NewToken()}
				_, err := store.Admit(t.Context(), place, ttl, storage.ScopeLimit{InFlight: 1, NewKeys: 1, Window: time.Minute})
				must(t, err)
			}
			time.Sleep(3 * time.Hour) //nolint:forbidigo // in a bubble
			sweeps(t, store, 1)
			counts(t, db, 1, `SELECT count(*) FROM oncekey_records`)
		})
	})
}
