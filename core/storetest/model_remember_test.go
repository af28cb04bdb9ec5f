package storetest

import (
	"strings"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// The bugs of tombstones.
const (
	tombstonesForgotten           bug = "tombstones are forgotten"
	tombstoneClaimed              bug = "a remembered key is claimed"
	tombstoneClaimedByItsHolder   bug = "a remembered key is claimed by its holder"
	tombstoneTakenOver            bug = "a remembered key is taken over"
	tombstoneCompleted            bug = "a tombstone is completed"
	tombstoneReleased             bug = "a tombstone is released"
	tombstoneExtended             bug = "a tombstone is extended"
	tombstoneKeepsResponse        bug = "a tombstone has the response"
	tombstoneKeepsSketch          bug = "a tombstone has the sketch"
	tombstoneKeepsSteps           bug = "a tombstone has the steps"
	tombstoneWithoutStatus        bug = "a tombstone has no status"
	tombstoneOfAbandonedHasStatus bug = "the tombstone of an abandoned key has a status"
	tombstoneWithoutFingerprint   bug = "a tombstone has no fingerprint"
	tombstoneTrimsFingerprint     bug = "a tombstone trims the fingerprint"
	tombstoneWithoutDigest        bug = "a tombstone has no digest"
	tombstoneOfTheFirstAttempt    bug = "a tombstone is of the first attempt"
	tombstoneLate                 bug = "a tombstone comes late"
	tombstonesForEver             bug = "tombstones stay for ever"
	rememberTooShort              bug = "tombstones expire early"
	rememberOfTheClaim            bug = "a response is remembered for the claim's Remember"
	attemptsCountPastTombstones   bug = "attempts count past a tombstone"
	abandonedNotRemembered        bug = "an abandoned key is forgotten after its Retain"
	releasedRemembered            bug = "a released key is remembered"
	extendForgetsRemember         bug = "extend forgets the Remember"
	lookUpWithoutTombstones       bug = "a look-up finds no tombstone"
	lookUpOfExpired               bug = "a look-up finds a record that has expired"
	listWithoutTombstones         bug = "tombstones are not listed"
	listOfExpired                 bug = "records that have expired are listed"
	forgetIgnoresTombstones       bug = "forget leaves a tombstone"
	forgetOfTombstoneUntold       bug = "forget of a tombstone is not reported"
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
	if m.bug == buriesWhatItGave {
		e.Record = m.tombstone(e)
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
