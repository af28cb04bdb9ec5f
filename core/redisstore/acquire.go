package redisstore

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core"
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

// Acquire implements [core.Store]. A value that is no record is a wrapped
// core.ErrCorruptRecord that names the key and says what is wrong; so is a
// record in progress whose expiry somebody has removed, because the end of its
// lease is then unknown. A finished record without expiry is replayed.
func (s *Store) Acquire(ctx context.Context, c core.Claim) (core.Lease, *core.Record, error) {
	lease, record, err := s.acquire(ctx, c)
	if err != nil {
		return core.Lease{}, nil, s.failure("acquire", c.Key, err)
	}
	s.evictionOnce.Do(func() { go s.warnOfEviction() })
	return lease, record, nil
}

func (s *Store) acquire(ctx context.Context, c core.Claim) (core.Lease, *core.Record, error) {
	first := core.Lease{Claim: c, Attempt: 1}
	value := encodeClaim(first, time.Now())
	var last *sighting
	for range acquireRounds {
		seen, err := s.claimOrLook(ctx, c, value)
		if err != nil || seen == nil {
			return first, nil, err
		}
		next, latest, open := seen.openTo(c)
		switch {
		case open:
			won, err := s.replace(ctx, seen, next, latest)
			if err != nil || won {
				return next, nil, err
			}
			// Somebody was faster: look who.
		case seen.gone:
			// It expired meanwhile: claim it.
		case !seen.record.Abandoned():
			return core.Lease{}, &seen.record, nil
		case last != nil && last.record.Abandoned() && bytes.Equal(last.value, seen.value):
			return core.Lease{}, &last.record, nil // see claimOrLook
		}
		last = seen
	}
	return core.Lease{}, last.busy(c), nil
}

// sighting is what was found under a key.
type sighting struct {
	stored
	value []byte
	// gone: the key expired while it was looked at.
	gone bool
}

// claimOrLook claims a key that does not exist, and returns nil, or what is there
// instead. It is one round trip.
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
func (s *Store) claimOrLook(ctx context.Context, c core.Claim, value []byte) (*sighting, error) {
	return bounded(ctx, s, func() (*sighting, error) {
		key, retain := s.prefix+c.Key, time.Duration(milliseconds(c.Retain))*time.Millisecond
		pipeline := s.client.Pipeline()
		// A retry by go-redis, after a connection broke, finds its own claim.
		found := pipeline.SetArgs(ctx, key, value, redis.SetArgs{Mode: "NX", TTL: retain, Get: true})
		left := pipeline.PTTL(ctx, key)
		_, failed := pipeline.Exec(ctx)
		there, err := found.Bytes()
		switch {
		case errors.Is(err, redis.Nil):
			return nil, nil //nolint:nilnil // nothing was there: the key is ours
		case err != nil:
			return nil, err
		case failed != nil:
			return nil, failed
		}
		return look(there, left.Val())
	})
}

func look(value []byte, left time.Duration) (*sighting, error) {
	held, err := decode(value)
	if err != nil {
		return nil, err
	}
	seen := &sighting{stored: held, value: value}
	if held.record.State != core.InProgress {
		return seen, nil
	}
	switch left {
	case noExpiry:
		return nil, corrupt("it is in progress, but somebody has removed its expiry")
	case noKey:
		seen.gone, seen.record.LeaseLeft = true, momentary
	default:
		seen.record.LeaseLeft = min(left-held.afterLease(), held.lease)
	}
	return seen, nil
}

// openTo returns the lease that the claim may replace what is there with, as long
// as that has at most latest milliseconds to live.
func (s *sighting) openTo(c core.Claim) (next core.Lease, latest int64, open bool) {
	next = core.Lease{Claim: c, Attempt: s.record.Attempt + 1}
	switch {
	case s.released:
		return next, whenever, true
	case s.record.State != core.InProgress:
		return next, 0, false
	case s.token == c.Token:
		// An earlier call's success was hidden from its caller: renew it.
		next.Attempt, next.TookOver = s.record.Attempt, s.tookOver
		return next, whenever, true
	case s.record.Abandoned() && c.TakeOver && s.record.Fingerprint == c.Fingerprint:
		next.TookOver = true
		return next, milliseconds(s.afterLease()), true
	default:
		return next, 0, false
	}
}

// replace claims a key that is not free, if it is still as it was seen.
func (s *Store) replace(ctx context.Context, seen *sighting, next core.Lease, latest int64) (bool, error) {
	value := encodeClaim(next, time.Now())
	return bounded(ctx, s, func() (bool, error) {
		return replaceScript.Run(ctx, s.client, []string{s.prefix + next.Key},
			seen.value, value, milliseconds(next.Retain), latest).Bool()
	})
}

// busy is the answer about a key that changed each time it was looked at.
func (s *sighting) busy(c core.Claim) *core.Record {
	record := core.Record{
		State: core.InProgress, Fingerprint: s.record.Fingerprint, Attempt: s.record.Attempt, LeaseLeft: momentary,
	}
	if s.released { // which keeps no fingerprint
		record.Fingerprint = c.Fingerprint
	}
	return &record
}
