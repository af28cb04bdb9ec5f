package storetest

import (
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// The bugs of keys that are released with steps.
const (
	releasedWithoutSteps       bug = "release drops the steps"
	releasedAsAbandoned        bug = "a key released with steps is abandoned"
	releasedForAnyRequest      bug = "a key released with steps goes to any request"
	releasedOnlyForTakeOver    bug = "a key released with steps goes to claims that take over"
	releasedCountsAsTakenOver  bug = "a key released with steps counts as taken over"
	releasedKeepsAttempt       bug = "a key released with steps keeps its attempt number"
	releasedByDigestAlone      bug = "a key released with steps goes by its digest alone"
	releasedByFingerprintAlone bug = "a key released with steps goes by its fingerprint alone"
	releasedOnce               bug = "a release with steps cannot be repeated"
	releasedUnfenced           bug = "a release with steps ignores the token"
	releasedInTime             bug = "a release with steps insists on the lease"
	releasedLostForgotten      bug = "a release with steps of a lost claim is forgotten"
	releasedResultForgotten    bug = "a result after a release with steps is forgotten"
	releasedTombstone          bug = "a key released with steps leaves a tombstone"
	releasedUntilTheClaimsEnd  bug = "a key released with steps expires with its claim"
	releasedFinished           bug = "a key released with steps is finished"
	releasedCreatedAnew        bug = "a key released with steps was claimed at its release"
	releasedStepsCutShort      bug = "a release cuts steps after 65,535 bytes"
	releasedNotAtomic          bug = "claiming a key released with steps is not atomic"
	releasedUnlisted           bug = "a key released with steps is not listed"
	releasedSettled            bug = "a key released with steps is settled by hand"
	releasedNotForgotten       bug = "a key released with steps is not forgotten"
)

// keepReleased makes the record of a lease that is released with steps.
func (m *model) keepReleased(e *entry, l storage.Lease) {
	now := time.Now()
	released := &entry{Lease: l, expires: now.Add(l.Retain), Record: storage.Record{
		State: storage.Released, Fingerprint: l.Fingerprint, Digest: l.Digest, Attempt: l.Attempt, Steps: l.Steps,
		Origin: l.Origin, Created: now.Add(-l.Age), Expires: now.Add(l.Retain),
	}}
	if e != nil && m.bug != releasedCreatedAnew {
		released.Created = e.Created
	}
	switch m.bug {
	case releasedAsAbandoned:
		released.State = storage.InProgress
	case releasedTombstone:
		released.remember = l.Remember
	case releasedUntilTheClaimsEnd:
		released.expires = e.expires
	case releasedFinished:
		released.Finished = now
	case releasedStepsCutShort:
		released.Record.Steps = l.Steps[:min(len(l.Steps), 1<<16-1)]
	case releasedCreatedAnew:
		released.Created = now
	default:
	}
	m.records[l.Key] = released
}

// mayRelease reports whether the lease may be released with steps.
func (m *model) mayRelease(e *entry, l storage.Lease) bool {
	switch {
	case e == nil:
		return true
	case m.foreign(e, l) && m.bug != releasedUnfenced:
		return false
	case m.bug == releasedInTime && e.leaseEnd.Before(time.Now()), m.bug == releasedOnce && e.State == storage.Released:
		return false
	default:
		return e.State == storage.InProgress || e.State == storage.Released || e.State == 0
	}
}

// reclaims returns the lease of a claim that gets a Released key, or false.
func (m *model) reclaims(e *entry, c storage.Claim) (l storage.Lease, gets bool) {
	gets = c.Repeats(e.Lease.Fingerprint, e.Lease.Digest)
	switch m.bug {
	case releasedForAnyRequest:
		gets = true
	case releasedOnlyForTakeOver:
		gets = gets && c.TakeOver
	case releasedByDigestAlone:
		gets = c.Digest == e.Lease.Digest
	case releasedByFingerprintAlone:
		gets = c.Fingerprint == e.Lease.Fingerprint
	default:
	}
	l = storage.Lease{Claim: c, Attempt: e.Lease.Attempt + 1, TookOver: m.bug == releasedCountsAsTakenOver, Steps: e.Record.Steps}
	if m.bug == releasedKeepsAttempt {
		l.Attempt = e.Lease.Attempt
	}
	return l, gets
}
