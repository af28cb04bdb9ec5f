// Package redisstore keeps records in Redis 7.0 or newer: one server, Sentinel or
// Cluster.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
//	store := redisstore.New(rdb)
//	engine, err := core.New(store, core.ScopeBy(userID))
//
// A first-time request costs two round trips, one to claim its key and one to settle
// the claim. A replay costs one round trip, the response that a key is in progress two,
// and a take-over three. [WaitReplicas] adds one to a first-time request. Every command
// touches one key, or with a Remember two keys of one slot. Only the server's clock
// decides when a record expires. The Created, Finished and Expires of a replay are by
// the clock of the process that wrote the record, unless it has a Remember.
//
// # Settings that matter
//
// ContextTimeoutEnabled: set it. A call returns when its context ends, with or
// without this setting. Without it, a goroutine of the client waits on until the
// client's ReadTimeout and retries are used up. With it, that goroutine ends at the
// context's deadline, or with [WaitReplicas] a few seconds later. A *redis.Client
// with this setting needs no goroutine for a deadline at most a second away, and is a
// third faster. In that case a context that is cancelled early ends the call only at
// the deadline, and a call may end a 64th of a second after its deadline.
//
// AutoPipeline: for many concurrent requests. [redis.Client.AutoPipeline] in place of
// the client serves up to twice as many requests, and a call needs no goroutine. The
// store uses the client's AsyncAutoPipeline with the same options, which ends when the
// client is closed. The replay of a record with a Remember then costs two round trips.
//
// maxmemory-policy: noeviction. Records have a time to live, so under every other
// policy the server may drop records when memory runs short, including running ones.
// The store logs a warning when it finds another policy with a memory limit, see
// [Logger].
//
// DialTimeout and ReadTimeout: about a second each on a cluster. A node that is
// frozen but not dead can delay the client by these timeouts while it looks for the
// new master.
//
// DialerRetries: 1 on a cluster. By default go-redis dials a dead node five times, a
// tenth of a second apart, before it returns an error. That takes as long as a
// policy's StoreTimeout, so in a process that was idle when a master died, the first
// requests get a 503. With 1 they find the new master, if the dead master's host
// refuses connections.
//
// StoreTimeout (of the policies): four round trips or more. A new connection costs
// two to four, and a claim one.
//
// cluster-require-full-coverage: with yes, Redis's default, all shards refuse
// commands from the death of one master until its successor takes over.
//
// min-replicas-to-write: with too few replicas the server refuses first-time requests, and
// still replays.
//
// The page docs/redis.md has the rights of a Redis user, and settings of the server.
//
// # Limits
//
// Redis acknowledges a write before its replicas have the write. When a master dies
// and a replica takes over, all writes are lost that the replica had not received.
// These are the writes of about the last millisecond if the replicas keep up, or all
// writes since the replica lost its connection. A lost write can be
//
//   - a claim: a retry runs the handler a second time, again as attempt 1, so a
//     fencing token does not detect the second run. The first handler may still be
//     running; its own process refuses duplicates while it runs;
//   - a response whose claim was not lost: the key is in progress until the lease
//     ends, then abandoned, and the policy's OnAbandoned decides. If the claim was
//     lost too, a retry runs the handler a second time;
//   - a renewal: a running key may look abandoned, and another request takes over the
//     key with a higher attempt;
//   - a release: the key stays in progress until its lease ends.
//
// A restarted server has lost the writes that were not yet on its disk: all of them
// without persistence, about a second of writes with appendfsync everysec.
//
// [WaitReplicas] makes a lost claim or response unlikely, not impossible. A claim or
// a response then counts only when that many replicas have acknowledged the write.
// But a replica acknowledges a write in memory, not on disk. With fewer replicas than
// there are, a failover can promote a replica that never received the write, although
// Sentinel and Cluster prefer the replica that has received most. If that is
// unacceptable, use pgstore, or tieredstore with Redis as the hot tier.
//
// A claim whose call ran into its deadline may still reach the server later. No
// handler runs then, and the key is in progress until that lease ends.
//
// # In redis-cli
//
// A value begins in binary form. The origin, the header and the body of the response
// can be read:
//
//	> GET oncekey:9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab
//	"oncekey\x01o\x1c…\x00\x01\x02\x00\x0c…\x0ePOST /payments\x05pod-1\x109c56cc51b374c3ba\x14bf9…-00f0…
//	\x01\x00\x0cContent-Type\x10application/json{\"id\":\"p_1\"}"
//
// After the mark "oncekey\x01" come the token (16 bytes), the attempt (8) and the state
// (1): 1 in progress, 2 completed, 3 failed, 4 not replayable, 6 released.
//
// The value of a key with a Remember is short once its request has finished, and the
// response is under the name oncekey:{oncekey:9c56…}:response. The short value stays as
// a tombstone when the response expires. If the response alone is gone too early, for
// example evicted, the record is Unreplayable: no handler runs again. An abandoned key
// keeps its claim, with all steps, as its tombstone.
//
// The body of a claim is the steps that its run has recorded.
//
// After a DEL of the key, the next request with that key is a first-time request. In
// a program, use [Store.Lookup], [Store.List] and [Store.Forget].
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

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

