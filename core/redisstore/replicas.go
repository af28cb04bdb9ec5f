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

// grace is how much longer than the replicas may take a call may take, and how long
// it may take to give a claim back.
const grace = 5 * time.Second

// ErrTooFewReplicas is wrapped by the errors of Acquire and Complete when fewer
// replicas than [WaitReplicas] asks for have acknowledged what was written.
var ErrTooFewReplicas = errors.New("too few replicas have it")

// WaitReplicas has a claim and an answer count as stored when n replicas of the
// key's master have acknowledged them. Each of the two asks Redis's WAIT command
// for at most timeout, and for at most half of the time that its context leaves, so
// that a refusal can be acted on; a server whose hz is 10, the default, ends a WAIT
// up to a tenth of a second late. Without this option nobody waits. WaitReplicas
// panics unless n is 1 or more and timeout a millisecond or more.
//
// A claim that too few replicas have is given back, and Acquire returns a wrapped
// [ErrTooFewReplicas]: the engine answers 503 and nothing runs, or it runs
// unprotected where the policy fails open. A key that was abandoned before is
// abandoned again, by a higher attempt. A duplicate that comes while the claim is
// being given back may be told that the key is in progress.
//
// An answer that too few replicas have stays on the master, and Complete returns a
// wrapped [ErrTooFewReplicas] all the same. The engine then shows the client its
// answer and repeats Complete until enough replicas have it: the process that has
// the answer in memory is the only one that can tell it to a master which has not,
// and nil would have it forget the answer. A repeated Complete writes what is there
// once more, unchanged, and asks about that. If it gives up in the end it reports
// the answer as lost, although the master may have it.
//
// Extend and Release do not wait. A renewal that is lost leaves the claim with an
// earlier end, and the next one, a third of the policy's LockTTL later, mends that.
// Replicas that were behind for most of a LockTTL see a running key as abandoned: it
// is taken over as a higher attempt, never run as a first one. To refuse renewals
// meanwhile would cancel each handler that runs longer than its lease, whenever the
// replicas are away. A release that is lost keeps a key in progress until its lease
// ends, and lets nothing run twice. A replay does not wait either: it can show an
// answer that the replicas are still to get.
//
// What it costs: a first-time request has three round trips in place of two. The two
// that ask wait for the replicas, and hold a connection of the client meanwhile. The
// third is there because nobody asks but the winner of a key, once it knows that it
// has won: sent along with SET, WAIT would hold up replays for all of timeout while a
// replica is away. A replay, a take-over, a renewal and a release cost what they did.
//
// WAIT counts what its own connection has written. So it goes in one pipeline with
// the write to the key's master itself, and New panics when the client is neither a
// *redis.Client, Sentinel's included, nor a *redis.ClusterClient. While a cluster
// moves a slot from one master to another, new keys in it are refused.
//
// It makes a loss improbable, not impossible: see the package comment. The timeout
// belongs below a quarter of the policies' StoreTimeout, which bounds three tries of
// Acquire, and below the client's ReadTimeout.
func WaitReplicas(n int, timeout time.Duration) Option {
	if n < 1 || timeout < time.Millisecond {
		panic(fmt.Sprintf("redisstore: WaitReplicas(%d, %s): want at least 1 replica and 1ms", n, timeout))
	}
	return func(s *Store) { s.replicas.wanted, s.replicas.timeout = n, timeout }
}

// replicas asks how many replicas have what a script has written.
type replicas struct {
	wanted  int // zero: nobody asks
	timeout time.Duration
	// master returns a client of the one server that keeps the key.
	master func(ctx context.Context, key string) (*redis.Client, error)
}

// find finds out how to reach the master of a key, if that will be needed.
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

// run runs a script, and asks WAIT in the same round trip. The answer is the
// script's; tooFew is about what it wrote, and means nothing if it wrote nothing:
// WAIT may then count replicas for an earlier write of the connection. When
// go-redis repeats the pipeline, the script's answer tells that it found its own
// work done.
func (r *replicas) run(ctx context.Context, script *redis.Script, key string, arguments ...any) (answer *redis.Cmd, tooFew error) {
	master, err := r.master(ctx, key)
	if err != nil {
		answer = redis.NewCmd(ctx)
		answer.SetErr(err)
		return answer, nil
	}
	patience := r.patience(ctx)
	// The caller may go away, but it is still worth knowing what to give back.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience+grace)
	defer cancel()
	pipeline := master.Pipeline()
	// Its text and not its digest: a pipeline cannot send it once more to a server
	// that has lost it.
	answer = script.Eval(ctx, pipeline, []string{key}, arguments...)
	waited := pipeline.Do(ctx, "wait", r.wanted, patience.Milliseconds())
	if _, failed := pipeline.Exec(ctx); failed != nil && answer.Err() == nil && waited.Err() == nil {
		answer.SetErr(failed)
	}
	switch have, err := waited.Int(); {
	case err != nil:
		return answer, fmt.Errorf("%w: want %d, and WAIT was answered with %w", ErrTooFewReplicas, r.wanted, err)
	case have < r.wanted:
		return answer, fmt.Errorf("%w: want %d, got %d", ErrTooFewReplicas, r.wanted, have)
	}
	return answer, nil
}

// patience is how long to wait. It is never zero, which WAIT takes for ever.
func (r *replicas) patience(ctx context.Context) time.Duration {
	patience := r.timeout
	if deadline, limited := ctx.Deadline(); limited {
		patience = min(patience, time.Until(deadline)/2)
	}
	return max(patience, time.Millisecond)
}

// write runs a script that may write the key, and has the replicas asked if
// anybody wants to know. What was written does not count if unconfirmed is not nil.
func (s *Store) write(ctx context.Context, script *redis.Script, key string, arguments ...any) (answer *redis.Cmd, unconfirmed error) {
	if s.replicas.wanted == 0 {
		return script.Run(ctx, s.client, []string{s.prefix + key}, arguments...), nil
	}
	answer, unconfirmed = s.replicas.run(ctx, script, s.prefix+key, arguments...)
	return answer, cmp.Or(unconfirmed, ctx.Err()) // nobody takes a claim whose caller has gone
}

// giveBack undoes a claim that nothing has run under, and returns why. It compares
// the whole value: a claim that the same caller has made since then stands.
func (s *Store) giveBack(ctx context.Context, l storage.Lease, value []byte, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	var instead []byte // nothing: the key is deleted
	switch {
	case l.TookOver: // what became of the attempt before is as unknown as it was
		ended := l
		ended.TTL = momentary
		instead = encodeClaim(ended, time.Now())
	case l.Attempt > 1:
		instead = encodeReleased(l, time.Now())
	}
	if _, err := s.settleNow(ctx, l, string(value), instead, l.Retain); err != nil {
		return fmt.Errorf("%w; nor could it be given back: %w", why, err)
	}
	return why
}
