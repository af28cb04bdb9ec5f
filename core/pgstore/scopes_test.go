package pgstore_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/storetest"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
)

func TestLimiterConformance(t *testing.T) {
	t.Parallel()
	pool := connect(t, postgrestest.Shared(t))
	var cases atomic.Int32
	storetest.RunLimiter(t, storetest.Config{Unit: unit, New: func(t testing.TB) storage.Store {
		return named(t, pool, fmt.Sprintf("scope_case_%d", cases.Add(1)), ways["mixed"])
	}})
}

// Processes share the counts: together they admit exactly as many keys as the limit allows.
func TestScopesOfSeveralProcesses(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	first := connect(t, server)
	named(t, first, "shared_scopes", ways["mixed"])
	const allowed, callers = 20, 60
	var admitted atomic.Int32
	done := make(chan error, callers)
	for range 3 {
		store := pgstore.New(connect(t, server), pgstore.Table("shared_scopes"))
		for range callers / 3 {
			go func() {
				limit := storage.ScopeLimit{InFlight: allowed, NewKeys: allowed + 5, Window: time.Hour}
				a, err := store.Admit(t.Context(), storage.Place{Scope: fmt.Sprintf("%064x", 1), Token: storage.NewToken()}, time.Hour, limit)
				if err == nil && a.Reached == 0 {
					admitted.Add(1)
				}
				done <- err
			}()
		}
	}
	for range callers {
		must(t, <-done)
	}
	if got := admitted.Load(); got != allowed {
		t.Errorf("%d keys are admitted, want %d", got, allowed)
	}
}