// DefaultPrefix is the text before each storage key, unless [Prefix] sets another.
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
	// merges: the client merges the commands of several callers.
	merges bool
	// deferred is the AutoPipeliner that process waits for, or nil.
	deferred *redis.AutoPipeliner
	dialing  *dialing
	warmer   warmer
	// permitted: the server has permitted all commands that the store needs.
	permitted atomic.Bool
	question  atomic.Pointer[question] // that is being asked
	// punctual: the client ends a call at its deadline.
	punctual bool
	scopes
}

var _ storage.Limiter = (*Store)(nil)

// Option is a setting of [New].
type Option func(*Store)

// Prefix sets the text before each storage key. The default is [DefaultPrefix]. All
// processes of one service need the same prefix. Services that share a Redis must not
// share records: give each service its own prefix, or its own name with
// core.WithService. Use no braces, because they put all keys into one slot of a
// cluster.
func Prefix(prefix string) Option { return func(s *Store) { s.prefix = prefix } }

// Logger sets the logger for warnings: about eviction, at most once for each Store,
// and about values that List has skipped. The default, also for nil, is
// slog.Default().
func Logger(logger *slog.Logger) Option { return func(s *Store) { s.logger = logger } }

// New returns a store that uses the client. It does not dial: the first call reports
// an unreachable server. The caller keeps the client, and closes it after the last
// request. An AutoPipeliner (see [redis.Client.AutoPipeline]) works as a client too,
// except with [WaitReplicas]. In front of a cluster it hides ReloadState from the
// store, so that recovery from the death of a master takes as long as go-redis takes.
//
// New adds a hook to a *redis.Client. The hook observes dials, not commands, so that
// a server that refuses connections is reported at once. After a call has run out of
// time, the store opens connections in the background.
//
// New panics for nil and for a *redis.Ring. When a server of a Ring is unreachable,
// or the Ring's addresses change, keys move to other servers without their records,
// and handlers run twice.
func New(client redis.UniversalClient, options ...Option) *Store {
	if client == nil {
		panic("redisstore: New(nil): want a client")
	}
	if _, moves := client.(interface{ SetAddrs(map[string]string) }); moves { // it is a *redis.Ring, or embeds one
		panic(fmt.Sprintf("redisstore: New with a %T: when one of its servers is unreachable, that server's keys move to "+
			"another one without their records, and requests run twice: want a *redis.Client or a *redis.ClusterClient", client))
	}
	s := &Store{client: client, prefix: DefaultPrefix, topology: newTopology(client)}
	records.Configure("redisstore", s, options)
	s.admit, s.keep = onScope(s, "admit", admitScript), onScope(s, "keep", keepScript)
	s.replicas.find(client)
	if pipeliner, merges := client.(*redis.AutoPipeliner); merges {
		s.merges, s.deferred = true, deferredOf(pipeliner)
	}
	s.dialing = watchDials(client)
	server, single := client.(*redis.Client)
	s.punctual = single && s.replicas.wanted == 0 && server.Options().ContextTimeoutEnabled
	return s
}

