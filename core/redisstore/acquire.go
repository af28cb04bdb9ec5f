package redisstore

import (
	"bytes"
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/storage"
)

const (
	// acquireRounds bounds how often Acquire tries to claim a key that other clients keep
	// changing. Then it returns the last holder. A record that was released with
	// steps is tried further, until the context ends: its holder had other steps, and each
	// try that fails is another caller's success.
	acquireRounds = 3
	// briefLease is the lease time reported when the record's lease is not known,
	// because the record expired or changed between two commands. It is above zero so
	// that callers do not treat the key as abandoned.
	briefLease = time.Millisecond
	// noExpiry and noKey are go-redis's values for PTTL's -1 and -2.
	noExpiry, noKey = time.Duration(-1), time.Duration(-2)
	// anyTimeLeft is a time to live, in milliseconds, above that of any key.
	anyTimeLeft int64 = 1 << 52
)

// Acquire implements [storage.Store]. For a value that is not a record it returns a
// wrapped storage.ErrCorruptRecord that names the key and the fault. It returns the
// same for a record in progress without an expiry, because the end of its lease is
// then unknown. A finished record without an expiry is replayed.
//
// The first Acquire of a Store takes one more round trip. Like [Store.Check], it asks
// the server whether this process may settle its claims. If not, it claims no key and
// returns a wrapped storage.ErrStoreForbidden.
func (s *Store) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	c := request.Claim()
	if err := s.permit(ctx); err != nil {
		return storage.Lease{}, nil, s.failure("acquire", c.Key, err)
	}
	if c.Remember > 0 {
		if _, possible := s.responseKey(c.Key); !possible {
			return storage.Lease{}, nil, s.failure("acquire", c.Key, errBraces)
		}
	}
	lease := storage.Lease{Claim: c, Attempt: 1}
	record, err := s.acquire(ctx, &lease)
	if err != nil {
		return storage.Lease{}, nil, s.failure("acquire", c.Key, err)
	}
	s.evictionOnce.Do(func() { go s.warnOfEviction() })
	if record != nil {
		return storage.Lease{}, record, nil
	}
	return lease, nil, nil
}

// acquire turns the first lease of a key into the lease that was acquired, or returns
// the record that prevents the claim. The lease must not escape: one on the heap takes
// 300 bytes of each request.
func (s *Store) acquire(ctx context.Context, lease *storage.Lease) (*storage.Record, error) {
	value := encodeClaim(lease, time.Now())
	var seen, last *snapshot
	for round := 1; ; round++ {
		if seen == nil {
			var err error
			if seen, err = s.claimOrLook(ctx, &lease.Claim, value); err != nil || seen == nil {
				lease.Attempt, lease.TookOver, lease.Steps = 1, false, ""
				return nil, err
			}
		}
		latest, open := seen.openTo(lease)
		if record := seen.refusal(open, last, round); record != nil {
			return record, nil
		}
		if !open { // the key expired meanwhile, or only a second look can prove it abandoned
			last, seen = seen, nil
			continue
		}
		instead, err := s.replace(ctx, seen, lease, latest)
		if err != nil || instead == seen {
			return nil, err
		}
		last, seen = seen, instead // another caller was faster
	}
}

// refusal returns the record that prevents a claim, or nil to try on. The key was held in
// between where it has changed in every round.
func (s *snapshot) refusal(open bool, last *snapshot, round int) *storage.Record {
	switch {
	case !open && s.certain(last):
		return &s.record
	case round > acquireRounds && (s.record.State == storage.InProgress || s.forgotten):
		return s.busy()
	default:
		return nil
	}
}

