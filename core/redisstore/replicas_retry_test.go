package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// repeater is a hook that has the first pipeline with a WAIT sent twice, as go-redis
// does when the connection breaks before the replies.
type repeater struct {
	tripCounter
	between func()
	once    bool // it is sent once, after between
	waits   int
}

func (r *repeater) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		if commands[len(commands)-1].Name() != "wait" {
			return next(ctx, commands)
		}
		r.waits++
		if r.waits == 1 && !r.once {
			_ = next(ctx, commands)
		}
		if r.waits == 1 {
			call(r.between)
		}
		return next(ctx, commands)
	}
}

func repeating(t *testing.T) (*replicated, *redisstore.Store, *repeater) {
	t.Helper()
	r, twice := startReplicated(t), &repeater{}
	hooked := connect(t, r.master, nil)
	hooked.AddHook(twice)
	return r, redisstore.New(hooked, redisstore.WaitReplicas(1, late)), twice
}

// WAIT counts only writes. A pipeline that finds its own claim has written no value,
// so the store waits again, after a write.
func TestRepeatedClaimIsWrittenOnceMore(t *testing.T) {
	t.Parallel()
	r, store, twice := repeating(t)
	winAttempt(t, store, claim("key"), 1, false)
	testkit.Equal(t, twice.waits, 2, "waits of the store")
	r.expectReplica(t, "key", "\x00\x01\x01\x00\x00") // attempt 1, in progress
}

// A repeated Complete keeps the value, and is a write all the same.
func TestRepeatedCompletionIsWrittenOnceMore(t *testing.T) {
	t.Parallel()
	r, store, twice := repeating(t)
	lease := win(t, r.plain, claim("key"))
	var first, value string
	twice.between = func() {
		first, value = changes(t, r.rdb), r.rdb.Get(t.Context(), "oncekey:key").Val()
	}
	must(t, store.Complete(t.Context(), lease, result("answer")))
	if second := changes(t, r.rdb); second == first {
		t.Errorf("the server knows of %s writes after the first call and after the second", second)
	}
	testkit.Equal(t, r.rdb.Get(t.Context(), "oncekey:key").Val(), value, "the value after the second call")
	before := changes(t, r.rdb)
	must(t, r.plain.Complete(t.Context(), lease, result("answer")))
	testkit.Equal(t, changes(t, r.rdb), before, "a store without WaitReplicas has written the stored value again")
}

// changes is how much the server has written so far.
func changes(t *testing.T, rdb *redis.Client) string {
	t.Helper()
	about, err := rdb.Info(t.Context(), "persistence").Result()
	must(t, err)
	_, after, _ := strings.Cut(about, "rdb_changes_since_last_save:")
	count, _, _ := strings.Cut(after, "\r\n")
	return count
}

// The undo removes the claim that the replicas did not have, and no later claim of
// the same caller.
func TestLateUndoLeavesALaterClaimAlone(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	c := claim("key")
	m := &meddler{script: func() { win(t, r.plain, c) }}
	hooked := connect(t, r.master, nil)
	hooked.AddHook(m)
	r.replica.Pause()
	tooFew(t, redisstore.New(hooked, redisstore.WaitReplicas(1, soon)), c)
	if record := find(t, r.plain, claim("key")); record.State != storage.InProgress || record.Abandoned() {
		t.Errorf("the record is %+v, want it in progress", record)
	}
}

// A caller that has given up when the replicas acknowledge has no use for the claim.
func TestClaimWhoseCallerHasGivenUpIsUndone(t *testing.T) {
	t.Parallel()
	r, store, hook := repeating(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hook.once, hook.between = true, cancel
	if _, _, err := store.Acquire(ctx, claim("key")); !errors.Is(err, context.Canceled) {
		t.Errorf("Acquire returned %v, want context.Canceled", err)
	}
	eventually(t, func() bool { return r.rdb.Exists(t.Context(), "oncekey:key").Val() == 0 })
}

// Case 2: the claim is gone before WAIT is sent, and is made again.
func TestClaimThatIsGoneBeforeTheWait(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	m := &meddler{after: func() { must(t, r.rdb.Del(t.Context(), "oncekey:key").Err()) }}
	hooked := connect(t, r.master, nil)
	hooked.AddHook(m)
	store := redisstore.New(hooked, redisstore.WaitReplicas(1, late))
	if record := find(t, store, claim("key")); record.State != storage.InProgress || record.Abandoned() {
		t.Errorf("the record is %+v, want it in progress: the claim never stood", record)
	}
	times := 0
	m.after = func() {
		if times++; times == 1 {
			must(t, r.rdb.Del(t.Context(), "oncekey:key").Err())
		}
	}
	lease := win(t, store, claim("key"))
	if r.expectReplica(t, "key", string(lease.Token[:])); times != 2 {
		t.Errorf("it was claimed %d times, want 2", times)
	}
}

// Of the clients that New takes, WaitReplicas needs one that shows which server
// a write goes to.
func TestWaitReplicasRefusesNonsense(t *testing.T) {
	t.Parallel()
	rdb := connect(t, redistest.Start(t), nil)
	ring := redis.NewRing(&redis.RingOptions{})
	t.Cleanup(func() { ring.Close() })
	pipeliner := pipelined(t, rdb)
	testkit.PanicsWith(t, func() { redisstore.WaitReplicas(0, late/20) }, "WaitReplicas(0, 1s)")
	testkit.PanicsWith(t, func() { redisstore.WaitReplicas(1, 999_000) }, "WaitReplicas(1, 999µs)")
	testkit.PanicsWith(t, func() { redisstore.New(pipeliner, redisstore.WaitReplicas(1, soon)) }, "*redis.AutoPipeliner")
	testkit.PanicsWith(t, func() { redisstore.New(ring, redisstore.WaitReplicas(1, soon)) }, "*redis.Ring")
}
