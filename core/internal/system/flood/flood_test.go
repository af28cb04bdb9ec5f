package flood

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/internal/system/service"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(postgrestest.Main(m)) }

const (
	// flooding is the number of callers of the client that floods, and payments are those of
	// the other client, one after the other.
	flooding, payments = 8, 300
	perMinute          = 400
	// enough requests of each caller make a flood, however fast the payments are.
	enough = 4 * perMinute / flooding
)

// stores are empty ones, on servers of their own.
var stores = map[string]func(t *testing.T) testkit.Inspectable{
	"memstore": func(*testing.T) testkit.Inspectable { return memstore.New() },
	"redisstore": func(t *testing.T) testkit.Inspectable {
		return redisstore.New(service.Redis(t, redis.Options{Addr: redistest.Start(t).Addr()}))
	},
	"pgstore": func(t *testing.T) testkit.Inspectable {
		pool := service.Pool(t, postgrestest.Shared(t))
		testkit.Must(t, pgstore.Migrate(t.Context(), pool))
		return pgstore.New(pool)
	},
}

// A client with a flood of new keys, at two pods, fills no store: it gets as many records as its
// limit allows, and each payment of another client runs once. The log has the figures of
// docs/stores.md, without a limit too.
func TestFloodOfKeys(t *testing.T) { //nolint:paralleltest // it measures
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Logf("no flood, no limit: %s", measure(t, open(t), false))
			t.Logf("flood, no limit: %s", measure(t, open(t), true))
			limited := measure(t, open(t), true, core.WithScopeLimit(core.ScopeLimit{InFlight: 20, PerMinute: perMinute}))
			t.Logf("flood, limit: %s", limited)
			if limited.records > 2*perMinute+payments || limited.refused == 0 {
				t.Errorf("%s: want at most %d records", limited, 2*perMinute+payments)
			}
		})
	}
}

// figures are those of one measurement.
type figures struct {
	p50, p99         time.Duration
	records          int
	flooded, refused int64
}

func (f figures) String() string {
	return fmt.Sprintf("payments p50 %v, p99 %v; %d records at the end; %d requests of the flood, %d of them refused", f.p50, f.p99, f.records, f.flooded, f.refused)
}

// measure serves two pods, of which the flood calls both.
func measure(t *testing.T, store testkit.Inspectable, floods bool, options ...core.Option) (f figures) {
	t.Helper()
	var pods []http.Handler
	for range 2 {
		pods = append(pods, pod(t, store, options))
	}
	var flooded, refused atomic.Int64
	var ended atomic.Bool
	var flood sync.WaitGroup
	for caller := range flooding {
		if !floods {
			break
		}
		flood.Go(func() {
			for n := 0; n < enough || !ended.Load(); n++ {
				flooded.Add(1)
				if post(t, pods[n%len(pods)], "mallory", fmt.Sprintf("%d-%d", caller, n)) == http.StatusTooManyRequests {
					refused.Add(1)
				}
			}
		})
	}
	var took []time.Duration
	for n := range payments {
		began := time.Now()
		testkit.Equal(t, post(t, pods[n%len(pods)], "alice", fmt.Sprint(n)), http.StatusCreated, "the status of payment %d", n)
		took = append(took, time.Since(began))
	}
	ended.Store(true)
	flood.Wait()
	slices.Sort(took)
	return figures{took[len(took)/2], took[len(took)*99/100], count(t, store), flooded.Load(), refused.Load()}
}

func pod(t *testing.T, store storage.Store, options []core.Option) http.Handler {
	t.Helper()
	user := core.ScopeBy(func(r *http.Request) (string, error) { return r.Header.Get("Authorization"), nil })
	engine := service.Engine(t, store, user, options...)
	return engine.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"id":"p_1"}`)
	}))
}

func post(t *testing.T, pod http.Handler, client, key string) int {
	r := testkit.Post(t.Context(), "/payments", key, `{"amount":100}`)
	r.Header.Set("Authorization", client)
	return testkit.Serve(pod, r).Code
}

// count returns the number of records, of all pages.
func count(t *testing.T, store testkit.Inspectable) (n int) {
	t.Helper()
	for cursor, first := "", true; first || cursor != ""; first = false {
		listing, err := store.List(t.Context(), storage.Filter{}, storage.Page{Cursor: cursor, Limit: 1000})
		testkit.Must(t, err)
		n, cursor = n+len(listing.Entries), listing.Next
	}
	return n
}
