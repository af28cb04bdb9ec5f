package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	faultproxy "github.com/oncekey/oncekey/internal/testkit/proxy"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
	"github.com/oncekey/oncekey/policy"
)

// atOnce is less than go-redis takes to dial five times.
const atOnce = 300 * time.Millisecond

// unused is an address that refuses connections: a port that no other test takes.
const unused = "127.0.0.1:1"

// Case 47: a server that refuses connections is reported at once, by its own words,
// the first time and the hundredth, to one caller and to many.
func TestRefusedConnectionIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]bool{"punctual": true, "plain": false}, func(t *testing.T, punctual bool) {
		rdb := redis.NewClient(&redis.Options{Addr: unused, ContextTimeoutEnabled: punctual, PoolSize: 4})
		defer rdb.Close()
		store := redisstore.New(rdb)
		var slow, unnamed int
		var mutex sync.Mutex
		ask := func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			start := time.Now()
			_, _, err := store.Acquire(ctx, claim("key"))
			took := time.Since(start)
			mutex.Lock()
			defer mutex.Unlock()
			if took > atOnce {
				slow++
			}
			if !errors.Is(err, syscall.ECONNREFUSED) {
				unnamed++
				t.Logf("Acquire returned %v", err)
			}
		}
		const alone, rounds, together = 20, 5, 4
		for range alone {
			ask()
		}
		for range rounds {
			concurrently(together, func(int) { ask() })
		}
		// A busy machine may be late at times, but not most of the time.
		if all := alone + rounds*together; slow > all/2 || unnamed > 0 {
			t.Errorf("of %d calls %d took more than %v and %d did not say why", all, slow, atOnce, unnamed)
		}
	})
}

// Case 47: the event has the cause.
func TestEventOfARefusedConnection(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: unused, ContextTimeoutEnabled: true})
	defer rdb.Close()
	var reported []error
	observer := observe(func(event event.Event) { reported = append(reported, event.Err) })
	guard, err := core.New(redisstore.New(rdb), core.SharedScope, core.WithObserver(observer))
	must(t, err)
	handler := guard.Handler(http.NotFoundHandler(), policy.StoreTimeout(time.Minute))
	response := testkit.Serve(handler, testkit.Post(t.Context(), "/payments", "key", "{}"))
	if response.Code != http.StatusServiceUnavailable || !errors.Is(errors.Join(reported...), syscall.ECONNREFUSED) {
		t.Errorf("the status is %d, and the events have %v: want 503 and ECONNREFUSED", response.Code, reported)
	}
	must(t, guard.Shutdown(t.Context()))
}

// awaitQuestion returns when the question about eviction has had a connection.
func awaitQuestion(t *testing.T, server *redistest.Server, rdb *redis.Client) {
	t.Helper()
	admin := connect(t, server, nil)
	eventually(t, func() bool {
		asked := strings.Contains(admin.Info(t.Context(), "commandstats").Val(), "cmdstat_config|get")
		pool := rdb.PoolStats()
		return asked && pool.IdleConns > 0 && pool.IdleConns == pool.TotalConns
	})
}

type observe func(event.Event)

func (o observe) Observe(_ context.Context, event event.Event) { o(event) }

// Case 47: calls that have a connection do not mind that others get none.
func TestRefusedConnectionsAreTheirOwnCalls(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := faultproxy.Start(t, server.Addr())
	var refused sync.Once
	dialed := make(chan struct{})
	rdb := connect(t, server, func(options *redis.Options) {
		options.Addr, options.ContextTimeoutEnabled, options.PipelinePoolSize = proxy.Addr(), true, -1
		var dials atomic.Int32
		options.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			if dials.Add(1) > 1 {
				defer refused.Do(func() { close(dialed) })
				return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		}
	})
	store := redisstore.New(rdb)
	lease := win(t, store, claim("key"))
	awaitQuestion(t, server, rdb)
	proxy.Set(faultproxy.HoldReplies())
	var call sync.WaitGroup
	call.Go(func() { must(t, store.Complete(t.Context(), lease, result("answer"))) })
	eventually(t, func() bool { return rdb.PoolStats().IdleConns == 0 })
	fails(t, "Release", store.Release(t.Context(), lease), syscall.ECONNREFUSED)
	<-dialed
	proxy.Set(faultproxy.None())
	call.Wait()
}

// Sentinels do not know the master: its name is misspelt, or they have started anew. go-redis then
// fails with an error that wraps redis.Nil, which is also the reply that a key is free.
func TestSentinelsThatDoNotKnowTheMaster(t *testing.T) {
	t.Parallel()
	unknown := fmt.Errorf("redis: all sentinels specified in configuration are unreachable: %w", errors.Join(redis.Nil, redis.Nil))
	dial := func(context.Context, string, string) (net.Conn, error) { return nil, unknown }
	slots := func(context.Context) ([]redis.ClusterSlot, error) { return nil, unknown }
	testkit.Each(t, map[string]redis.UniversalClient{
		"client":   redis.NewClient(&redis.Options{Addr: unused, Dialer: dial}),
		"punctual": redis.NewClient(&redis.Options{Addr: unused, Dialer: dial, ContextTimeoutEnabled: true}),
		"cluster":  redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: slots}),
	}, func(t *testing.T, rdb redis.UniversalClient) {
		defer rdb.Close()
		store := redisstore.New(rdb)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		for _, c := range []storage.Claim{claim("key"), remembered("key")} {
			if _, _, err := store.Acquire(ctx, c); err == nil {
				t.Errorf("a claim with Remember %v was granted without a server", c.Remember)
			}
		}
		if err := store.Check(ctx); err == nil {
			t.Error("Check passed without a server")
		}
	})
}

// Case 47: a server that comes back is found at once.
func TestServerThatComesBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := redisstore.New(connect(t, server, func(options *redis.Options) { options.ContextTimeoutEnabled = true }))
	win(t, store, claim("before"))
	server.Kill()
	for range 30 {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		if _, _, err := store.Acquire(ctx, claim("unreachable")); err == nil {
			t.Error("a dead server gave a lease")
		}
		cancel()
	}
	server.Restart()
	eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, _, err := store.Acquire(ctx, claim("after"))
		return err == nil
	})
}
