package availability

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/internal/system/soak"
	"github.com/oncekey/oncekey/core/sqlstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/storetest"
	"github.com/oncekey/oncekey/internal/testkit"
	mysqltest "github.com/oncekey/oncekey/internal/testkit/mysql"
)

// unit is the time that the contract's cases take for short.
const unit = 400 * time.Millisecond

// TestSoakGalera runs the contract of a store over one node of a cluster, and then claims
// the same keys at all nodes at once: nodes that accept writes of the same row find the
// conflict only at its commit.
//
//nolint:paralleltest,tparallel // the cases run in parallel, and their cluster is one
func TestSoakGalera(t *testing.T) {
	soak.Duration(t, 0)
	nodes := mysqltest.StartGalera(t)
	t.Run("contract", func(t *testing.T) {
		var databases atomic.Int64
		storetest.Run(t, storetest.Config{Unit: unit, New: func(tb testing.TB) storage.Store {
			tb.Helper()
			name := fmt.Sprint("contract", databases.Add(1))
			nodes[0].Execute("CREATE DATABASE " + name)
			return storeAt(tb, nodes[0], name, true)
		}})
	})
	t.Run("one winner", func(t *testing.T) {
		nodes[0].Execute("CREATE DATABASE winner")
		stores := []storage.Store{storeAt(t, nodes[0], "winner", true)}
		for _, node := range nodes[1:] {
			stores = append(stores, storeAt(t, node, "winner", false))
		}
		for n := range 300 {
			claimAtEach(t, stores, fmt.Sprint("key-", n))
		}
	})
}

func storeAt(t testing.TB, node *mysqltest.Server, database string, migrate bool) storage.Store {
	t.Helper()
	db, err := sql.Open("mysql", fmt.Sprintf("root@tcp(%s)/%s", node.Addr(), database))
	testkit.Must(t, err)
	db.SetMaxOpenConns(connections / 2)
	t.Cleanup(func() { db.Close() })
	if migrate {
		testkit.Must(t, sqlstore.Migrate(t.Context(), db, sqlstore.MySQL()))
	}
	return sqlstore.New(db, sqlstore.MySQL())
}

// claimAtEach claims a key at all stores at once, and expects one lease, and its result at
// each store.
func claimAtEach(t *testing.T, stores []storage.Store, key string) {
	t.Helper()
	leases := make([]storage.Lease, len(stores))
	failures := make([]error, len(stores))
	var claims sync.WaitGroup
	for n, store := range stores {
		claims.Go(func() {
			lease, record, err := store.Acquire(t.Context(), testkit.Claim(key))
			if err == nil && record == nil {
				leases[n] = lease
			}
			failures[n] = err
		})
	}
	claims.Wait()
	winner := slices.IndexFunc(leases, func(l storage.Lease) bool { return l.Key != "" })
	if err := errors.Join(failures...); winner < 0 || err != nil {
		t.Fatalf("%s: no claim got the lease, or one failed: %v", key, err)
	}
	for n := range leases[winner+1:] {
		if other := leases[winner+1+n]; other.Key != "" {
			t.Errorf("%s: nodes %d and %d both gave a lease", key, winner, winner+1+n)
		}
	}
	testkit.Must(t, stores[winner].Complete(t.Context(), leases[winner], testkit.Result(key)))
	for _, store := range stores {
		testkit.Eventually(t, func() bool { // a node applies the writes of others a moment later
			_, record, err := store.Acquire(t.Context(), testkit.Claim(key))
			return err == nil && record != nil && string(record.Body) == key
		})
	}
}