// claimOrLook claims a key that does not exist, in one round trip, and returns nil.
// If the key exists it returns a snapshot of the key's value. With [WaitReplicas] it
// returns a snapshot of its own new claim, as if an earlier call had made the claim.
// Acquire then renews that claim, and WAIT asks the replicas about the renewal.
//
// A record does not hold the end of its lease, because only the server's clock
// counts. A claim is written with its Retain as time to live. So the lease time left
// is the key's time to live, less the difference between Retain and LockTTL. Only a claim
// that is in progress and a record with a Remember need their time to live. A script
// then reads the value and its time to live in one step, and in a second round trip.
//
// A claim with a Remember asks for the time to live beside the SET, because a replay
// needs it (see asksLate). But SET and PTTL are two commands, and another client's
// command may run between SET and PTTL. SET returns the value at the start of the round
// trip, so there are three cases:
//
//   - The claim was extended: PTTL returns the new time to live. The lease is
//     running.
//   - The claim was settled, or settled and claimed again: PTTL belongs to another
//     value. The key was in progress at SET, but may wrongly look abandoned. So
//     Acquire treats a key as abandoned only when a second look finds the same value,
//     which then existed at the first PTTL. For a take-over, replaceScript compares
//     value and time to live in one atomic step.
//   - The key expired: PTTL returns noKey, and the next round claims the key.
//
// A record with a Remember is a tombstone when its key has at most Remember to live.
// Again the PTTL may belong to another value, and so may the response. So a second
// look, by a script, must confirm that an abandoned key is a tombstone, and that a
// response is missing.
//
// An AutoPipeliner merges single commands of several callers, but no pipelines. With it
// every claim asks late.
//
// A server that refuses all writes for now refuses the SET and still reads: a key that
// exists is looked at, so that a retry gets its replay.
func (s *Store) claimOrLook(ctx context.Context, c *storage.Claim, value []byte) (*snapshot, error) {
	key, life, late := c.Key, lifetime(c.Retain, c.Remember), s.asksLate(c)
	return boundedCommands(ctx, s, func(ctx context.Context) (*snapshot, error) {
		found, left, response, err := s.set(ctx, key, value, life, late)
		switch {
		case isNil(err) && s.replicas.wanted > 0:
			return look(value, lifeLeft(life), nil)
		case isNil(err):
			return nil, nil //nolint:nilnil // the key did not exist: the caller holds the lease
		case err != nil && refusesWrites(err):
			seen, unread := s.lookClosely(ctx, key, new(snapshot))
			if unread != nil || seen.gone {
				return nil, err
			}
			return seen, nil
		case err != nil:
			return nil, err
		}
		seen, err := look(found, left, response)
		if err != nil || !seen.doubtful(late) {
			return seen, err
		}
		return s.lookClosely(ctx, key, seen)
	})
}

// asksLate reports whether a claim asks for the time to live only of a record that it
// finds in progress. A PTTL beside each SET took a fifth to a quarter of the claims'
// throughput. With a Remember, each finished record needs its time to live.
func (s *Store) asksLate(c *storage.Claim) bool { return s.merges || c.Remember == 0 }

// set sets a key that does not exist, or returns the key's value, its time to live and
// its response. Where the claim asks late, the time is noKey. A retry by
// go-redis, after a connection broke, finds its own claim.
func (s *Store) set(
	ctx context.Context, key string, value []byte, life int64, late bool,
) (there []byte, left time.Duration, response []byte, err error) {
	full := s.prefix + key
	arguments := []any{"set", full, value, "px", life, "nx", "get"}
	if late {
		there, err = setAlone(ctx, s, arguments)
		return there, noKey, nil, err
	}
	found := redis.NewStringCmd(ctx, arguments...)
	lives := redis.NewIntCmd(ctx, "pttl", full)
	pipeline := s.client.Pipeline()
	_ = pipeline.BatchProcess(ctx, found, lives) // Exec sends the commands
	name, _ := s.responseKey(key)
	apart := pipeline.Get(ctx, name)
	exec(ctx, pipeline)
	if there, err = found.Bytes(); err == nil {
		err = lives.Err()
		response, _ = apart.Bytes() // its error is found again by lookClosely
	}
	return there, lifeLeft(lives.Val()), response, err
}

