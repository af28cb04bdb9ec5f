// Package redisstore keeps records in Redis 7.0 or newer: one server, Sentinel
// or Cluster.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
//	store := redisstore.New(rdb)
//	guard, err := core.New(store, core.ScopeBy(userID))
//
// A first-time request costs two round trips, one to claim its key and one to
// settle it; a replay costs one, and so does being told that a key is in
// progress. [WaitReplicas] adds one to the first. Every command touches one key, and
// the server's clock alone decides what has expired.
//
// # Settings that matter
//
// ContextTimeoutEnabled: a call returns when its context ends, whatever the
// client is set to. Without this setting the client goes on waiting in a
// goroutine until its own ReadTimeout and retries are used up; with it, that
// goroutine ends with the context's deadline, or with [WaitReplicas] a few seconds
// later. A *redis.Client with this setting needs no goroutine for a deadline that is
// at most a second away, and is faster by a quarter: there a context that is
// cancelled before its deadline ends the call at the deadline.
//
// AutoPipeline: where many requests come at once, [redis.Client.AutoPipeline] in
// place of the client answers about half as many again. Being told that a key is in
// progress costs two round trips there, and taking one over three.
//
// maxmemory-policy: records have a time to live, so every policy but noeviction
// lets the server drop them, running ones too, when memory runs short. The store
// logs a warning when it finds that it may, see [Logger].
//
// DialTimeout and ReadTimeout: about a second each on a cluster. A node that is
// frozen and not dead can hold the client up for as long, when it looks for the
// new master.
//
// DialerRetries: 1 on a cluster. By default go-redis dials a dead node five times, a
// tenth of a second apart, before it says so, and that is a policy's StoreTimeout.
// The first requests to a process that was idle when a master died are then answered
// with 503; with 1 they find the new master, where the dead one's host refuses
// connections.
//
// StoreTimeout (of the policies): four round trips or more. A new connection costs
// two to four, and a claim one.
//
// cluster-require-full-coverage: with yes, which is Redis's default, the other
// shards stop too from the death of a master to its successor.
//
// min-replicas-to-write: with too few replicas replays are refused as well as
// first runs, because looking a key up is a SET.
//
// The page docs/redis.md has the rights of a Redis user, and settings of the server.
//
// # What it does not promise
//
// Redis acknowledges a write before its replicas have it. When a master dies, what it
// had acknowledged and the replica that takes over had not received is lost: what was
// written in the last moment (about a millisecond where the replicas keep up), or
// since the replica was cut off, for as long as that was. With it can go
//
//   - a claim: the key is free, and a retry runs the handler a second time, as
//     attempt 1 again, so that a fencing token notices nothing. The first handler may
//     still be running; its own process refuses duplicates as long as it does;
//   - an answer whose claim was not lost: the key is in progress until the lease ends,
//     then abandoned, and the policy's OnAbandoned decides. An answer that was lost
//     with its claim leaves the key free;
//   - a renewal: a running key may look abandoned, and be taken over as a higher
//     attempt;
//   - a release: the key stays in progress until its lease ends.
//
// Likewise a server that restarts has lost what it had not yet written to disk:
// everything without persistence, a second's worth with appendfsync everysec.
//
// [WaitReplicas] makes the first two improbable: a claim and an answer count only when
// as many replicas as it says have acknowledged them. It does not make them impossible.
// A replica that has acknowledged has them in memory, and not on disk; with fewer than
// all replicas, one that has not acknowledged can be promoted, although Sentinel and
// Cluster prefer the one that has received most. Where it must not happen use
// pgstore, or tieredstore with Redis in front of it.
//
// A claim whose call ran into its deadline may still reach the server later.
// Nobody runs then, and the key is in progress until that lease has run out.
//
// # In redis-cli
//
// A value is one line of JSON, a newline, and the body of the answer:
//
//	> GET oncekey:9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab
//	{"token":"6f1c…","state":"completed","v":1,"attempt":1,"fingerprint":"sha256:…","digest":"4be0…","at":"2026-01-02T15:04:05Z",
//	 "status":201,"headers":[["set","Content-Type","application/json"]],"size":12}
//	{"id":"p_1"}
//
// Deleting a key with DEL makes the next request with it a first-time request.
// In a program, [Store.Lookup], [Store.List] and [Store.Forget] do the like.
package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/storage"
)

// DefaultPrefix stands before each storage key unless [Prefix] says otherwise.
const DefaultPrefix = "oncekey:"

// Store is a [storage.Store] in Redis. It is safe for concurrent use. Make one with
// [New].
type Store struct {
	client       redis.UniversalClient
	prefix       string
	logger       *slog.Logger
	topology     topology
	replicas     replicas
	evictionOnce sync.Once
	// merges: the client sends what several callers ask for at once.
	merges  bool
	dialing *dialing
	warmer  warmer
	// permitted: the server has let this process try all that it needs.
	permitted atomic.Bool
	// punctual: a call ends with its deadline, without the store's help.
	punctual bool
}

var _ storage.Store = (*Store)(nil)

// Option is a setting of [New].
type Option func(*Store)

// Prefix sets the text before each storage key. The default is [DefaultPrefix].
// All processes of one service need the same prefix. Services that share a Redis
// must not share records: give each its own prefix, or name each with
// core.WithService. Braces would put all keys into one slot of a cluster: leave
// them out.
func Prefix(prefix string) Option { return func(s *Store) { s.prefix = prefix } }

