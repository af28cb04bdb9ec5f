package storetest

import (
	"strings"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// bury returns the tombstone of a record that has expired, or nil if there is none.
func (m *model) bury(e *entry, now time.Time) *entry {
	if e == nil || e.remember == 0 || m.unburied(e, now) {
		return nil
	}
	end := e.expires.Add(e.remember)
	if m.bug == rememberTooShort {
		end = e.expires.Add(e.remember / 2)
	}
	if !now.Before(end) && m.bug != tombstonesForEver {
		return nil
	}
	return &entry{Lease: e.Lease, expires: end, Record: m.tombstone(e)}
}

// unburied reports whether a bug loses the record of an entry at its end.
func (m *model) unburied(e *entry, now time.Time) bool {
	switch m.bug {
	case tombstonesForgotten:
		return true
	case abandonedNotRemembered:
		return e.State == storage.InProgress
	case tombstoneLate:
		return now.Sub(e.expires) < 15*time.Millisecond
	default:
		return false
	}
}

func (m *model) tombstone(e *entry) storage.Record {
	r := storage.Record{
		State: storage.Expired, Fingerprint: e.Lease.Fingerprint, Digest: e.Lease.Digest, Attempt: e.Lease.Attempt, Status: e.Status,
		Expires: e.expires.Add(e.remember),
	}
	switch m.bug {
	case tombstoneKeepsResponse:
		r.Header, r.Body = e.Header, e.Body
	case tombstoneKeepsOrigin:
		r.Origin = e.Record.Origin
	case tombstoneKeepsTimes:
		r.Created, r.Finished = e.Created, e.Finished
	case tombstoneKeepsItsEnd:
		r.Expires = e.expires
	case tombstoneKeepsSketch:
		r.Sketch = e.Sketch
	case tombstoneKeepsSteps:
		r.Steps = e.Record.Steps
	case tombstoneWithoutStatus:
		r.Status = 0
	case tombstoneOfAbandonedHasStatus:
		r.Status = max(e.Status, 500)
	case tombstoneWithoutFingerprint:
		r.Fingerprint = ""
	case tombstoneTrimsFingerprint:
		r.Fingerprint = strings.TrimSpace(r.Fingerprint)
	case tombstoneWithoutDigest:
		r.Digest = storage.Digest{}
	case tombstoneOfTheFirstAttempt:
		r.Attempt = 1
	default:
	}
	return r
}

// claimsTombstone reports whether a bug grants a lease of a remembered key.
func (m *model) claimsTombstone(e *entry, c storage.Claim) bool {
	switch m.bug {
	case tombstoneClaimed:
		return true
	case tombstoneClaimedByItsHolder:
		return e.Token == c.Token
	case tombstoneTakenOver:
		return c.TakeOver && e.Status == 0 && c.Repeats(e.Lease.Fingerprint, e.Lease.Digest)
	default:
		return false
	}
}

// attemptAfter returns the attempt of a claim whose key has no record.
func (m *model) attemptAfter(key string) uint64 {
	if e := m.records[m.name(key)]; e != nil && e.remember > 0 && m.bug == attemptsCountPastTombstones {
		return e.Lease.Attempt + 1
	}
	return 1
}

func (m *model) remember(l storage.Lease, res storage.Result) time.Duration {
	if m.bug == rememberOfTheClaim {
		return l.Remember
	}
	return res.Remember
}

func rememberBugs() []brokenStore {
	return []brokenStore{
		{"tombstones are forgotten", tombstonesForgotten, "a finished key is remembered"},
		{"a remembered key is claimed", tombstoneClaimed, "a finished key is remembered"},
		{"a tombstone has the response", tombstoneKeepsResponse, "a finished key is remembered"},
		{"a tombstone has the sketch", tombstoneKeepsSketch, "a finished key is remembered"},
		{"a tombstone has no status", tombstoneWithoutStatus, "a finished key is remembered"},
		{"a tombstone has no fingerprint", tombstoneWithoutFingerprint, "a finished key is remembered"},
		{"a tombstone has no digest", tombstoneWithoutDigest, "a finished key is remembered"},
		{"an abandoned key is forgotten after its Retain", abandonedNotRemembered, "an abandoned key is remembered"},
		{"a remembered key is claimed by its holder", tombstoneClaimedByItsHolder, "an abandoned key is remembered"},
		{"a remembered key is taken over", tombstoneTakenOver, "an abandoned key is remembered"},
		{"the tombstone of an abandoned key has a status", tombstoneOfAbandonedHasStatus, "an abandoned key is remembered"},
		{"a tombstone has the steps", tombstoneKeepsSteps, "an abandoned key is remembered"},
		{"a tombstone is of the first attempt", tombstoneOfTheFirstAttempt, "a later attempt is remembered"},
		{"a tombstone trims the fingerprint", tombstoneTrimsFingerprint, "any request is remembered"},
		{"a tombstone is completed", tombstoneCompleted, "a tombstone cannot be settled"},
		{"a tombstone is released", tombstoneReleased, "a tombstone cannot be settled"},
		{"a tombstone is extended", tombstoneExtended, "a tombstone cannot be settled"},
		{"tombstones stay for ever", tombstonesForEver, "a tombstone expires"},
		{"tombstones expire early", rememberTooShort, "a tombstone expires"},
		{"attempts count past a tombstone", attemptsCountPastTombstones, "a tombstone expires"},
		{"a response is remembered for the claim's Remember", rememberOfTheClaim, "the result decides what is remembered"},
		{"a released key is remembered", releasedRemembered, "a released key is not remembered"},
		{"extend forgets the Remember", extendForgetsRemember, "a renewed claim is remembered for as long"},
		{"a tombstone comes late", tombstoneLate, "concurrent claims at the end of a record"},
		{"a look-up finds no tombstone", lookUpWithoutTombstones, "look up a remembered key"},
		{"a look-up finds a record that has expired", lookUpOfExpired, "look up a remembered key"},
		{"tombstones are not listed", listWithoutTombstones, "list remembered keys"},
		{"records that have expired are listed", listOfExpired, "list remembered keys"},
		{"forget leaves a tombstone", forgetIgnoresTombstones, "forget a remembered key"},
		{"forget of a tombstone is not reported", forgetOfTombstoneUntold, "forget a remembered key"},
	}
}
