package redisstore_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/redisstore"
	faultproxy "github.com/oncekey/oncekey/internal/testkit/proxy"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// Case 46: a new connection to a distant server takes longer than StoreTimeout. The calls that need one fail, and their
// connections are closed: the store opens others for later calls.
func TestFarServerIsReached(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := faultproxy.Start(t, server.Addr())
	var noMore atomic.Bool
	rdb := connect(t, server, func(options *redis.Options) {
		options.ContextTimeoutEnabled = true
		options.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
			if noMore.Load() {
				return nil, errors.New("a call has dialed")
			}
			return new(net.Dialer).DialContext(ctx, network, proxy.Addr())
		}
	})
	store := redisstore.New(rdb)
	win(t, store, claim("asks about eviction, on a connection of its own"))
	awaitQuestion(t, server, rdb)
	proxy.Set(faultproxy.Refuse()) // ends all connections
	proxy.Set(faultproxy.HoldReplies())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, _, err := store.Acquire(ctx, claim("early")); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("without a connection Acquire returned %v", err)
	}
	proxy.Set(faultproxy.None())
	admin := connect(t, server, nil)
	eventually(t, func() bool {
		opened := strings.Contains(admin.ClientList(t.Context()).Val(), " cmd=ping ")
		pool := rdb.PoolStats()
		return opened && pool.IdleConns == pool.TotalConns
	})
	noMore.Store(true)
	must(t, store.Complete(t.Context(), win(t, store, claim("later")), result("served")))
}