// setAlone sends a SET with NX and GET, and reads its raw reply. The usual reply, that there is
// no such key, is an error for go-redis. To find out that the error is harmless takes 20
// allocations, and 7 to 9 % of the client's time for a claim and its settlement. But go-redis
// takes every raw reply for success. So after an error it gets the command again, to follow
// MOVED or to wait for a new master.
func setAlone(ctx context.Context, s *Store, arguments []any) (there []byte, err error) {
	raw := redis.NewRawCmd(ctx, arguments...)
	if err := s.process(ctx, raw); err != nil {
		return nil, err
	}
	head, rest, _ := bytes.Cut(raw.Val(), []byte("\r\n"))
	switch {
	case string(head) == "$-1", string(head) == "_": // of RESP2 and of RESP3
		return nil, redis.Nil
	case len(head) > 0 && head[0] == '$':
		return rest[:len(rest)-2], nil
	}
	found := redis.NewStringCmd(ctx, arguments...)
	if err = s.process(ctx, found); err == nil {
		there, err = found.Bytes()
	}
	return there, err
}

// openTo reports whether the claim of a lease may replace the value, and makes the
// lease the new one. The value may be replaced only while the key has at most latest
// milliseconds to live.
func (s *snapshot) openTo(l *storage.Lease) (latest int64, open bool) {
	l.Attempt, l.TookOver, l.Steps = s.record.Attempt+1, false, ""
	switch {
	case s.forgotten:
		return anyTimeLeft, true
	case s.record.State == storage.Released && l.Repeats(s.record.Fingerprint, s.record.Digest):
		l.Steps = s.record.Steps
		return anyTimeLeft, true
	case s.record.State != storage.InProgress:
		return 0, false
	case s.token == l.Token:
		// An earlier call claimed the key and its reply was lost, or the replicas
		// have not been asked yet. Renew the claim.
		l.Attempt, l.TookOver, l.Steps = s.record.Attempt, s.tookOver, s.record.Steps
		return anyTimeLeft, true
	case s.record.Abandoned() && l.TakeOver && l.Repeats(s.record.Fingerprint, s.record.Digest):
		l.TookOver, l.Steps = true, s.record.Steps
		return milliseconds(s.afterLease()), true
	default:
		return 0, false
	}
}

// replace claims a key that exists. If the key still has the seen value, replace
// returns seen. Otherwise it returns a snapshot of the new value, or nil if the key
// is gone.
func (s *Store) replace(ctx context.Context, seen *snapshot, lease *storage.Lease, latest int64) (*snapshot, error) {
	next := *lease
	value := encodeClaim(&next, time.Now())
	return boundedCommands(ctx, s, func(ctx context.Context) (*snapshot, error) {
		arguments := []any{seen.value, value, lifetime(next.Retain, next.Remember), latest}
		if seen.remember > 0 {
			arguments = append(arguments, milliseconds(seen.remember))
		}
		command, unconfirmed := s.write(ctx, replaceScript, []string{s.prefix + next.Key}, arguments...)
		reply, err := command.Result()
		if isNil(err) {
			return nil, nil //nolint:nilnil // the key is gone
		}
		there, other := reply.([]any)
		switch {
		case err != nil:
			return seen, err
		case !other && unconfirmed != nil:
			return seen, s.undoClaim(ctx, next, value, unconfirmed)
		case !other:
			return seen, nil
		}
		instead, err := lookExactly(there)
		if err == nil && instead.lost {
			return s.lookClosely(ctx, next.Key, instead)
		}
		return instead, err
	})
}

// busy is the record that Acquire returns for a key that changed in every round: the last
// known holder.
func (s *snapshot) busy() *storage.Record {
	return &storage.Record{
		State: storage.InProgress, Fingerprint: s.record.Fingerprint, Digest: s.record.Digest, Attempt: s.record.Attempt, LeaseLeft: briefLease,
		Steps: s.record.Steps,
	}
}