// Logger sets where warnings go: the one about eviction, at most once for each
// Store, and the one about values that List has passed by. The default, and what
// nil means, is slog.Default().
func Logger(logger *slog.Logger) Option { return func(s *Store) { s.logger = logger } }

// New returns a store that uses the client. It does not dial: a server that is
// away shows in the first call. The client stays the caller's, who closes it
// when the last request is done. What [redis.Client.AutoPipeline] returns serves
// as a client too, but not for [WaitReplicas]; in front of a cluster it hides
// ReloadState from the store, so that healing after the death of a master takes
// as long as go-redis takes.
//
// A *redis.Client gets a hook, which sees its dials and no commands: a server that
// refuses connections is then reported at once. When a call has run out of time,
// the store makes connections ready in the background.
//
// New panics for nil and for a *redis.Ring: when one of a Ring's servers is
// unreachable, or its addresses change, keys move to other servers without their
// records, and handlers run twice.
func New(client redis.UniversalClient, options ...Option) *Store {
	if client == nil {
		panic("redisstore: New(nil): want a client")
	}
	if movesKeys(client) {
		panic(fmt.Sprintf("redisstore: New with a %T: when one of its servers is unreachable it looks for that server's keys "+
			"on another one, where their records are not, and requests run twice: want a *redis.Client or a *redis.ClusterClient", client))
	}
	s := &Store{client: client, prefix: DefaultPrefix, topology: newTopology(client)}
	for _, option := range options {
		option(s)
	}
	s.replicas.find(client)
	_, s.merges = client.(*redis.AutoPipeliner)
	s.dialing = watchDials(client)
	s.punctual = s.replicas.wanted == 0 && isPunctual(client)
	return s
}

// movesKeys reports whether the client is a *redis.Ring, or a type that embeds one:
// no other client has SetAddrs.
func movesKeys(client redis.UniversalClient) bool {
	_, moves := client.(interface{ SetAddrs(addrs map[string]string) })
	return moves
}

// Complete implements [storage.Store].
func (s *Store) Complete(ctx context.Context, l storage.Lease, res storage.Result) error {
	arguments := []any{attemptPrefix(l), encodeResult(l, res, time.Now()), milliseconds(res.Retain)}
	if s.replicas.wanted > 0 {
		arguments = append(arguments, s.replicas.wanted)
	}
	outcome, err := bounded(ctx, s, func(ctx context.Context) (int, error) {
		answer, unconfirmed := s.write(ctx, settleScript, l.Key, arguments...)
		outcome, err := answer.Int()
		if err == nil && outcome != settledOthers {
			err = unconfirmed
		}
		return outcome, err
	})
	if err == nil && outcome == settledOthers {
		return storage.ErrLeaseLost
	}
	return s.failure("complete", l.Key, err)
}

// Release implements [storage.Store].
func (s *Store) Release(ctx context.Context, l storage.Lease) error {
	var tombstone []byte // none: the key is deleted
	if l.Attempt > 1 {
		tombstone = encodeReleased(l, time.Now())
	}
	outcome, err := s.settle(ctx, l, attemptPrefix(l), tombstone, l.Retain)
	if err == nil && outcome != settled {
		return storage.ErrLeaseLost
	}
	return s.failure("release", l.Key, err)
}

// Extend implements [storage.Store].
func (s *Store) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) error {
	extended, err := s.extend(ctx, l, ttl)
	if err == nil && !extended {
		return storage.ErrLeaseLost
	}
	return s.failure("extend", l.Key, err)
}

// extend writes the claim once more, to be kept as long as the first time, with
// a lease of ttl from now.
func (s *Store) extend(ctx context.Context, l storage.Lease, ttl time.Duration) (bool, error) {
	l.TTL = ttl
	kept := l.Retain
	if ttl < time.Millisecond {
		// A lease that has ended is one of a millisecond that began a millisecond
		// ago. Versions before this one read it as well.
		l.TTL, kept = time.Millisecond, l.Retain-time.Millisecond
	}
	outcome, err := s.settle(ctx, l, attemptPrefix(l), encodeClaim(l, time.Now()), kept)
	return outcome == settled, err
}

// settle runs settleScript: value takes the place of the lease's claim, which
// begins with claim, for retain. No value deletes it.
func (s *Store) settle(ctx context.Context, l storage.Lease, claim string, value []byte, retain time.Duration) (int, error) {
	return bounded(ctx, s, func(ctx context.Context) (int, error) { return s.settleNow(ctx, l, claim, value, retain) })
}

func (s *Store) settleNow(ctx context.Context, l storage.Lease, claim string, value []byte, retain time.Duration) (int, error) {
	return settleScript.Run(ctx, s.client, []string{s.prefix + l.Key}, claim, value, milliseconds(retain)).Int()
}

// failure says what failed, and for which key.
func (s *Store) failure(operation, key string, err error) error {
	if err == nil {
		return nil
	}
	if redis.HasErrorPrefix(err, "WRONGTYPE") && !errors.Is(err, storage.ErrCorruptRecord) {
		err = fmt.Errorf("%w: it is no string: %w", storage.ErrCorruptRecord, err)
	}
	if isForbidden(err) {
		s.permitted.Store(false) // the next claim asks before it is made
		if !errors.Is(err, storage.ErrStoreForbidden) {
			err = fmt.Errorf("%w: %w", storage.ErrStoreForbidden, err)
		}
	}
	return fmt.Errorf("redisstore: %s %q: %w", operation, s.prefix+key, err)
}

// milliseconds rounds up: what was asked for is the least that is kept.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
