package storetest

import (
	"context"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

func (m *model) lookUp(key string) *entry {
	e, now := m.records[m.name(key)], time.Now()
	if m.bug == expiresEarly {
		now = now.Add(20 * time.Millisecond)
	}
	if e == nil || m.bug != expiresNever && !now.Before(e.expires) {
		return m.bury(e, now)
	}
	return e
}

// given returns the record itself in place of a copy, or nil.
func (m *model) given(e *entry, now time.Time) *storage.Record {
	switch m.bug {
	case changesWhatItGave, extendChangesWhatItGave, timesWhatItGave:
		e.Record.LeaseLeft = e.leaseEnd.Sub(now)
		return &e.Record
	default:
		return nil
	}
}

// keepEnd lets a claim end with the record before it.
func (m *model) keepEnd(before *entry, c storage.Claim) {
	if before == nil {
		return
	}
	held, own := m.records[m.name(c.Key)], before.Token == c.Token
	switch {
	case m.bug == takeOverKeepsRemember && before.State == storage.InProgress:
		held.remember = before.remember
	case m.bug == takeOverKeepsEnd && before.State == storage.InProgress && !own, m.bug == ownClaimKeepsEnd && own,
		m.bug == reclaimKeepsEnd && before.State == 0, m.bug == reclaimOfStepsKeepsEnd && before.State == storage.Released:
		held.expires = before.expires
	}
}

// isOver reports whether the entry has an outcome, or is a tombstone.
func (e *entry) isOver() bool { return e.State >= storage.Completed && e.State <= storage.Expired }

// foreign reports whether the record belongs to another lease.
func (m *model) foreign(e *entry, l storage.Lease) bool {
	if m.bug == attemptForToken {
		return e.Lease.Attempt != l.Attempt
	}
	return e.Token != l.Token || e.Lease.Attempt != l.Attempt && m.bug != tokenForAttempt
}

func (m *model) sameRequest(l storage.Lease, c storage.Claim) bool {
	if m.bug == fingerprintTrimmed {
		l.Fingerprint, c.Fingerprint = strings.TrimRight(l.Fingerprint, " "), strings.TrimRight(c.Fingerprint, " ")
	}
	switch {
	case m.bug == takeOverByFingerprintAlone:
		return l.Fingerprint == c.Fingerprint
	case m.bug == takeOverByDigestAlone:
		return l.Digest == c.Digest
	case m.bug == zeroDigestsMatch && l.Digest == c.Digest:
		return true
	default:
		return c.Repeats(l.Fingerprint, l.Digest)
	}
}

func (m *model) digest(l storage.Lease) storage.Digest {
	switch m.bug {
	case digestForgotten:
		return storage.Digest{}
	case digestCutShort:
		l.Digest[15] = 0
	default:
	}
	return l.Digest
}

func (m *model) abandoned(e *entry, c storage.Claim, now time.Time) bool {
	switch m.bug {
	case takeOverTooEarly:
		now = now.Add(20 * time.Millisecond)
	case leaseOfTheAsker:
		return !now.Before(e.leaseEnd.Add(c.LockTTL - e.LockTTL))
	default:
	}
	return !now.Before(e.leaseEnd)
}

func (m *model) name(key string) string {
	if m.bug == oneKeyForAll {
		return ""
	}
	return key
}

// gap lets other callers in at a place that should be atomic.
func (m *model) gap(b bug) {
	if m.bug == b {
		m.mutex.Unlock()
		<-time.After(time.Microsecond)
		m.mutex.Lock()
	}
}

func (m *model) ended(ctx context.Context) error {
	switch {
	case m.bug == contextIgnored || ctx.Err() == nil:
		return nil
	case m.bug == contextErrorHidden:
		return storage.ErrStoreFull
	default:
		return ctx.Err()
	}
}
