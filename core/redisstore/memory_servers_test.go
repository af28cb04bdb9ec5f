package redisstore_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// Every caller finds a response in its own slot.
func TestClusterWithRemember(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t)
	for name, client := range map[string]redis.UniversalClient{"plain": cluster, "pipelined": pipelined(t, cluster)} {
		for _, prefix := range []string{name + ":", "{" + name + "}:"} {
			store := redisstore.New(client, redisstore.Prefix(prefix))
			for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
				c := remembered(key)
				c.Origin.Route = "POST /"
				lease := win(t, store, c)
				must(t, store.Complete(t.Context(), lease, rememberedResult(key)))
				must(t, store.Complete(t.Context(), lease, rememberedResult(key)))
				replays(t, store, remembered(key), key)
				replays(t, store, claim(key), key)
				if r, err := store.Lookup(t.Context(), key); err != nil || string(r.Body) != key {
					t.Errorf("Lookup returned %+v and %v, want %s", r, err, key)
				}
			}
			if name == "plain" {
				if listed := listAll(t, store, storage.Completed, 3); len(listed) != 8 || listed["a"].Origin.Route != "POST /" {
					t.Errorf("%d records are listed, want 8 with their route: %+v", len(listed), listed["a"])
				}
			}
			for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
				forget(t, store, key)
			}
		}
	}
}

// Braces that are no hash tag put the two keys into different slots.
func TestRememberUnderBraces(t *testing.T) {
	t.Parallel()
	rdb := connect(t, redistest.Start(t), nil)
	store := redisstore.New(rdb, redisstore.Prefix("a{}"))
	if lease, r, err := store.Acquire(t.Context(), remembered("key")); err == nil || !strings.Contains(err.Error(), "brace") {
		t.Errorf("Acquire returned %+v, %+v and %v, want an error about the prefix", lease, r, err)
	}
	lease := win(t, store, claim("key"))
	fails(t, "Complete", store.Complete(t.Context(), lease, rememberedResult("answer")), nil, "brace")
	must(t, store.Complete(t.Context(), lease, result("answer")))
	if r, err := store.Lookup(t.Context(), "key"); err != nil || string(r.Body) != "answer" || string(find(t, store, claim("key")).Body) != "answer" {
		t.Errorf("Lookup returned %+v and %v, want the response", r, err)
	}
	if listed := listAll(t, store, storage.Completed, 10); len(listed) != 1 {
		t.Errorf("%d records are listed, want one", len(listed))
	}
	forget(t, store, "key")
}

// Case 17: both keys are on the replica, a repeated Complete waits again, and a claim
// that is undone is remembered for as long.
func TestRememberWithReplicas(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	store := r.waiting(late)
	lease := win(t, store, remembered("key"))
	r.replica.Pause()
	for range 2 {
		fails(t, "Complete", r.waiting(soon).Complete(t.Context(), lease, rememberedResult("answer")), redisstore.ErrTooFewReplicas)
	}
	r.replica.Resume()
	eventually(t, func() bool { return r.waiting(soon).Complete(t.Context(), lease, rememberedResult("answer")) == nil })
	if value, err := r.replica.Do(t.Context(), "GET", nameOf("key")); err != nil || !strings.Contains(value.(string), "answer") {
		t.Errorf("the replica has %q, %v, want the response", value, err)
	}

	must(t, r.plain.Extend(t.Context(), win(t, r.plain, remembered("other")), 0))
	next := remembered("other")
	next.TakeOver = true
	r.replica.Pause()
	tooFew(t, r.waiting(soon), next)
	eventually(t, func() bool { return find(t, r.plain, claim("other")).Abandoned() })
	if left := r.rdb.PTTL(t.Context(), "oncekey:other").Val(); left < next.Remember {
		t.Errorf("the key lives for %s, want more than its Remember", left)
	}
	r.replica.Resume()
}
