package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
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
	testkit.Equal(t, len(listAll(t, store, storage.Completed, 10)), 1, "records that are listed")
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

// Case 2: a time to live that belongs to another value makes no tombstone.
func TestReleaseInTheGapIsNotTakenForATombstone(t *testing.T) {
	t.Parallel()
	m, others, store, _ := meddled(t)
	holder := win(t, others, remembered("key"))
	m.between = func() {
		m.between = nil
		must(t, others.Release(t.Context(), holder))
		win(t, others, claim("key")) // lives for less than the Remember
	}
	if r := find(t, store, remembered("key")); r.State != storage.InProgress || r.Abandoned() {
		t.Errorf("the record is %+v, want it in progress", r)
	}
}

func TestKeyThatIsForgottenInTheGapIsClaimed(t *testing.T) {
	t.Parallel()
	m, others, store, _ := meddled(t)
	must(t, others.Complete(t.Context(), win(t, others, remembered("key")), rememberedResult("answer")))
	m.between = func() { forget(t, others, "key"); m.between = nil }
	winAttempt(t, store, remembered("key"), 1, false)
}

// The response that is read belongs to another run than the short value.
func TestResponseOfAnotherRunInTheGap(t *testing.T) {
	t.Parallel()
	m, others, store, _ := meddled(t)
	must(t, others.Complete(t.Context(), win(t, others, remembered("key")), rememberedResult("first")))
	m.between = func() {
		m.between = nil
		forget(t, others, "key")
		must(t, others.Complete(t.Context(), win(t, others, remembered("key")), rememberedResult("second")))
	}
	if r := find(t, store, remembered("key")); r.State != storage.Completed || string(r.Body) != "second" {
		t.Errorf("the record is %+v, want the second response", r)
	}
}

// A key whose Retain ends between the look and the take-over is not taken over, even
// by its own token.
func TestTombstoneBeforeTheTakeOver(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{true, false} {
		m, others, store, rdb := meddled(t)
		holder := win(t, others, remembered("key"))
		must(t, others.Extend(t.Context(), holder, 0))
		m.script = func() { must(t, rdb.PExpire(t.Context(), "oncekey:key", holder.Remember).Err()); m.script = nil }
		c := remembered("key")
		c.TakeOver = true
		if own {
			c.Token = holder.Token
		}
		if r := find(t, store, c); r.State != storage.Expired || r.Status != 0 || r.Attempt != 1 {
			t.Errorf("the record is %+v, want it expired", r)
		}
	}
}

// A holder that completes between the look and the take-over is replayed.
func TestCompletionBeforeTheTakeOver(t *testing.T) {
	t.Parallel()
	m, others, store, _ := meddled(t)
	holder := win(t, others, remembered("key"))
	must(t, others.Extend(t.Context(), holder, 0))
	m.script = func() { must(t, others.Complete(t.Context(), holder, rememberedResult("answer"))); m.script = nil }
	c := remembered("key")
	c.TakeOver = true
	if r := find(t, store, c); r.State != storage.Completed || string(r.Body) != "answer" || r.Expires.Before(time.Now().Add(59*time.Minute)) {
		t.Errorf("the record is %+v, want the response", r)
	}
}
