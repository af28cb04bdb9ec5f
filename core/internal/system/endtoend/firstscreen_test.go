package endtoend

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/adapters/inspector"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// copies is the number of completed records in the store: a million, or ONCEKEY_RECORDS.
func copies() int {
	if n, err := strconv.Atoi(os.Getenv("ONCEKEY_RECORDS")); err == nil {
		return n
	}
	return 1_000_000
}

// BenchmarkFirstScreen measures the screens of the inspector with a million records: the
// first one, and the record that an operator looks up.
//
//	go -C core/internal/system test ./endtoend -run '^$' -bench FirstScreen -benchtime 20x
func BenchmarkFirstScreen(b *testing.B) {
	b.Run("redis", func(b *testing.B) { screens(b, redisWithCopies(b)) })
	b.Run("postgres", func(b *testing.B) { screens(b, postgresWithCopies(b)) })
}

// screens requests each screen of an engine on the store.
func screens(b *testing.B, store storage.Store) {
	b.Helper()
	engine, err := core.New(store, core.SharedScope)
	testkit.Must(b, err)
	page, err := inspector.New(engine, func(*http.Request) (inspector.Operator, error) {
		return inspector.Operator{Name: "m.ortiz", May: inspector.Read}, nil
	})
	testkit.Must(b, err)
	for _, path := range []string{"/", "/?state=abandoned", "/?state=completed", "/records/" + original} {
		b.Run(strings.ReplaceAll(path[:min(len(path), 20)], "/", "|"), func(b *testing.B) {
			slowest := time.Duration(0)
			for b.Loop() {
				begin := time.Now()
				w := httptest.NewRecorder()
				page.ServeHTTP(w, httptest.NewRequestWithContext(b.Context(), http.MethodGet, path, http.NoBody))
				slowest = max(slowest, time.Since(begin))
				if w.Code != http.StatusOK {
					b.Fatalf("the status is %d: %s", w.Code, w.Body)
				}
			}
			b.ReportMetric(float64(slowest.Milliseconds()), "max-ms")
		})
	}
}

// original is the key of the record that is copied.
var original = storage.Key("alice", http.MethodPost, "/payments", "original")

// settle completes the original.
func settle(b *testing.B, store storage.Store) {
	b.Helper()
	claim := storage.Claim{
		Key: original, Token: storage.NewToken(), Fingerprint: "sha256:" + strings.Repeat("0", 64), LockTTL: time.Minute, Retain: time.Hour,
		Origin: storage.Origin{Route: "POST /payments", Holder: "pod-1"},
	}
	lease, _, err := store.Acquire(b.Context(), claim)
	testkit.Must(b, err)
	testkit.Must(b, store.Complete(b.Context(), lease, storage.Result{
		State: storage.Completed, Status: http.StatusCreated, Body: []byte(strings.Repeat("x", 300)), Retain: 24 * time.Hour,
	}))
}

func redisWithCopies(b *testing.B) storage.Store {
	b.Helper()
	server := redistest.Start(b)
	options, err := redis.ParseURL(server.URL())
	testkit.Must(b, err)
	client := redis.NewClient(options)
	b.Cleanup(func() { client.Close() })
	store := redisstore.New(client)
	settle(b, store)
	const chunk = 20_000
	for from := 0; from < copies(); from += chunk {
		testkit.Must(b, client.Eval(b.Context(), `
			local value = redis.call('GET', KEYS[1])
			for n = ARGV[1], ARGV[2] do
				redis.call('SET', 'oncekey:' .. redis.sha1hex(n) .. string.format('%024x', n), value, 'PX', 86400000)
			end
			return 1`, []string{"oncekey:" + original}, from+1, from+chunk).Err())
	}
	return store
}

func postgresWithCopies(b *testing.B) storage.Store {
	b.Helper()
	server := postgrestest.Start(b)
	pool, err := pgxpool.New(b.Context(), server.DSN())
	testkit.Must(b, err)
	b.Cleanup(pool.Close)
	testkit.Must(b, pgstore.Migrate(b.Context(), pool))
	store := pgstore.New(pool)
	settle(b, store)
	_, err = pool.Exec(b.Context(), `
		INSERT INTO oncekey_records (record_key, version, state, attempt, took_over, token, revision, fingerprint, expires_at, sweep_after, status, claimed_at, settled_at, body)
		SELECT encode(sha256(n::text::bytea), 'hex'), version, state, attempt, took_over, token, revision, fingerprint, expires_at, sweep_after, status, claimed_at, settled_at, body
		FROM oncekey_records, generate_series(1, $1::int) AS n`, copies())
	testkit.Must(b, err)
	_, err = pool.Exec(b.Context(), "ANALYZE oncekey_records")
	testkit.Must(b, err)
	return store
}
