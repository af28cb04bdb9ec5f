package redisstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/redisstore"
	faultproxy "github.com/oncekey/oncekey/internal/testkit/proxy"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// through connects by way of a proxy. The store has claimed a key, so that it has a
// connection that greeted the server, and no call of its own under way.
func through(t *testing.T) (*redisstore.Store, *faultproxy.Proxy) {
	t.Helper()
	server := redistest.Start(t)
	proxy := faultproxy.Start(t, server.Addr())
	client := connect(t, server, func(options *redis.Options) {
		options.Addr = proxy.Addr()
		options.ContextTimeoutEnabled = true
	})
	store := redisstore.New(client)
	win(t, store, claim("first"))
	awaitQuestion(t, server, client)
	return store, proxy
}

// Case 11: a retry finds a write that was applied although its reply was lost.
func TestReplyThatIsLost(t *testing.T) {
	t.Parallel()
	store, proxy := through(t)
	lossy := func(call func(context.Context) error) {
		t.Helper()
		proxy.Set(faultproxy.LoseReplies())
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := call(ctx); err == nil {
			t.Error("a call whose every reply was lost reports success")
		}
		proxy.Set(faultproxy.None())
	}
	// A connection that greets the server, and scripts that it knows, come first:
	// it is not their replies that are lost.
	must(t, store.Complete(t.Context(), win(t, store, claim("earlier")), result("earlier")))
	asked := claim("k")
	lossy(func(ctx context.Context) error {
		_, _, err := store.Acquire(ctx, asked)
		return err
	})
	lease := win(t, store, asked)
	if lease.Attempt != 1 || lease.TookOver {
		t.Errorf("the same token got %+v", lease)
	}
	lossy(func(ctx context.Context) error { return store.Complete(ctx, lease, result("answer")) })
	must(t, store.Complete(t.Context(), lease, result("another response")))
	if record := find(t, store, claim("k")); string(record.Body) != "answer" {
		t.Errorf("the record says %q", record.Body)
	}
	released := win(t, store, claim("released"))
	lossy(func(ctx context.Context) error { return store.Release(ctx, released) })
	must(t, store.Release(t.Context(), released))
}

// Case 14: the connection of a reply that was cut in the middle is dropped, and no
// caller gets the response of another key.
func TestReplyThatIsCut(t *testing.T) {
	t.Parallel()
	store, proxy := through(t)
	const keys = 20
	for i := range keys {
		key := fmt.Sprint("key-", i)
		must(t, store.Complete(t.Context(), win(t, store, claim(key)), result("response of "+key)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var answers atomic.Int64
	for i := range keys {
		group.Go(func() {
			key := fmt.Sprint("key-", i)
			for ctx.Err() == nil {
				call, done := context.WithTimeout(t.Context(), 10*time.Second)
				lease, record, err := store.Acquire(call, claim(key))
				done()
				switch {
				case err != nil:
				case record == nil:
					t.Errorf("%s was claimed a second time: %+v", key, lease)
				case string(record.Body) != "response of "+key:
					t.Errorf("%s got %q", key, record.Body)
				default:
					answers.Add(1)
				}
			}
		})
	}
	for range 100 {
		proxy.Set(faultproxy.CutReplies(rand.N(300)))
		before := answers.Load()
		proxy.Set(faultproxy.None())
		eventually(t, func() bool { return answers.Load() > before })
	}
	cancel()
	group.Wait()
}
