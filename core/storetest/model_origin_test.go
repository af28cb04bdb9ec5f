package storetest

import (
	"strings"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// begin sets the origin and the times of a record in progress. before is the key's
// record until now, or nil.
func (m *model) begin(r *storage.Record, l storage.Lease, before *entry, now time.Time) {
	r.Origin, r.Created, r.Expires = m.origin(l, before), now.Add(-l.Age), now.Add(l.Retain)
	if m.bug == ageIgnored {
		r.Created = now
	}
	if before != nil && before.State == storage.InProgress {
		switch again := before.Lease.Attempt == l.Attempt; {
		case m.bug == createdMovesWithExtend && again:
			r.Created = now
		case again, m.bug == createdOfTheFirstAttempt:
			r.Created = before.Created
		}
	}
	switch m.bug {
	case runningWithoutTimes:
		r.Created, r.Expires = time.Time{}, time.Time{}
	case runningIsFinished:
		r.Finished = now
	case expiresStaysWithExtend:
		if before != nil && before.State == storage.InProgress {
			r.Expires = before.Record.Expires
		}
	default:
	}
}

// finish sets the origin and the times of a finished record.
func (m *model) finish(r *storage.Record, l storage.Lease, res storage.Result, now time.Time) {
	e := m.lookUp(l.Key)
	r.Origin, r.Created, r.Finished, r.Expires = m.origin(l, e), now.Add(-l.Age), now, now.Add(res.Retain)
	if e != nil {
		r.Created = e.Created
	}
	switch m.bug {
	case ageIgnored:
		r.Created = now
	case originOfResultForgotten:
		r.Origin = storage.Origin{}
	case finishedForgotten:
		r.Finished = time.Time{}
	case finishedAtTheEnd:
		r.Finished = r.Expires
	case expiresWithTheClaim:
		r.Expires = now.Add(l.Retain)
	case createdByFinish:
		r.Created = now
	default:
	}
}

func (m *model) origin(l storage.Lease, before *entry) storage.Origin {
	o := l.Origin
	switch m.bug {
	case originForgotten:
		return storage.Origin{}
	case originOfLostClaimForgotten:
		if before == nil && l.Attempt > 1 {
			return storage.Origin{}
		}
	case originOfTheFirstAttempt:
		if before != nil && before.State == storage.InProgress {
			return before.Record.Origin
		}
	case originCutShort:
		o.Route = o.Route[:min(len(o.Route), 127)]
	case originTrimmed:
		o.Holder = strings.TrimSpace(o.Holder)
	case originOnlyWhole:
		if o.Route == "" {
			return storage.Origin{}
		}
	default:
	}
	return o
}

func originBugs() []brokenStore {
	return []brokenStore{
		{"origins are forgotten", originForgotten, "origin"},
		{"a finished record has no origin", originOfResultForgotten, "origin"},
		{"a route ends after 127 bytes", originCutShort, "origin"},
		{"a holder loses its blanks", originTrimmed, "origin"},
		{"an origin without a route is dropped", originOnlyWhole, "origin"},
		{"a look-up has no origin", lookUpWithoutOrigin, "origin"},
		{"a record keeps its first origin", originOfTheFirstAttempt, "origin of a take-over"},
		{"the origin of a lost claim is forgotten", originOfLostClaimForgotten, "origin of a claim that the store lost"},
		{"a tombstone has an origin", tombstoneKeepsOrigin, "a finished key is remembered"},
		{"a record in progress has no times", runningWithoutTimes, "times of a running key"},
		{"a record in progress is finished", runningIsFinished, "times of a running key"},
		{"extend moves the time of the claim", createdMovesWithExtend, "times of a running key"},
		{"extend leaves the end", expiresStaysWithExtend, "times of a running key"},
		{"a take-over has the time of the first claim", createdOfTheFirstAttempt, "times of a running key"},
		{"a finished record has no time of its Complete", finishedForgotten, "times of a finished key"},
		{"a finished record was finished at its end", finishedAtTheEnd, "times of a finished key"},
		{"a finished record was claimed when it was finished", createdByFinish, "times of a finished key"},
		{"a finished record ends with its claim", expiresWithTheClaim, "times of a finished key"},
		{"a repeated Complete moves the times", completeOverwrites, "times of a finished key"},
		{"a look-up has no times", lookUpWithoutTimes, "times of a finished key"},
		{"the age of a lost claim is ignored", ageIgnored, "times of a claim that the store lost"},
		{"a tombstone has the times of its record", tombstoneKeepsTimes, "times of a tombstone"},
		{"a tombstone has the end of its record", tombstoneKeepsItsEnd, "times of a tombstone"},
		{"a list has no origins", listWithoutOrigins, "list origins and times"},
		{"a list has no times", listWithoutTimes, "list origins and times"},
	}
}
