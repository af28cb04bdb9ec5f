package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/storage"
)

// grace is the extra time of a call beyond the wait for the replicas, and the time to
// undo a claim.
const grace = 5 * time.Second

// ErrTooFewReplicas is wrapped by the errors of Acquire and Complete when fewer
// replicas than [WaitReplicas] requires have acknowledged the write.
var ErrTooFewReplicas = errors.New("too few replicas have acknowledged the write")

// WaitReplicas makes a claim or a response count as stored only when n replicas of
// the key's master have acknowledged the write. Use it to make the loss of claims and
// responses in a failover unlikely; it is not impossible, see the package comment.
// WaitReplicas panics unless n is 1 or more and timeout a millisecond or more.
//
// Each claim and each response waits by Redis's WAIT command for at most timeout, and
// for at most half of the time left in its context, so that there is time to handle a
// failure. A server whose hz is 10, the default, ends a WAIT up to a tenth of a
// second late. Set timeout below a quarter of the policies' StoreTimeout, which
// bounds three tries of Acquire, and below the client's ReadTimeout.
//
// A claim that too few replicas acknowledge is undone, and Acquire returns a wrapped
// [ErrTooFewReplicas]. The engine responds with 503 and runs no handler, or runs the
// handler unprotected if the policy fails open. A key that was abandoned before is
// then abandoned again, with a higher attempt. A duplicate that arrives during the
// undo may get the response that the key is in progress.
//
// A response that too few replicas acknowledge stays on the master, but Complete
// returns a wrapped [ErrTooFewReplicas]. The engine then sends the response to the
// client, and repeats Complete until enough replicas have the response. The reason:
// if the master is lost, only this process, which holds the response in memory, can
// store it on the new master. A repeated Complete writes the stored value again,
// unchanged, and waits for the replicas again. If the engine gives up in the end, it
// reports the response as lost, although the master may have the response.
//
// Extend and Release do not wait. A lost renewal leaves the claim with an earlier
// end, and the next renewal, a third of the policy's LockTTL later, repairs that. If
// the replicas lag for most of a LockTTL, a failover makes a running key look
// abandoned. Another request then takes over the key with a higher attempt, never as
// a first attempt. Refusing such renewals would cancel each handler that runs longer
// than its lease while the replicas are unreachable. A lost release keeps a key in
// progress until its lease ends, and causes no second run. A replay does not wait
// either: it may show a response that the replicas do not have yet.
//
// Cost: a first-time request takes three round trips instead of two. The claim and
// the response wait for the replicas, and each holds a connection of the client
// meanwhile. The third round trip exists because only the winner of a key waits,
// after it has won. With WAIT in the same pipeline as SET, replays would wait for the
// whole timeout while a replica is unreachable. A replay, a take-over, a renewal and
// a release cost the same as without this option.
//
// WAIT counts the writes of its own connection. So the store sends WAIT in one
// pipeline with the write, to the key's master. New panics unless the client is a
// *redis.Client, Sentinel's included, or a *redis.ClusterClient. While a cluster
// moves a slot from one master to another, the store refuses new keys in that slot.
func WaitReplicas(n int, timeout time.Duration) Option {
	if n < 1 || timeout < time.Millisecond {
		panic(fmt.Sprintf("redisstore: WaitReplicas(%d, %s): want at least 1 replica and 1ms", n, timeout))
	}
	return func(s *Store) { s.replicas.wanted, s.replicas.timeout = n, timeout }
}

// replicas counts the replicas that have acknowledged the write of a script.
type replicas struct {
	wanted  int // zero: do not wait
	timeout time.Duration
	// master returns a client of the one server that holds the key.
	master func(ctx context.Context, key string) (*redis.Client, error)
}

// find sets how to reach the master of a key, if WAIT is used.
func (r *replicas) find(client redis.UniversalClient) {
	if r.wanted == 0 {
		return
	}
	switch c := client.(type) {
	case *redis.Client:
		r.master = func(context.Context, string) (*redis.Client, error) { return c, nil }
	case interface {
		MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	}:
		r.master = c.MasterForKey
	default:
		panic(fmt.Sprintf("redisstore: New with WaitReplicas and a %T, which hides the connection that writes: "+
			"want a *redis.Client or a *redis.ClusterClient", client))
	}
}

// run runs a script and WAIT in one round trip. It returns the script's reply and an
// error if too few replicas acknowledged. Ignore tooFew if the script wrote no value,
// because WAIT may then count an earlier write of the connection. When go-redis
// repeats the pipeline, the script's reply shows that the write was already done.
func (r *replicas) run(ctx context.Context, script script, keys []string, arguments ...any) (reply *redis.Cmd, tooFew error) {
	master, err := r.master(ctx, keys[0])
	if err != nil {
		reply = redis.NewCmd(ctx)
		reply.SetErr(err)
		return reply, nil
	}
	limit := r.waitLimit(ctx)
	// If the caller gives up, the reply still tells which claim to undo.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit+grace)
	defer cancel()
	pipeline := master.Pipeline()
	// EVAL instead of EVALSHA: a pipeline cannot send the text again to a server that
	// has lost the script.
	reply = script.Eval(ctx, pipeline, keys, arguments...)
	waited := pipeline.Do(ctx, "wait", r.wanted, limit.Milliseconds())
	exec(ctx, pipeline)
	switch have, err := waited.Int(); {
	case err != nil:
		return reply, fmt.Errorf("%w: want %d, and WAIT returned %w", ErrTooFewReplicas, r.wanted, err)
	case have < r.wanted:
		return reply, fmt.Errorf("%w: want %d, got %d", ErrTooFewReplicas, r.wanted, have)
	}
	return reply, nil
}

// waitLimit is the timeout of WAIT. It is never zero, which would make WAIT wait
// without a limit.
func (r *replicas) waitLimit(ctx context.Context) time.Duration {
	limit := r.timeout
	if deadline, limited := ctx.Deadline(); limited {
		limit = min(limit, time.Until(deadline)/2)
	}
	return max(limit, time.Millisecond)
}

// write runs a script that may write the keys, and waits for the replicas with
// [WaitReplicas]. If unconfirmed is not nil, the write must not count.
func (s *Store) write(ctx context.Context, script script, keys []string, arguments ...any) (reply *redis.Cmd, unconfirmed error) {
	if s.replicas.wanted == 0 {
		return s.run(ctx, script, keys, arguments...), nil
	}
	reply, unconfirmed = s.replicas.run(ctx, script, keys, arguments...)
	return reply, cmp.Or(unconfirmed, ctx.Err()) // a caller that has given up uses no claim
}

// undoClaim removes a claim under which no handler has run, and returns why. It
// compares the whole value, so that a newer claim of the same caller is left alone.
func (s *Store) undoClaim(ctx context.Context, l storage.Lease, value []byte, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	var instead []byte // empty: the key is deleted
	kept := milliseconds(l.Retain)
	switch {
	case l.TookOver || l.Steps != "": // the result of the previous attempt, or of an own step, may be unknown
		ended := l
		ended.LockTTL = briefLease
		instead, kept = encodeClaim(&ended, time.Now()), lifetime(l.Retain, l.Remember)
	case l.Attempt > 1:
		instead = encodeReleased(l, time.Now())
	}
	err := s.run(ctx, replaceScript, []string{s.prefix + l.Key}, value, instead, kept, anyTimeLeft).Err()
	if err != nil && !isNil(err) {
		return fmt.Errorf("%w; the claim could not be undone: %w", why, err)
	}
	return why
}
