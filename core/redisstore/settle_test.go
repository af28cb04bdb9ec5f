package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// repeated is a hook that sends each script twice, as go-redis does when the reply to the
// first is lost.
type repeated struct{ tripCounter }

func (*repeated) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		if err := next(ctx, command); err != nil || command.Name() != "eval" && command.Name() != "evalsha" {
			return err
		}
		return next(ctx, command)
	}
}

// abandon leaves a key abandoned, with the steps of its run.
func abandon(t *testing.T, store *redisstore.Store, key string, remember time.Duration) {
	t.Helper()
	c := claim(key)
	c.Remember = remember
	lease := win(t, store, c)
	lease.Steps = "a step"
	must(t, store.Extend(t.Context(), lease, 0))
}

// Case 15: an operator whose first reply was lost has settled the key.
func TestSettleWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := redisstore.New(connect(t, server, nil))
	for key, remember := range map[string]time.Duration{"plain": 0, "remembered": time.Hour} {
		for _, confirmation := range []storage.Confirmation{storage.Happened, storage.DidNotHappen} {
			key := key + string(confirmation[len(confirmation)-8:])
			abandon(t, store, key, remember)
			rdb := connect(t, server, nil)
			rdb.AddHook(&repeated{})
			must(t, redisstore.New(rdb).Settle(t.Context(), key, 1, confirmation))
			fails(t, "Settle of "+key, store.Settle(t.Context(), key, 1, confirmation), storage.ErrNotAbandoned)
		}
	}
}

// Case 20: a value that is not a record is not settled.
func TestSettleOfForeignValues(t *testing.T) {
	t.Parallel()
	rdb, store := start(t)
	for _, key := range foreign(t, rdb, store) {
		fails(t, "Settle of "+key, store.Settle(t.Context(), key, 1, storage.Happened), storage.ErrCorruptRecord)
	}
}

// A settled record counts when the replicas have it.
func TestSettleWaitsForReplicas(t *testing.T) {
	t.Parallel()
	rdb := connect(t, redistest.Start(t), nil)
	abandon(t, redisstore.New(rdb), "key", 0)
	waiting := redisstore.New(rdb, redisstore.WaitReplicas(1, 10*time.Millisecond))
	fails(t, "Settle", waiting.Settle(t.Context(), "key", 1, storage.Happened), redisstore.ErrTooFewReplicas)
}
