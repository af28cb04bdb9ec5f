// Package memstore keeps records in the memory of this process. Use it for a service
// that runs as a single instance, and for tests.
//
//	store := memstore.New(memstore.MaxBytes(64 << 20))
//	engine, err := core.New(store, core.ScopeBy(userID))
//
// A Store starts no goroutine and needs no Close. It drops expired records while it
// serves requests. [MaxRecords] and [MaxBytes] bound its size. A full store refuses
// new keys with [storage.ErrStoreFull]. It never drops a running or finished record
// to admit a new key, because the dropped request could run twice.
//
// A record with a Remember becomes a tombstone when it expires. A tombstone counts as
// a record, and takes about 180 bytes.
//
// Finished records are kept as bytes in a few large pieces of memory. In a store of
// many records, a record with a response of 300 bytes takes about 500. The garbage
// collector does not scan the records, however many there are.
//
// With [Cache] a Store is a local cache of finished records, for the hot tier of a
// tieredstore.
//
// Operators can list and look up records: a Store is a [storage.Inspector].
//
// # Limits
//
// A memstore shares no records with other processes, and loses all records when its
// process ends. Use another store for two instances behind a load balancer,
// or if a retry may arrive after a deploy.
package memstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

// shardCount spreads the keys over locks. It exceeds the number of processors that a
// single-instance service is likely to have.
const shardCount = 1 << shardBits

// Store is a [storage.Store] in memory. It is safe for concurrent use. Make one
// with [New].
type Store struct {
	maxRecords int64
	maxBytes   int64
	cache      bool

	// start is the origin of all times in this store. Differences to start are
	// monotonic: changing the machine's clock expires no record.
	start  time.Time
	epoch  time.Time // start by the wall clock, for the times of records
	seed   maphash.Seed
	secret [sha256.Size]byte // see identify

	_       [cacheLine]byte // the fields above do not change
	records atomic.Int64
	bytes   atomic.Int64
	_       [cacheLine]byte

	shards [shardCount]shard
	scopes
}

var (
	_ storage.Checker = (*Store)(nil)
	_ storage.Limiter = (*Store)(nil)
)

// New returns an empty store with the bounds of the options.
func New(options ...Option) *Store {
	s := &Store{
		maxRecords: defaultMaxRecords,
		maxBytes:   defaultMaxBytes,
		start:      time.Now(),
		seed:       maphash.MakeSeed(),
	}
	s.epoch, s.scopes.since = s.start.Round(0).UTC(), s.start
	rand.Read(s.secret[:]) // Read never fails: it crashes the program instead
	records.Configure("memstore", s, options)
	for i := range s.shards {
		s.shards[i].init(s.hash)
	}
	return s
}

// Len returns the number of records in the store. It includes expired records that no
// request has dropped yet.
func (s *Store) Len() int { return int(s.records.Load()) }

// Acquire implements [storage.Store]. It drops expired records to admit a new key. If
// the store is still full, it returns a wrapped storage.ErrStoreFull with the current
// numbers.
func (s *Store) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	n, record := s.peek(request)
	if record != nil {
		return storage.Lease{}, record, nil
	}
	if err := ctx.Err(); err != nil {
		return storage.Lease{}, nil, fmt.Errorf("memstore: acquire: %w", err)
	}
	c := request.Claim()
	if !n.complete {
		n = s.identify(c.Key)
	}
	for {
		lease, found, finished, full := s.acquire(&n, &c)
		switch {
		case finished != nil:
			return storage.Lease{}, finished.record(c.Fingerprint, s.epoch), nil
		case !full:
			return lease, found, nil
		}
		// Expired records of the other shards make space for the new record. The loop
		// ends, because each iteration drops a record or buries one.
		if !s.evictEverywhere() && !s.makeRoom(1, cost(&c)) {
			return storage.Lease{}, nil, s.errFull()
		}
	}
}

// peek returns the name of the request's key, and the record of a finished key, without its
// fingerprint, if the request repeats the record's by its digest. For a request without a
// digest it returns neither.
func (s *Store) peek(request storage.Request) (n name, repeated *storage.Record) {
	key, digest := request.Peek()
	if digest == (storage.Digest{}) {
		return name{}, nil
	}
	n = name{id: key, complete: true, hash: s.hash(key)}
	e := s.findFinished(&n)
	if e == nil {
		return n, nil
	}
	p := e.parts()
	if !digest.Repeats(p.digest) {
		return n, nil
	}
	return n, e.response(&p, s.epoch)
}

