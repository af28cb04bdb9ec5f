package tiered

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/internal/system/service"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/sealedstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/storetest"
	"github.com/oncekey/oncekey/core/tieredstore"
	"github.com/oncekey/oncekey/internal/testkit"
	"github.com/oncekey/oncekey/policy"
)

var silent = slog.New(slog.DiscardHandler)

// sealedstore changes what is in a record, and not how a store keeps it: one server is enough.
func TestSealedConformanceOverRedis(t *testing.T) {
	t.Parallel()
	rdb := connect(t)
	var cases atomic.Int32
	storetest.Run(t, storetest.Config{
		New: func(testing.TB) storage.Store {
			store := redisstore.New(rdb, redisstore.Prefix(fmt.Sprintf("case%d:", cases.Add(1))))
			return sealedstore.New(store, testkit.NewGCM(1))
		},
		Unit: 400 * time.Millisecond,
	})
}

// The servers' own stores, each with a way to see its bytes.
func servers(t *testing.T) (*redis.Client, *pgxpool.Pool, map[string]storage.Store) {
	t.Helper()
	rdb, pool := connect(t), openPool(t, 4)
	must(t, pgstore.Migrate(t.Context(), pool))
	hot, durable := redisstore.New(rdb), pgstore.New(pool)
	return rdb, pool, map[string]storage.Store{
		"redisstore": hot, "pgstore": durable, "tieredstore": tieredstore.New(hot, durable, tieredstore.Logger(silent), tieredstore.HotTimeout(patience)),
	}
}

// The servers hold no plaintext, and a process without the seal answers 503: it neither
// shows ciphertext nor runs the handler.
func TestSealedRecordOnServers(t *testing.T) {
	t.Parallel()
	rdb, pool, stores := servers(t)
	runs := 0
	pay := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		runs++
		w.Header().Set("X-Secret", "secret header")
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, "secret body")
	})
	post := func(store storage.Store, key string) *httptest.ResponseRecorder {
		t.Helper()
		handler := service.Engine(t, store, core.SharedScope).Handler(pay, policy.OnStoreError(policy.FailOpen), policy.StoreTimeout(patience))
		return testkit.Serve(handler, testkit.Post(t.Context(), "/payments", key, "{}"))
	}
	for name, store := range stores {
		sealed := sealedstore.New(store, testkit.NewGCM(1))
		runs = 0
		for _, replay := range []string{"", "true"} {
			if w := post(sealed, name); w.Code != http.StatusCreated || w.Body.String() != "secret body" ||
				w.Header().Get("X-Secret") != "secret header" || w.Header().Get("X-Idempotent-Replay") != replay {
				t.Errorf("%s: with the seal the response is %d %v %s, replay %q", name, w.Code, w.Header(), w.Body, replay)
			}
		}
		if w := post(store, name); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: without the seal the response is %d %v %s, want 503", name, w.Code, w.Header(), w.Body)
		}
		testkit.Equal(t, runs, 1, "%s: runs of the handler", name)
	}
	keys := rdb.Scan(t.Context(), 0, "*", 100).Iterator()
	records := 0
	for keys.Next(t.Context()) {
		records++
		if value := rdb.Get(t.Context(), keys.Val()).Val(); strings.Contains(value, "secret") || !strings.Contains(value, "format") { // the name of the seal's field
			t.Errorf("Redis holds %q, want it sealed", value)
		}
	}
	rows, err := pool.Query(t.Context(), `SELECT header, body, coalesce(sketch, '') FROM oncekey_records`)
	must(t, err)
	for rows.Next() {
		var header string
		var body, sketch []byte
		must(t, rows.Scan(&header, &body, &sketch))
		records++
		if strings.Contains(string(body), "secret") || header != `[["sealed","format","1"]]` || len(sketch) > 0 {
			t.Errorf("PostgreSQL holds %s, %q and %q, want it sealed", header, body, sketch)
		}
	}
	if must(t, rows.Err()); records != 4 {
		t.Errorf("the servers hold %d records, want 4", records)
	}
}

// A handler's transaction has its sealed response in it.
func TestSealedTransaction(t *testing.T) {
	t.Parallel()
	_, pool, stores := servers(t)
	_, err := pool.Exec(t.Context(), `CREATE TABLE payments (id text)`)
	must(t, err)
	for _, name := range []string{"pgstore", "tieredstore"} {
		store := sealedstore.New(stores[name], testkit.NewGCM(1))
		handler := service.Engine(t, store, core.SharedScope).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			tx, _ := pgstore.Tx(r.Context())
			if _, err := tx.Exec(r.Context(), `INSERT INTO payments VALUES ($1)`, name); err != nil {
				t.Error(err)
			}
			w.WriteHeader(http.StatusCreated)
			io.WriteString(w, "paid "+name)
		}), policy.Transactional(true), policy.StoreTimeout(patience))
		for range 2 {
			w := testkit.Serve(handler, testkit.Post(t.Context(), "/payments", "transactional-"+name, "{}"))
			if w.Code != http.StatusCreated || w.Body.String() != "paid "+name {
				t.Errorf("%s: the response is %d %s", name, w.Code, w.Body)
			}
		}
	}
	var paid int
	must(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM payments`).Scan(&paid))
	testkit.Equal(t, paid, 2, "payments that were made")
}
