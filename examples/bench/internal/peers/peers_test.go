package peers_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/valyala/fasthttp"

	"github.com/oncekey/oncekey/examples/bench/internal/peers"
	"github.com/oncekey/oncekey/internal/testkit"
	postgrestest "github.com/oncekey/oncekey/internal/testkit/postgres"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

const (
	key      = "00000000-0000-4000-8000-000000000001"
	otherKey = "00000000-0000-4000-8000-000000000002"
)

func post(t *testing.T, handler http.Handler, key, body string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader(body))
	request.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, request)
	return w
}

// countingBackend counts calls.
type countingBackend struct {
	peers.Backend
	calls int
}

func (b *countingBackend) SetNX(ctx context.Context, key, value string, ttl time.Duration) (bool, error) {
	b.calls++
	return b.Backend.SetNX(ctx, key, value, ttl)
}

func (b *countingBackend) Get(ctx context.Context, key string) ([]byte, error) {
	b.calls++
	return b.Backend.Get(ctx, key)
}

func (b *countingBackend) Set(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	b.calls++
	return b.Backend.Set(ctx, key, value, ttl)
}

// The measured middleware must work, with the calls that its shape promises.
func TestTutorial(t *testing.T) {
	t.Parallel()
	for _, shape := range []struct {
		getFirst                bool
		firstCalls, replayCalls int
	}{{false, 2, 2}, {true, 3, 1}} {
		backend := &countingBackend{Backend: peers.NewMap()}
		calls := func() int { n := backend.calls; backend.calls = 0; return n }
		tutorial := peers.Tutorial{Backend: backend, GetFirst: shape.getFirst, Fingerprint: true}
		runs := 0
		var handler http.Handler
		handler = tutorial.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			runs++
			if r.Header.Get("X-Nested") == "" {
				before := backend.calls
				nested := r.Clone(r.Context())
				nested.Header.Set("X-Nested", "1")
				nested.Body = io.NopCloser(strings.NewReader(`{"a":1,"n":5}`))
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, nested)
				testkit.Equal(t, w.Code, http.StatusConflict, "the status of a retry while the handler runs")
				backend.calls = before
			}
			w.Header().Set("Location", "/payments/1")
			w.WriteHeader(http.StatusCreated)
			_, _ = io.Copy(w, r.Body)
		}))

		first := post(t, handler, key, `{"a":1,"n":5}`)
		testkit.Equal(t, calls(), shape.firstCalls, "get first %t: calls of a first-time request", shape.getFirst)
		replay := post(t, handler, key, `{"n":5, "a":1}`)
		testkit.Equal(t, calls(), shape.replayCalls, "get first %t: calls of a replay", shape.getFirst)
		if runs != 1 || replay.Code != http.StatusCreated || replay.Body.String() != first.Body.String() ||
			replay.Header().Get("Location") != "/payments/1" || replay.Header().Get("X-Idempotent-Replay") != "true" {
			t.Errorf("after %d runs the retry gets %d %q %v", runs, replay.Code, replay.Body, replay.Header())
		}
		if other := post(t, handler, key, `{"a":2,"n":5}`); other.Code != http.StatusUnprocessableEntity || runs != 1 {
			t.Errorf("another payload gets %d, after %d runs", other.Code, runs)
		}
		if post(t, handler, otherKey, `{"a":1,"n":5}`); runs != 2 {
			t.Errorf("another key makes %d runs, want 2", runs)
		}
		for key, body := range map[string]string{"": `{}`, "malformed": `{`} {
			if w := post(t, handler, key, body); w.Code != http.StatusBadRequest || runs != 2 {
				t.Errorf("the key %q and the body %s get %d", key, body, w.Code)
			}
		}
	}
}

