// Package memstore keeps records in the memory of this process. It is the
// store for a service that runs as a single instance, and for tests.
//
//	store := memstore.New(memstore.MaxBytes(64 << 20))
//	guard, err := core.New(store, core.ScopeBy(userID))
//
// A Store starts no goroutine and needs no Close: it drops expired records while
// it serves requests. It is bounded, see [MaxRecords] and [MaxBytes]: when it is
// full it refuses new keys with [core.ErrStoreFull] rather than forget running
// or finished ones, because a forgotten key is a payment made twice.
//
// For operators it is a [core.Inspector].
//
// What it does not do: it shares nothing with other processes, and it forgets
// everything when this one ends. With two instances behind a load balancer, or
// where a retry may arrive after a deploy, use redisstore or pgstore.
package memstore

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"sync/atomic"
	"time"

	"github.com/oncekey/oncekey/core"
)

// shardCount spreads the keys over locks. More than the processors of any
// machine that a single-instance service is likely to have.
const shardCount = 64

// Store is a [core.Store] in memory. It is safe for concurrent use. Make one
// with [New].
type Store struct {
	maxRecords int64
	maxBytes   int64
	records    atomic.Int64
	bytes      atomic.Int64

	// start is the origin of all times in this store. Differences to it are
	// monotonic: nobody who sets the machine's clock expires a record.
	start  time.Time
	seed   maphash.Seed
	shards [shardCount]shard
}

var _ core.Store = (*Store)(nil)

// New returns an empty store, bounded as the options say.
func New(options ...Option) *Store {
	s := &Store{
		maxRecords: defaultMaxRecords,
		maxBytes:   defaultMaxBytes,
		start:      time.Now(),
		seed:       maphash.MakeSeed(),
	}
	for _, option := range options {
		option(s)
	}
	for i := range s.shards {
		s.shards[i].records = make(map[string]*record)
	}
	return s
}

// Len is the number of records that the store holds at the moment, expired ones
// that no request has swept away yet included.
func (s *Store) Len() int { return int(s.records.Load()) }

// Acquire implements [core.Store]. When there is no room for a new key, after
// everything expired has been dropped, it returns core.ErrStoreFull, wrapped
// with the numbers.
func (s *Store) Acquire(ctx context.Context, c core.Claim) (core.Lease, *core.Record, error) {
	if err := ctx.Err(); err != nil {
		return core.Lease{}, nil, fmt.Errorf("memstore: acquire: %w", err)
	}
	for {
		lease, found, err := s.acquire(c)
		// Full: what has expired in the other shards makes room. Each turn drops
		// something, so there is a last one.
		if err == nil || !s.evictEverywhere() {
			return lease, found, err
		}
	}
}

func (s *Store) acquire(c core.Claim) (core.Lease, *core.Record, error) {
	shard := s.shardOf(c.Key)
	shard.mutex.Lock()
	defer shard.mutex.Unlock()
	now := s.now()
	s.evict(shard, now, evictionsPerAcquire)
	r := s.lookUp(shard, c.Key, now)
	switch {
	case r == nil:
		return s.admit(shard, c, now)
	case r.answer != nil:
		return core.Lease{}, r.answer, nil
	case r.released:
		return s.claim(shard, r, lease(c, r.attempt+1, false), now), nil, nil
	case r.token == c.Token:
		return s.claim(shard, r, lease(c, r.attempt, r.tookOver), now), nil, nil
	case r.leaseEnd <= now && c.TakeOver && r.fingerprint == c.Fingerprint:
		return s.claim(shard, r, lease(c, r.attempt+1, true), now), nil, nil
	default:
		return core.Lease{}, r.inProgress(now), nil
	}
}

// Complete implements [core.Store]. It succeeds in a full store too: a handler
// has run, and its answer must be kept.
func (s *Store) Complete(ctx context.Context, l core.Lease, res core.Result) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memstore: complete: %w", err)
	}
	answer := newAnswer(l, res) // copied before the lock is taken
	shard := s.shardOf(l.Key)
	shard.mutex.Lock()
	defer shard.mutex.Unlock()
	now := s.now()
	r := s.lookUp(shard, l.Key, now)
	if !r.openTo(l.Token) {
		if r.token == l.Token {
			return nil // a repetition
		}
		return core.ErrLeaseLost
	}
	if r == nil {
		r = s.insert(shard, l.Key, now+res.Retain)
	}
	r.hold(l)
	r.answer = answer
	s.keep(shard, r, now+res.Retain)
	return nil
}

// Release implements [core.Store].
func (s *Store) Release(ctx context.Context, l core.Lease) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memstore: release: %w", err)
	}
	shard := s.shardOf(l.Key)
	shard.mutex.Lock()
	defer shard.mutex.Unlock()
	now := s.now()
	r := s.lookUp(shard, l.Key, now)
	switch {
	case !r.openTo(l.Token), r != nil && !r.released && r.attempt != l.Attempt:
		return core.ErrLeaseLost
	case r == nil:
		return nil
	case l.Attempt <= 1:
		s.remove(shard, r)
		return nil
	default:
		r.hold(l)
		r.released, r.fingerprint = true, ""
		s.keep(shard, r, now+l.Retain)
		return nil
	}
}

// Extend implements [core.Store].
func (s *Store) Extend(ctx context.Context, l core.Lease, ttl time.Duration) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memstore: extend: %w", err)
	}
	shard := s.shardOf(l.Key)
	shard.mutex.Lock()
	defer shard.mutex.Unlock()
	now := s.now()
	r := s.lookUp(shard, l.Key, now)
	if !r.openTo(l.Token) {
		return core.ErrLeaseLost
	}
	if r == nil {
		r = s.insert(shard, l.Key, now+l.Retain)
	}
	l.TTL = ttl
	s.claim(shard, r, l, now)
	return nil
}

// admit claims a key that the store does not hold, if there is room for it.
func (s *Store) admit(shard *shard, c core.Claim, now time.Duration) (core.Lease, *core.Record, error) {
	size := cost(c.Key, c.Fingerprint, nil)
	if err := s.reserve(size); err != nil {
		return core.Lease{}, nil, err
	}
	r := &record{key: c.Key, cost: size, expires: now + c.Retain}
	shard.add(r)
	return s.claim(shard, r, lease(c, 1, false), now), nil, nil
}

// claim makes the record the lease's, from now.
func (s *Store) claim(shard *shard, r *record, l core.Lease, now time.Duration) core.Lease {
	r.hold(l)
	r.leaseEnd = now + l.TTL
	s.keep(shard, r, now+l.Retain)
	return l
}

func lease(c core.Claim, attempt uint64, tookOver bool) core.Lease {
	return core.Lease{Claim: c, Attempt: attempt, TookOver: tookOver}
}

func newAnswer(l core.Lease, res core.Result) *core.Record {
	answer := &core.Record{State: res.State, Fingerprint: l.Fingerprint, Attempt: l.Attempt, Status: res.Status}
	if res.State != core.Unreplayable {
		answer.Header, answer.Body = slices.Clone(res.Header), bytes.Clone(res.Body)
	}
	return answer
}

func (s *Store) now() time.Duration { return time.Since(s.start) }

func (s *Store) shardOf(key string) *shard { return &s.shards[s.shardIndex(key)] }

func (s *Store) shardIndex(key string) int {
	return int(maphash.String(s.seed, key) % shardCount)
}
