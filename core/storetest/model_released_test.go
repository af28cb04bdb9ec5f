package storetest

import (
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// The bugs of keys that are released with steps.
const (
	releasedWithoutSteps bug = iota + 2000
	releasedAsAbandoned
	releasedForAnyRequest
	releasedOnlyForTakeOver
	releasedCountsAsTakenOver
	releasedKeepsAttempt
	releasedByDigestAlone
	releasedByFingerprintAlone
	releasedOnce
	releasedUnfenced
	releasedInTime
	releasedLostForgotten
	releasedTombstone
	releasedUntilTheClaimsEnd
	releasedFinished
	releasedCreatedAnew
	releasedStepsCutShort
	releasedNotAtomic
	releasedUnlisted
	releasedSettled
	releasedNotForgotten
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

func releasedBugs() []brokenStore {
	return []brokenStore{
		{"release drops the steps", releasedWithoutSteps, "release with steps"},
		{"a key released with steps is abandoned", releasedAsAbandoned, "release with steps"},
		{"a key released with steps goes to any request", releasedForAnyRequest, "release with steps"},
		{"a key released with steps goes to claims that take over", releasedOnlyForTakeOver, "release with steps"},
		{"a key released with steps counts as taken over", releasedCountsAsTakenOver, "release with steps of a later attempt"},
		{"a key released with steps keeps its attempt number", releasedKeepsAttempt, "release with steps of a later attempt"},
		{"a key released with steps goes by its digest alone", releasedByDigestAlone, "a released request by its digest or its fingerprint"},
		{"a key released with steps goes by its fingerprint alone", releasedByFingerprintAlone, "a released request by its digest or its fingerprint"},
		{"a release with steps cannot be repeated", releasedOnce, "release with steps again"},
		{"a release with steps ignores the token", releasedUnfenced, "release with steps too late"},
		{"a release with steps insists on the lease", releasedInTime, "release with steps after the lease ran out"},
		{"a release with steps of a lost claim is forgotten", releasedLostForgotten, "release with steps of a claim that the store lost"},
		{"a key released with steps leaves a tombstone", releasedTombstone, "a key that is released with steps expires"},
		{"a key released with steps expires with its claim", releasedUntilTheClaimsEnd, "a key that is released with steps expires"},
		{"a key released with steps is finished", releasedFinished, "times of a key that is released with steps"},
		{"a key released with steps was claimed at its release", releasedCreatedAnew, "times of a key that is released with steps"},
		{"claiming a key released with steps is not atomic", releasedNotAtomic, "concurrent claims of a key that is released with steps"},
		{"a release cuts steps after 65,535 bytes", releasedStepsCutShort, "release with large steps, of any text"},
		{"a key released with steps is not listed", releasedUnlisted, "inspect a key that is released with steps"},
		{"a key released with steps is settled by hand", releasedSettled, "inspect a key that is released with steps"},
		{"a key released with steps is not forgotten", releasedNotForgotten, "forget a key that is released with steps"},
	}
}
