package redisstore_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	faultproxy "github.com/oncekey/oncekey/internal/testkit/proxy"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

const (
	// soon is how long tests wait for replicas that will not acknowledge, and late
	// how long for replicas that will.
	soon, late = 100 * time.Millisecond, 20 * time.Second
)

// replicated is a master with a replica that can be cut off.
type replicated struct {
	rdb             *redis.Client
	master, replica *redistest.Server
	link            *faultproxy.Proxy
	// plain is a store without WaitReplicas.
	plain *redisstore.Store
}

func startReplicated(t *testing.T) *replicated {
	t.Helper()
	master := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	r := &replicated{rdb: connect(t, master, nil), master: master, link: faultproxy.Start(t, master.Addr())}
	host, port, err := net.SplitHostPort(r.link.Addr())
	must(t, err)
	r.replica = redistest.Start(t, "--replicaof", host, port)
	r.plain = redisstore.New(r.rdb)
	r.awaitReplica(t)
	return r
}

// awaitReplica returns when the replica follows.
func (r *replicated) awaitReplica(t *testing.T) {
	t.Helper()
	eventually(t, func() bool { return r.rdb.Wait(t.Context(), 1, soon).Val() == 1 })
}

func (r *replicated) waiting(timeout time.Duration) *redisstore.Store {
	return redisstore.New(r.rdb, redisstore.WaitReplicas(1, timeout))
}

// expectReplica compares the replica's current value for a key.
func (r *replicated) expectReplica(t *testing.T, key, want string) {
	t.Helper()
	value, err := r.replica.Do(t.Context(), "GET", "oncekey:"+key)
	if text, _ := value.(string); err != nil || !strings.Contains(text, want) {
		t.Errorf("the replica has %q (%v), want %q in it", text, err, want)
	}
}

func (r *replicated) expectFree(t *testing.T) {
	t.Helper()
	testkit.Equal(t, r.rdb.Exists(t.Context(), "oncekey:key").Val(), 0, "the key still exists")
}

// tooFew expects Acquire to refuse a claim for its replicas.
func tooFew(t *testing.T, store storage.Store, c storage.Claim) {
	t.Helper()
	lease, record, err := store.Acquire(t.Context(), c)
	if !errors.Is(err, redisstore.ErrTooFewReplicas) || !strings.Contains(err.Error(), "want 1, got 0") {
		t.Fatalf("Acquire returned lease %+v, record %+v and error %v, want ErrTooFewReplicas", lease, record, err)
	}
}

// The writes of a call that has returned are on the replica, however slow the replica
// is.
func TestReplicasHaveWhatIsStored(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	store := r.waiting(late)
	r.link.Set(faultproxy.Latency(50 * time.Millisecond))

	lease := win(t, store, claim("key"))
	r.expectReplica(t, "key", string(lease.Token[:]))
	must(t, store.Complete(t.Context(), lease, result("answer")))
	r.expectReplica(t, "key", "answer")

	abandoned(t, r.plain, "other")
	lease = win(t, store, takeOver("other"))
	r.expectReplica(t, "other", string(lease.Token[:]))
}

// Case 17: a write that the replicas do not have is no claim.
func TestClaimThatTooFewReplicasHaveIsUndone(t *testing.T) {
	t.Parallel()
	type test struct{ ends, heal func(r *replicated) }
	testkit.Each(t, map[string]test{
		"dead":    {func(r *replicated) { r.replica.Kill() }, func(r *replicated) { r.replica.Restart() }},
		"frozen":  {func(r *replicated) { r.replica.Pause() }, func(r *replicated) { r.replica.Resume() }},
		"cut off": {func(r *replicated) { r.link.Set(faultproxy.Blackhole()) }, func(r *replicated) { r.link.Set(faultproxy.None()) }},
		"behind":  {func(r *replicated) { r.link.Set(faultproxy.Latency(10 * soon)) }, func(r *replicated) { r.link.Set(faultproxy.None()) }},
	}, func(t *testing.T, test test) {
		r := startReplicated(t)
		store := r.waiting(soon)
		test.ends(r)
		tooFew(t, store, claim("key"))
		r.expectFree(t)
		test.heal(r)
		r.awaitReplica(t)
		winAttempt(t, r.waiting(late), claim("key"), 1, false)
	})
}

func TestMoreReplicasThanThereAre(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	store := redisstore.New(r.rdb, redisstore.WaitReplicas(2, soon))
	eventually(t, func() bool { // the existing connection may need longer than that
		_, _, err := store.Acquire(t.Context(), claim("key"))
		fails(t, "Acquire", err, redisstore.ErrTooFewReplicas)
		return err == nil || strings.Contains(err.Error(), "want 2, got 1")
	})
	r.expectFree(t)
}

