package storetest

import (
	"strings"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// The bugs of origins and times.
const (
	completeOverwrites         bug = "complete overwrites"
	originForgotten            bug = "origins are forgotten"
	originOfResultForgotten    bug = "a finished record has no origin"
	originOfTheFirstAttempt    bug = "a record keeps its first origin"
	originOfLostClaimForgotten bug = "the origin of a lost claim is forgotten"
	originCutShort             bug = "a route ends after 127 bytes"
	originTrimmed              bug = "a holder loses its blanks"
	originOnlyWhole            bug = "an origin without a route is dropped"
	tombstoneKeepsOrigin       bug = "a tombstone has an origin"
	tombstoneKeepsTimes        bug = "a tombstone has the times of its record"
	tombstoneKeepsItsEnd       bug = "a tombstone has the end of its record"
	runningWithoutTimes        bug = "a record in progress has no times"
	runningIsFinished          bug = "a record in progress is finished"
	createdMovesWithExtend     bug = "extend moves the time of the claim"
	createdOfTheFirstAttempt   bug = "a take-over has the time of the first claim"
	createdByFinish            bug = "a finished record was claimed when it was finished"
	expiresStaysWithExtend     bug = "extend leaves the end"
	expiresWithTheClaim        bug = "a finished record ends with its claim"
	finishedForgotten          bug = "a finished record has no time of its Complete"
	finishedAtTheEnd           bug = "a finished record was finished at its end"
	ageIgnored                 bug = "the age of a lost claim is ignored"
	lookUpWithoutOrigin        bug = "a look-up has no origin"
	lookUpWithoutTimes         bug = "a look-up has no times"
	listWithoutOrigins         bug = "a list has no origins"
	listWithoutTimes           bug = "a list has no times"
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