// deferredOf returns an AutoPipeliner of the same client whose commands can be waited for
// with a context, so that no call needs a goroutine. The client owns and closes it. It
// returns nil for options that only allow commands which block.
func deferredOf(pipeliner *redis.AutoPipeliner) *redis.AutoPipeliner {
	if !pipeliner.IsBlocking() {
		return pipeliner
	}
	options := pipeliner.Config()
	deferred, _ := pipeliner.AsyncAutoPipelineWithOptions(&options) // nil beside an error
	return deferred
}

// Complete implements [storage.Store].
func (s *Store) Complete(ctx context.Context, l storage.Lease, res storage.Result) error {
	keys, arguments, err := s.result(l, res)
	if err != nil {
		return s.failure("complete", l.Key, err)
	}
	outcome, err := boundedCommands(ctx, s, func(ctx context.Context) (int, error) {
		reply, unconfirmed := s.write(ctx, settleScript, keys, arguments...)
		outcome, err := reply.Int()
		if err == nil && outcome != settledByOther {
			err = unconfirmed
		}
		return outcome, err
	})
	if err == nil && outcome == settledByOther {
		return storage.ErrLeaseLost
	}
	return s.failure("complete", l.Key, s.unlessRefused(ctx, sizeOf(arguments), err))
}

// Release implements [storage.Store].
func (s *Store) Release(ctx context.Context, l storage.Lease) error {
	kept := attemptPrefix(&l) // alone: the key is deleted
	if l.Attempt > 1 || l.Steps != "" {
		kept = encodeReleased(l, time.Now())
	}
	outcome, err := s.settle(ctx, l, kept, milliseconds(l.Retain))
	if err == nil && outcome != settled {
		return storage.ErrLeaseLost
	}
	return s.failure("release", l.Key, s.unlessRefused(ctx, len(kept), err))
}

// Extend implements [storage.Store].
func (s *Store) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) error {
	extended, err := s.extend(ctx, l, ttl)
	if err == nil && !extended {
		return storage.ErrLeaseLost
	}
	return s.failure("extend", l.Key, s.unlessRefused(ctx, len(l.Steps)+claimRoom, err))
}

// extend writes the claim again with a lease of ttl from now, and with the same
// retention as before.
func (s *Store) extend(ctx context.Context, l storage.Lease, ttl time.Duration) (bool, error) {
	if l.LockTTL = ttl; ttl < time.Millisecond {
		l.LockTTL = 0
	}
	outcome, err := s.settle(ctx, l, encodeClaim(&l, time.Now()), lifetime(l.Retain, l.Remember))
	return outcome == settled, err
}

// settle runs settleScript, which replaces the lease's claim by value, and keeps the
// value for a number of milliseconds. An attemptPrefix deletes the key.
func (s *Store) settle(ctx context.Context, l storage.Lease, value []byte, kept int64) (int, error) {
	return boundedCommands(ctx, s, func(ctx context.Context) (int, error) {
		return s.run(ctx, settleScript, []string{s.prefix + l.Key}, value, kept).Int()
	})
}

// failure adds the operation and the key to an error.
func (s *Store) failure(operation, key string, err error) error {
	if err == nil {
		return nil
	}
	if redis.HasErrorPrefix(err, "WRONGTYPE") && !errors.Is(err, storage.ErrCorruptRecord) {
		err = fmt.Errorf("%w: it is no string: %w", storage.ErrCorruptRecord, err)
	}
	if isForbidden(err) {
		s.permitted.Store(false) // the next claim asks the server again
		if !errors.Is(err, storage.ErrStoreForbidden) {
			err = fmt.Errorf("%w: %w", storage.ErrStoreForbidden, err)
		}
	}
	if server, single := s.client.(*redis.Client); single && errors.Is(err, context.DeadlineExceeded) {
		if pool := server.PoolStats(); pool.IdleConns == 0 && int(pool.TotalConns) >= server.Options().PoolSize {
			err = fmt.Errorf("all %d connections of the pool are in use: %w", pool.TotalConns, err)
		}
	}
	return fmt.Errorf("redisstore: %s %q: %w", operation, s.prefix+key, err)
}
