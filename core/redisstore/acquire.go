package redisstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/storage"
)

const (
	// acquireRounds bounds how often Acquire looks at a key that changes under
	// its eyes (case 2).
	acquireRounds = 3
	// momentary is the lease of a holder who cannot be caught: some, so that
	// nobody takes it for abandoned.
	momentary = time.Millisecond
	// noExpiry and noKey are what go-redis makes of PTTL's -1 and -2.
	noExpiry, noKey = time.Duration(-1), time.Duration(-2)
	// whenever is a time to live, in milliseconds, that no key exceeds.
	whenever = 1 << 52
)

// Acquire implements [storage.Store]. A value that is no record is a wrapped
// storage.ErrCorruptRecord that names the key and says what is wrong; so is a
// record in progress whose expiry somebody has removed, because the end of its
// lease is then unknown. A finished record without expiry is replayed.
//
// The first Acquire of a Store takes a round trip more: like [Store.Check], it asks
// whether this process may settle what it claims. If not, it claims nothing and
// returns a wrapped storage.ErrStoreForbidden.
func (s *Store) Acquire(ctx context.Context, c storage.Claim) (storage.Lease, *storage.Record, error) {
	if err := s.permit(ctx); err != nil {
		return storage.Lease{}, nil, s.failure("acquire", c.Key, err)
	}
	lease, record, err := s.acquire(ctx, c)
	if err != nil {
		return storage.Lease{}, nil, s.failure("acquire", c.Key, err)
	}
	s.evictionOnce.Do(func() { go s.warnOfEviction() })
	return lease, record, nil
}

func (s *Store) acquire(ctx context.Context, c storage.Claim) (storage.Lease, *storage.Record, error) {
	first := storage.Lease{Claim: c, Attempt: 1}
	value := encodeClaim(first, time.Now())
	var seen, last *sighting
	for round := 1; ; round++ {
		if seen == nil {
			var err error
			if seen, err = s.claimOrLook(ctx, c, value); err != nil || seen == nil {
				return first, nil, err
			}
		}
		next, latest, open := seen.openTo(c)
		switch {
		case open:
			instead, err := s.replace(ctx, seen, next, latest)
			if err != nil || instead == seen {
				return next, nil, err
			}
			last, seen = seen, instead // somebody was faster
		case seen.certain(last):
			return storage.Lease{}, &seen.record, nil
		default: // it expired meanwhile, or that it is abandoned needs another look
			last, seen = seen, nil
		}
		if round == acquireRounds {
			return storage.Lease{}, cmp.Or(seen, last).busy(), nil
		}
	}
}

// sighting is what was found under a key.
type sighting struct {
	stored
	value []byte
	// exact: the value and its time to live were read at the same moment.
	exact bool
	// gone: the key expired while it was looked at.
	gone bool
}

// certain reports whether the record stands as it was seen; last is what was seen
// before, if anything. See claimOrLook.
func (s *sighting) certain(last *sighting) bool {
	if s.gone || s.exact || !s.record.Abandoned() {
		return !s.gone
	}
	return last != nil && last.record.Abandoned() && bytes.Equal(last.value, s.value)
}

// claimOrLook claims a key that does not exist, and returns nil, or what is there
// instead. It is one round trip. With [WaitReplicas] it returns the claim that it
// has made, as an earlier call's would be found: that is renewed, by a write that
// the replicas are asked about.
//
// The end of a lease is not in the record, which knows no clock but the server's:
// a claim is written to live for its Retain, so what is left of its lease is what
// is left of the key, less the difference of the two. But SET and PTTL are two
// commands, and another client's may come between them. What SET found was there
// when the round trip began, so these are the possibilities:
//
//   - The claim was extended: the PTTL is the new one, the lease is running.
//   - The claim was settled, or settled and claimed anew: the PTTL is of another
//     value. That it is in progress was true when SET looked; that it is abandoned
//     may be wrong. So Acquire believes the latter only when a second look finds
//     the same value, which was then there at the time of the first PTTL; a
//     take-over has replaceScript compare both at once.
//   - The key expired: the PTTL is noKey, and the next round will claim it.
//
// An AutoPipeliner merges commands with other callers', but not pipelines: see
// lookMerged.
func (s *Store) claimOrLook(ctx context.Context, c storage.Claim, value []byte) (*sighting, error) {
	return bounded(ctx, s, func(ctx context.Context) (*sighting, error) {
		key, retain := s.prefix+c.Key, milliseconds(c.Retain)
		found, left := s.set(ctx, key, value, retain)
		there, err := found.Bytes()
		switch {
		case errors.Is(err, redis.Nil) && s.replicas.wanted > 0:
			return look(value, lifeLeft(retain))
		case errors.Is(err, redis.Nil):
			return nil, nil //nolint:nilnil // nothing was there: the key is ours
		case err != nil:
			return nil, err
		case left == nil:
			return s.lookMerged(ctx, key, there)
		}
		return look(there, lifeLeft(left.Val()))
	})
}