// The result of the previous attempt is unknown, so the store must remember that
// attempt.
func TestTakeOverThatTooFewReplicasHave(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	abandoned(t, r.plain, "key")
	next := takeOver("key")
	r.replica.Pause()
	tooFew(t, r.waiting(soon), next)
	eventually(t, func() bool { return find(t, r.plain, claim("key")).Abandoned() })
	tooFew(t, r.waiting(soon), next) // as the engine does
	r.replica.Resume()
	winAttempt(t, r.waiting(late), next, 2, true)

	r.replica.Pause()
	abandoned(t, r.plain, "other")
	tooFew(t, r.waiting(soon), func() storage.Claim { c := claim("other"); c.TakeOver = true; return c }())
	r.replica.Resume()
	third := takeOver("other")
	var lease storage.Lease
	eventually(t, func() bool {
		got, record, err := r.waiting(late).Acquire(t.Context(), third)
		lease = got
		return err == nil && record == nil
	})
	if lease.Attempt != 3 || !lease.TookOver {
		t.Errorf("another caller got attempt %d with TookOver %t, want 3 with true", lease.Attempt, lease.TookOver)
	}
}

func TestReleasedKeyThatTooFewReplicasHave(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	released(t, r.plain)
	r.replica.Pause()
	tooFew(t, r.waiting(soon), claim("key"))
	r.replica.Resume()
	winAttempt(t, r.waiting(late), claim("key"), 4, false)
}

// A response stays on the master, but Complete fails until the replicas have the
// response. Each repeated call returns the same error until then.
func TestResponseThatTooFewReplicasHave(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	lease := win(t, r.waiting(late), claim("key"))
	r.link.Set(faultproxy.Blackhole())
	for range 2 {
		err := r.waiting(soon).Complete(t.Context(), lease, result("answer"))
		if !errors.Is(err, redisstore.ErrTooFewReplicas) || errors.Is(err, storage.ErrLeaseLost) {
			t.Errorf("Complete returned %v, want ErrTooFewReplicas", err)
		}
		replays(t, r.plain, claim("key"), "answer")
	}
	r.link.Set(faultproxy.None())
	eventually(t, func() bool { return r.waiting(soon).Complete(t.Context(), lease, result("answer")) == nil })
	r.expectReplica(t, "key", "answer")
}

func TestLeaseThatAnotherCallerHasIsLost(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	lease := abandoned(t, r.plain, "key")
	win(t, r.plain, takeOver("key"))
	r.replica.Pause()
	fails(t, "Complete", r.waiting(soon).Complete(t.Context(), lease, result("answer")), storage.ErrLeaseLost)
}

// Only the winner of a key waits.
func TestUnreachableReplicaDelaysNoReplay(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	store := r.waiting(late)
	finished, running, released := win(t, store, claim("finished")), win(t, store, claim("running")), win(t, store, claim("released"))
	must(t, store.Complete(t.Context(), finished, result("answer")))
	r.replica.Pause()
	start := time.Now()
	replays(t, store, claim("finished"), "answer")
	find(t, store, claim("running"))
	must(t, store.Extend(t.Context(), running, time.Minute))
	must(t, store.Release(t.Context(), released))
	if took := time.Since(start); took > late/2 {
		t.Errorf("that took %s", took)
	}
}

// However long WAIT may take, there is time left to undo the claim.
func TestWaitLeavesTimeToUndo(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	r.replica.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	_, _, err := r.waiting(late).Acquire(ctx, claim("key"))
	if !errors.Is(err, redisstore.ErrTooFewReplicas) || ctx.Err() != nil {
		t.Errorf("Acquire returned %v, want ErrTooFewReplicas in time", err)
	}
	r.expectFree(t)
}

// A server that does not let its users WAIT confirms no write.
func TestServerThatRefusesToWait(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	must(t, r.rdb.Do(t.Context(), "ACL", "SETUSER", "default", "-wait").Err())
	_, _, err := r.waiting(late).Acquire(t.Context(), claim("key"))
	fails(t, "Acquire", err, redisstore.ErrTooFewReplicas, "NOPERM")
	r.expectFree(t)
}

func TestClaimThatCannotBeUndone(t *testing.T) {
	t.Parallel()
	r := startReplicated(t)
	r.rdb.AddHook(&meddler{script: func() { must(t, r.rdb.ConfigSet(t.Context(), "min-replicas-to-write", "5").Err()) }})
	r.replica.Pause()
	_, _, err := r.waiting(soon).Acquire(t.Context(), claim("key"))
	fails(t, "Acquire", err, redisstore.ErrTooFewReplicas, "NOREPLICAS")
}
