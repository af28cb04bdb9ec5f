package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core"
	postgrestest "github.com/oncekey/oncekey/core/internal/testkit/postgres"
	faultproxy "github.com/oncekey/oncekey/core/internal/testkit/proxy"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
)

const (
	farAway = 180 * time.Millisecond
	// requestTime is the default StoreTimeout.
	requestTime = 500 * time.Millisecond
)

// far returns a pool whose server is 180 ms distant. TCP, TLS and authentication take
// five round trips more than the proxy sees.
func far(t *testing.T, dsn string) *pgxpool.Pool {
	t.Helper()
	proxy := faultproxy.Start(t, addressOf(t, dsn))
	proxy.Set(faultproxy.Latency(farAway))
	return connect(t, dsn, func(config *pgxpool.Config) {
		through(config, proxy)
		dial := config.ConnConfig.DialFunc
		config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			const handshakes = 5
			select {
			case <-time.After(handshakes * farAway):
				return dial(ctx, network, address)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	})
}

// Case 46: with the default policy a distant server is reached after a few attempts,
// and from then on nearly every request is served at once, unless the machine is busy. A
// client waits a second before it tries again.
func TestFarServer(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.Shared(t)
	migrated(t, dsn, nil)
	engine, err := core.New(pgstore.New(far(t, dsn)), core.SharedScope)
	must(t, err)
	t.Cleanup(func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		must(t, engine.Shutdown(limited))
	})
	handler := engine.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
	attempts := func(key string) int {
		for attempt := 1; ; attempt++ {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/payments", nil)
			request.Header.Set("Idempotency-Key", key)
			response := httptest.NewRecorder()
			handler.ServeHTTP(response, request)
			if response.Code == http.StatusCreated {
				return attempt
			}
			const enough = 60
			if attempt == enough {
				t.Fatalf("the newest of %d responses is %d %s", attempt, response.Code, response.Body)
			}
			<-time.After(time.Second) // its Retry-After
		}
	}
	t.Logf("the first request took %d attempts", attempts("first"))
	const keys = 12
	late := 0
	for n := range keys {
		late += attempts(fmt.Sprint("key", n)) - 1
	}
	const few = 5 * keys // none where no machine is busy; without its connections no request is ever served
	t.Logf("%d requests took %d attempts more", keys, late)
	if late > few {
		t.Errorf("%d requests took %d attempts more, want at most %d", keys, late, few)
	}
}

// Case 46: a program that checks its store before it serves has no slow request. On a
// busy machine it may have one, and the next program has none.
func TestCheckPreparesForTheFirstRequest(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.Shared(t)
	migrated(t, dsn, nil)
	const programs = 10
	for n := range programs {
		if checksAndClaims(t, far(t, dsn), fmt.Sprint("key", n)) {
			return
		}
	}
	t.Errorf("none of %d programs got its first lease within %s", programs, requestTime)
}

// checksAndClaims reports whether the first claim after a Check has its lease in time.
func checksAndClaims(t *testing.T, pool *pgxpool.Pool, key string) bool {
	t.Helper()
	store := pgstore.New(pool)
	short, cancel := context.WithTimeout(t.Context(), requestTime)
	defer cancel()
	if err := store.Check(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Check returned %v within %s, want context.DeadlineExceeded", err, requestTime)
	}
	must(t, store.Check(t.Context()))
	if connections := pool.Stat().TotalConns(); connections != 1 {
		t.Errorf("there are %d connections, want 1: the second Check waits for the first one's", connections)
	}
	soon, stop := context.WithTimeout(t.Context(), requestTime)
	defer stop()
	_, found, err := store.Acquire(soon, claim(key))
	if err != nil || found != nil {
		t.Logf("the first claim found %+v with error %v, want a lease within %s", found, err, requestTime)
		return false
	}
	return true
}

// Case 46: a request that is too late takes no connection with it, and its claim is
// not sent after it.
func TestLateCallKeepsItsConnection(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.Shared(t)
	direct := migrated(t, dsn, nil)
	proxy := faultproxy.Start(t, addressOf(t, dsn))
	pool := connect(t, dsn, func(config *pgxpool.Config) { through(config, proxy) })
	store := pgstore.New(pool)
	lease := win(t, store, claim("key"))
	made := pool.Stat().NewConnsCount()
	proxy.Set(faultproxy.Latency(farAway))
	for operation, call := range map[string]func(ctx context.Context) error{
		"Release": func(ctx context.Context) error {
			return store.Release(ctx, storage.Lease{Claim: claim("none"), Attempt: 1})
		},
		"Extend": func(ctx context.Context) error { return store.Extend(ctx, lease, time.Minute) },
	} {
		short, cancel := context.WithTimeout(t.Context(), farAway/3)
		if err := call(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s returned %v, want context.DeadlineExceeded", operation, err)
		}
		cancel()
		eventually(t, func() bool { return pool.Stat().AcquiredConns() == 0 })
	}
	proxy.Set(faultproxy.None())
	must(t, store.Complete(t.Context(), lease, result("response")))
	if now := pool.Stat().NewConnsCount(); now != made {
		t.Errorf("%d connections were made, want %d, as before", now, made)
	}
	if r := find(t, pgstore.New(direct), claim("key")); string(r.Body) != "response" {
		t.Errorf("the record is %+v, want the response", r)
	}
}

// Case 47: a refused connection is an error at once, which names its cause.
func TestRefusedConnection(t *testing.T) {
	t.Parallel()
	// No other test's server takes this port.
	store := pgstore.New(connect(t, "postgres://shop@127.0.0.1:1/shop?sslmode=disable", nil))
	fastest := time.Hour
	for range 5 { // machines are busy
		start := time.Now()
		_, _, err := store.Acquire(t.Context(), claim("key"))
		fastest = min(fastest, time.Since(start))
		if err == nil || !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("Acquire returned %v, want the cause", err)
		}
	}
	if fastest > time.Second {
		t.Errorf("a refused connection took %s, want at most a second", fastest)
	}
}
