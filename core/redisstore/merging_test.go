package redisstore_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/redisstore"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// merging returns a store for the others, and one on an AutoPipeliner whose commands
// the hook sees.
func merging(t *testing.T, hook redis.Hook) (others, store *redisstore.Store, rdb *redis.Client) {
	t.Helper()
	server := redistest.Start(t)
	rdb, hooked := connect(t, server, nil), connect(t, server, nil)
	hooked.AddHook(hook)
	return redisstore.New(rdb), redisstore.New(pipelined(t, hooked)), rdb
}

// An AutoPipeliner does not merge pipelines. So a claim is one merged command, and
// only a caller that finds a claim pays for a second command.
func TestRoundTripsOnAutoPipeline(t *testing.T) {
	t.Parallel()
	counter := &tripCounter{}
	_, store, _ := merging(t, counter)
	must(t, store.Complete(t.Context(), win(t, store, claim("warm")), result("loads a script")))
	win(t, store, claim("held"))
	find(t, store, claim("held")) // loads the other
	counter.Store(0)
	lease := win(t, store, claim("key"))
	counter.expect(t, "claiming a new key", 1)
	find(t, store, claim("key"))
	counter.expect(t, "finding a key in progress", 2)
	must(t, store.Complete(t.Context(), lease, result("answer")))
	counter.expect(t, "completing", 1)
	find(t, store, claim("key"))
	counter.expect(t, "replaying", 1)

	must(t, store.Complete(t.Context(), win(t, store, remembered("remembered")), rememberedResult("answer")))
	counter.Store(0)
	replays(t, store, remembered("remembered"), "answer")
	counter.expect(t, "replaying a remembered response", 2)

	abandoned(t, store, "abandoned")
	counter.Store(0)
	if r := find(t, store, claim("abandoned")); !r.Abandoned() {
		t.Errorf("the record is %+v, want it abandoned", r)
	}
	counter.expect(t, "finding an abandoned key", 2)
}

// Case 2: the second look decides, whatever the first look has found.
func TestChangesBetweenTheLooks(t *testing.T) {
	t.Parallel()
	t.Run("the claim goes", func(t *testing.T) {
		t.Parallel()
		m := &meddler{}
		others, store, rdb := merging(t, m)
		win(t, others, claim("key"))
		m.script = func() { must(t, rdb.Del(t.Context(), "oncekey:key").Err()); m.script = nil }
		winAttempt(t, store, claim("key"), 1, false)
	})
	t.Run("it is completed", func(t *testing.T) {
		t.Parallel()
		m := &meddler{}
		others, store, _ := merging(t, m)
		holder := win(t, others, claim("key"))
		m.script = func() { must(t, others.Complete(t.Context(), holder, result("answer"))); m.script = nil }
		replays(t, store, claim("key"), "answer")
	})
	t.Run("it is taken over", func(t *testing.T) {
		t.Parallel()
		m := &meddler{}
		others, store, _ := merging(t, m)
		abandoned(t, others, "key")
		next := takeOver("key")
		m.script = func() {
			m.script = nil
			win(t, others, next)
		}
		late := takeOver("key")
		if r := find(t, store, late); r.Attempt != 2 || r.Abandoned() {
			t.Errorf("the record is %+v, want attempt 2 in progress", r)
		}
	})
	t.Run("it becomes something else", func(t *testing.T) {
		t.Parallel()
		m := &meddler{}
		others, store, rdb := merging(t, m)
		win(t, others, claim("key"))
		m.script = func() {
			must(t, rdb.Del(t.Context(), "oncekey:key").Err())
			must(t, rdb.LPush(t.Context(), "oncekey:key", "element").Err())
			must(t, rdb.Expire(t.Context(), "oncekey:key", time.Minute).Err())
			m.script = nil
		}
		if _, _, err := store.Acquire(t.Context(), claim("key")); !redis.HasErrorPrefix(err, "WRONGTYPE") {
			t.Errorf("Acquire returned %v, want WRONGTYPE", err)
		}
	})
}