// findFinished returns the entry of a finished key, or nil.
func (s *Store) findFinished(n *name) entry {
	shard, now := s.lock(n.hash)
	defer shard.mutex.Unlock()
	_, finished := s.lookUp(shard, n, now)
	return finished
}

// acquire returns a lease, the record of an unfinished key, the entry of a finished
// key, or full.
func (s *Store) acquire(n *name, c *storage.Claim) (l storage.Lease, found *storage.Record, finished entry, full bool) {
	shard, now := s.lock(n.hash)
	defer shard.mutex.Unlock()
	s.evict(shard, now, evictionsPerAcquire)
	r, finished := s.lookUp(shard, n, now)
	switch {
	case finished != nil:
		return l, nil, finished, false
	case r == nil:
		l, admitted := s.admit(shard, n, c, now)
		return l, nil, nil, !admitted
	case r.released && (r.Steps == "" || c.Repeats(r.Fingerprint, r.Digest)):
		l = lease(c, r.Attempt+1, false)
		l.Steps, r.created = r.Steps, now
	case r.released:
		return l, r.show(now, s.epoch), nil, false
	case r.Token == c.Token:
		l = lease(c, r.Attempt, r.TookOver)
		l.Steps = r.Steps
	case r.leaseEnd <= now && c.TakeOver && c.Repeats(r.Fingerprint, r.Digest):
		l = lease(c, r.Attempt+1, true)
		l.Steps, r.created = r.Steps, now
	default:
		return l, r.show(now, s.epoch), nil, false
	}
	return s.claim(shard, r, l, now), nil, nil, false
}

// Complete implements [storage.Store]. It succeeds in a full store too: the handler
// has run, so its response must be kept.
func (s *Store) Complete(ctx context.Context, l storage.Lease, res storage.Result) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memstore: complete: %w", err)
	}
	if res.State == storage.Unreplayable {
		res.Header, res.Body = nil, nil
	}
	n := s.identify(l.Key)
	d := newDraft(&n, &l, &res)
	var encoded []byte
	if limit := d.limit(); limit > largeEntry {
		encoded = d.appendTo(make([]byte, 0, limit))
	}
	err := s.complete(&d, encoded)
	s.makeRoom(0, 0)
	return err
}

func (s *Store) complete(d *draft, encoded []byte) error {
	shard, now := s.lock(d.name.hash)
	defer shard.mutex.Unlock()
	r, finished := s.lookUp(shard, d.name, now)
	switch {
	case finished != nil && finished.isOf(d.lease):
		return nil // a repeated call
	case finished != nil, r != nil && !r.isOf(d.lease):
		return storage.ErrLeaseLost
	}
	d.run = d.lease.Age
	if r != nil {
		d.run = now - r.created
	}
	s.finish(shard, r, d, encoded, now+d.result.Retain)
	return nil
}

// Release implements [storage.Store].
func (s *Store) Release(ctx context.Context, l storage.Lease) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memstore: release: %w", err)
	}
	n := s.identify(l.Key)
	shard, now := s.lock(n.hash)
	defer shard.mutex.Unlock()
	r, err := s.openTo(shard, &n, &l, now)
	switch {
	case err != nil:
		return err
	case r == nil && l.Steps == "":
		return nil
	case r == nil:
		r = s.insert(shard, &n, &l, now)
	case l.Attempt <= 1 && l.Steps == "":
		s.remove(shard, r)
		return nil
	}
	r.release(l)
	s.keep(shard, r, now+l.Retain)
	return nil
}

// Extend implements [storage.Store].
func (s *Store) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memstore: extend: %w", err)
	}
	n := s.identify(l.Key)
	shard, now := s.lock(n.hash)
	defer shard.mutex.Unlock()
	r, err := s.openTo(shard, &n, &l, now)
	if err != nil {
		return err
	}
	if r == nil {
		r = s.insert(shard, &n, &l, now)
	}
	if len(r.Steps) > len(l.Steps) { // this call was given up, and arrives late
		l.Steps = r.Steps
	}
	l.LockTTL = ttl
	s.claim(shard, r, l, now)
	return nil
}

// Check implements [storage.Checker]. It fails only if the context has ended.
func (s *Store) Check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memstore: check: %w", err)
	}
	return nil
}

// lock locks the shard of a hash, and returns it with the time.
func (s *Store) lock(hash uint64) (*shard, time.Duration) {
	shard := s.shardOf(hash)
	shard.mutex.Lock()
	return shard, s.now()
}

func (s *Store) now() time.Duration { return time.Since(s.start) }

func (s *Store) shardOf(hash uint64) *shard { return &s.shards[hash%shardCount] }
