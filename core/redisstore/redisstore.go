// Package redisstore keeps records in Redis 7.0 or newer: one server, Sentinel
// or Cluster.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
//	store := redisstore.New(rdb)
//	guard, err := core.New(store, core.ScopeBy(userID))
//
// A first-time request costs two round trips, one to claim its key and one to
// settle it; a replay costs one, and so does being told that a key is in
// progress. Every command touches one key, and the server's clock alone decides
// what has expired.
//
// # Settings that matter
//
// ContextTimeoutEnabled: a call returns when its context ends, whatever the
// client is set to. Without this setting the client goes on waiting in a
// goroutine until its own ReadTimeout and retries are used up; with it, that
// goroutine ends at once.
//
// maxmemory-policy: records have a time to live, so every policy but noeviction
// lets the server drop them, running ones too, when memory runs short. The store
// logs a warning when it finds that it may, see [Logger].
//
// DialTimeout and ReadTimeout: about a second each on a cluster. A node that is
// frozen and not dead can hold the client up for as long, when it looks for the
// new master.
//
// cluster-require-full-coverage: with yes, which is Redis's default, the other
// shards stop too from the death of a master to its successor.
//
// min-replicas-to-write: with too few replicas replays are refused as well as
// first runs, because looking a key up is a SET.
//
// # What it does not promise
//
// Redis acknowledges a write before its replicas have it. A claim or an answer
// that was acknowledged by a master just before that master died can be missing
// on the replica that takes over; its key is then free, and a retry runs the
// handler a second time, as attempt 1 again. Likewise a server that restarts has lost what it had not yet
// written to disk: everything without persistence, a second's worth with
// appendfsync everysec. Where that must not happen use pgstore, or tieredstore
// with Redis in front of it.
//
// A claim whose call ran into its deadline may still reach the server later.
// Nobody runs then, and the key is in progress until that lease has run out.
//
// # In redis-cli
//
// A value is one line of JSON, a newline, and the body of the answer:
//
//	> GET oncekey:9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab
//	{"token":"6f1c…","state":"completed","v":1,"attempt":1,"fingerprint":"sha256:…","at":"2026-01-02T15:04:05Z",
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
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core"
)

// DefaultPrefix stands before each storage key unless [Prefix] says otherwise.
const DefaultPrefix = "oncekey:"

// Store is a [core.Store] in Redis. It is safe for concurrent use. Make one with
// [New].
type Store struct {
	client       redis.UniversalClient
	prefix       string
	logger       *slog.Logger
	topology     topology
	evictionOnce sync.Once
}

var _ core.Store = (*Store)(nil)

// Option is a setting of [New].
type Option func(*Store)

// Prefix sets what stands before each storage key, so that several applications
// can share a Redis. The default is [DefaultPrefix]. Instances of one
// application need the same. Braces would put all keys into one slot of a
// cluster: leave them out.
func Prefix(prefix string) Option { return func(s *Store) { s.prefix = prefix } }

// Logger sets where warnings go: the one about eviction, at most once for each
// Store, and the one about values that List has passed by. The default, and what
// nil means, is slog.Default().
func Logger(logger *slog.Logger) Option { return func(s *Store) { s.logger = logger } }

// New returns a store that uses the client. It does not dial: a server that is
// away shows in the first call. The client stays the caller's, who closes it
// when the last request is done. What [redis.Client.AutoPipeline] returns serves
// as a client too; in front of a cluster it hides ReloadState from the store,
// so that healing after the death of a master takes as long as go-redis takes.
func New(client redis.UniversalClient, options ...Option) *Store {
	if client == nil {
		panic("redisstore: New(nil): want a client")
	}
	s := &Store{client: client, prefix: DefaultPrefix, topology: newTopology(client)}
	for _, option := range options {
		option(s)
	}
	return s
}

// Complete implements [core.Store].
func (s *Store) Complete(ctx context.Context, l core.Lease, res core.Result) error {
	outcome, err := s.settle(ctx, l, holderPrefix(l.Token), encodeResult(l, res, time.Now()), res.Retain)
	if err == nil && outcome == settledOthers {
		return core.ErrLeaseLost
	}
	return s.failure("complete", l.Key, err)
}

// Release implements [core.Store].
func (s *Store) Release(ctx context.Context, l core.Lease) error {
	var tombstone []byte // none: the key is deleted
	if l.Attempt > 1 {
		tombstone = encodeReleased(l, time.Now())
	}
	outcome, err := s.settle(ctx, l, attemptPrefix(l), tombstone, l.Retain)
	if err == nil && outcome != settled {
		return core.ErrLeaseLost
	}
	return s.failure("release", l.Key, err)
}

// Extend implements [core.Store].
func (s *Store) Extend(ctx context.Context, l core.Lease, ttl time.Duration) error {
	extended, err := s.extend(ctx, l, ttl)
	if err == nil && !extended {
		return core.ErrLeaseLost
	}
	return s.failure("extend", l.Key, err)
}

// extend writes the claim once more, to be kept as long as the first time, with
// a lease of ttl from now.
func (s *Store) extend(ctx context.Context, l core.Lease, ttl time.Duration) (bool, error) {
	l.TTL = ttl
	outcome, err := s.settle(ctx, l, holderPrefix(l.Token), encodeClaim(l, time.Now()), l.Retain)
	return outcome == settled, err
}

// settle runs settleScript: value takes the place of the lease's claim, which
// begins with claim, for retain. No value deletes it.
func (s *Store) settle(ctx context.Context, l core.Lease, claim string, value []byte, retain time.Duration) (int, error) {
	return bounded(ctx, s, func() (int, error) {
		return settleScript.Run(ctx, s.client, []string{s.prefix + l.Key},
			holderPrefix(l.Token), value, milliseconds(retain), claim).Int()
	})
}

// failure says what failed, and for which key.
func (s *Store) failure(operation, key string, err error) error {
	if err == nil {
		return nil
	}
	if redis.HasErrorPrefix(err, "WRONGTYPE") && !errors.Is(err, core.ErrCorruptRecord) {
		err = fmt.Errorf("%w: it is no string: %w", core.ErrCorruptRecord, err)
	}
	return fmt.Errorf("redisstore: %s %q: %w", operation, s.prefix+key, err)
}

// milliseconds rounds up: what was asked for is the least that is kept.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