// set sets a key that does not exist, or finds what is there, and what that has left
// to live, unless the client merges. A retry by go-redis, after a connection broke,
// finds its own claim.
func (s *Store) set(ctx context.Context, key string, value []byte, retain int64) (found *redis.StringCmd, left *redis.IntCmd) {
	found = redis.NewStringCmd(ctx, "set", key, value, "px", retain, "nx", "get")
	if s.merges {
		_ = s.client.Process(ctx, found) // which has the error
		return found, nil
	}
	left = redis.NewIntCmd(ctx, "pttl", key)
	pipeline := s.client.Pipeline()
	_ = pipeline.BatchProcess(ctx, found, left) // it sends nothing yet
	if _, failed := pipeline.Exec(ctx); failed != nil && found.Err() == nil {
		found.SetErr(failed)
	}
	return found, left
}

// lookMerged looks once more when a claim is there: only that needs to know its time
// to live, and so long after SET there may be another value. Hence the script, and a
// second round trip.
func (s *Store) lookMerged(ctx context.Context, key string, there []byte) (*sighting, error) {
	seen, err := look(there, noKey)
	if err != nil || !seen.gone {
		return seen, err
	}
	answer, err := lookScript.Run(ctx, s.client, []string{key}).Slice()
	if errors.Is(err, redis.Nil) {
		return seen, nil // it is gone
	}
	if err != nil {
		return nil, err
	}
	return lookExactly(answer)
}

// lookExactly reads what a script has found, a value and its time to live.
func lookExactly(found []any) (*sighting, error) {
	value, _ := found[0].(string)
	left, _ := found[1].(int64)
	seen, err := look([]byte(value), lifeLeft(left))
	if err == nil {
		seen.exact = true
	}
	return seen, err
}

func look(value []byte, left time.Duration) (*sighting, error) {
	held, err := decode(value)
	if err != nil {
		return nil, err
	}
	seen := &sighting{stored: held, value: value}
	err = seen.clock(left)
	return seen, err
}

// clock adds what is left of the lease, as the key has so much left to live.
func (s *sighting) clock(left time.Duration) error {
	if s.record.State != storage.InProgress {
		return nil
	}
	switch left {
	case noExpiry:
		return corrupt("it is in progress, but somebody has removed its expiry")
	case noKey:
		s.gone, s.record.LeaseLeft = true, momentary
	default:
		s.record.LeaseLeft = min(left-s.afterLease(), s.lease)
	}
	return nil
}

// openTo returns the lease that the claim may replace what is there with, as long
// as that has at most latest milliseconds to live.
func (s *sighting) openTo(c storage.Claim) (next storage.Lease, latest int64, open bool) {
	next = storage.Lease{Claim: c, Attempt: s.record.Attempt + 1}
	switch {
	case s.released:
		return next, whenever, true
	case s.record.State != storage.InProgress:
		return next, 0, false
	case s.token == c.Token:
		// An earlier call's success was hidden from its caller, or the replicas are
		// still to be asked: renew it.
		next.Attempt, next.TookOver = s.record.Attempt, s.tookOver
		return next, whenever, true
	case s.record.Abandoned() && c.TakeOver && c.Repeats(s.record.Fingerprint, s.record.Digest):
		next.TookOver = true
		return next, milliseconds(s.afterLease()), true
	default:
		return next, 0, false
	}
}

// replace claims a key that is not free, if it is still as it was seen, and then
// returns seen. Otherwise it returns what is there instead: nil when nothing is.
func (s *Store) replace(ctx context.Context, seen *sighting, next storage.Lease, latest int64) (*sighting, error) {
	value := encodeClaim(next, time.Now())
	return bounded(ctx, s, func(ctx context.Context) (*sighting, error) {
		command, unconfirmed := s.write(ctx, replaceScript, next.Key, seen.value, value, milliseconds(next.Retain), latest)
		answer, err := command.Result()
		if errors.Is(err, redis.Nil) {
			return nil, nil //nolint:nilnil // the key is gone
		}
		there, other := answer.([]any)
		switch {
		case err != nil:
			return seen, err
		case !other && unconfirmed != nil:
			return seen, s.giveBack(ctx, next, value, unconfirmed)
		case !other:
			return seen, nil
		}
		return lookExactly(there)
	})
}

// busy is the answer about a key that changed each time it was looked at. It had
// a holder in between, who left what is seen now.
func (s *sighting) busy() *storage.Record {
	return &storage.Record{
		State: storage.InProgress, Fingerprint: s.record.Fingerprint, Digest: s.record.Digest, Attempt: s.record.Attempt, LeaseLeft: momentary,
	}
}

// lifeLeft is PTTL's answer as go-redis makes a duration of it.
func lifeLeft(milliseconds int64) time.Duration {
	if milliseconds < 0 {
		return time.Duration(milliseconds) // noExpiry, noKey
	}
	return time.Duration(milliseconds) * time.Millisecond
}