func TestFiber(t *testing.T) {
	t.Parallel()
	storage := peers.NewStorage()
	response := []byte(`{"id":1}`)
	handler := peers.Fiber(storage, response)
	send := func() string {
		var c fasthttp.RequestCtx
		c.Init(&fasthttp.Request{}, nil, nil)
		c.Request.Header.SetMethod(http.MethodPost)
		c.Request.SetRequestURI("/payments")
		c.Request.Header.Set("Idempotency-Key", key)
		handler(&c)
		testkit.Equal(t, c.Response.StatusCode(), http.StatusCreated, "fiber's status")
		return string(c.Response.Body())
	}
	send()
	kept, err := storage.Get(key)
	if err != nil || len(kept) == 0 {
		t.Fatalf("fiber has kept %q, with error %v", kept, err)
	}
	copy(response, `{"id":2}`) // a second run of the handler would send this
	testkit.Equal(t, send(), `{"id":1}`, "fiber's response to a retry")
	testkit.Must(t, storage.Reset())
	testkit.Equal(t, send(), `{"id":2}`, "fiber's response with an empty storage")
}

// The measured guard must claim, refuse, settle by its token and replay.
func TestByHand(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]func(*testing.T) peers.HandStore{
		"memory": func(*testing.T) peers.HandStore { return peers.NewHandMap() },
		"Redis": func(t *testing.T) peers.HandStore {
			t.Helper()
			client := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr()})
			t.Cleanup(func() { _ = client.Close() })
			return peers.HandRedis{Client: client}
		},
		"PostgreSQL": func(t *testing.T) peers.HandStore {
			t.Helper()
			pool := newPool(t)
			if _, err := pool.Exec(t.Context(), peers.HandTable); err != nil {
				t.Fatal(err)
			}
			return peers.HandPostgres{Pool: pool}
		},
	}, func(t *testing.T, store func(*testing.T) peers.HandStore) {
		expectGuard(t, store(t))
	})
}

func newPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), postgrestest.Start(t).DSN())
	testkit.Must(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func expectGuard(t *testing.T, store peers.HandStore) {
	t.Helper()
	runs, during := 0, func() {}
	handler := peers.ByHand{Store: store}.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		runs++
		during()
		w.Header().Set("Location", "/payments/1")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.Copy(w, r.Body)
	}))
	send := func(body string, status int) *httptest.ResponseRecorder {
		t.Helper()
		w := post(t, handler, key, body)
		if w.Code != status {
			t.Errorf("%s gets %d, want %d: %s", body, w.Code, status, w.Body)
		}
		return w
	}
	during = func() { send(`{"a":1}`, http.StatusConflict) }
	first := send(`{"a":1}`, http.StatusCreated)
	replay := send(`{"a":1}`, http.StatusCreated)
	send(`{"a":2}`, http.StatusUnprocessableEntity)
	if runs != 1 || first.Body.String() != `{"a":1}` || replay.Body.String() != first.Body.String() ||
		replay.Header().Get("Location") != "/payments/1" || replay.Header().Get("X-Idempotent-Replay") != "true" ||
		first.Header().Get("X-Idempotent-Replay") != "" {
		t.Errorf("after %d runs the replay is %q %v", runs, replay.Body, replay.Header())
	}
	if err := store.Settle(t.Context(), "another", peers.HandRecord{Token: [16]byte{1}}); err == nil {
		t.Error("a record without a claim is settled")
	}
}

// A second workflow with a key must return the response of the first one.
func TestDBOS(t *testing.T) {
	t.Parallel()
	response := []byte(`{"id":1}`)
	handler, stop, err := peers.DBOS(t.Context(), newPool(t), response)
	defer stop()
	testkit.Must(t, err)
	for _, request := range []struct{ key, want string }{{key, `{"id":1}`}, {key, `{"id":1}`}, {otherKey, `{"id":2}`}} {
		w := post(t, handler, request.key, `{"a":1}`)
		if w.Code != http.StatusCreated || w.Body.String() != request.want {
			t.Errorf("%s gets %d %s, want %s", request.key, w.Code, w.Body, request.want)
		}
		copy(response, `{"id":2}`)
	}
}
