package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// The bugs of lists and of Settle.
const (
	listIgnoresRoute           bug = "a list ignores the route"
	listIgnoresAge             bug = "a list ignores the age"
	listOfRunningAsAbandoned   bug = "running records are listed as abandoned"
	listOfOneState             bug = "only the first state is listed"
	listWithoutLeaseLeft       bug = "LeaseLeft of an abandoned record that is listed is zero"
	listOfYoungTombstones      bug = "tombstones are never old"
	listIgnoresLookAt          bug = "a list ignores LookAt"
	listIgnoresWithin          bug = "a list ignores Within"
	listStandsStill            bug = "a list with a small budget does not advance"
	listCountsMatches          bug = "a list counts only matches"
	decideAsCompleted          bug = "an operator's confirmation makes a response"
	decideWithoutStatus        bug = "a settled record has no status"
	decideForgetsOrigin        bug = "a settled record has no origin"
	decideKeepsSteps           bug = "a settled record has steps"
	decideProlongs             bug = "a settled record lives longer"
	decideForgetsRemember      bug = "a settled record is not remembered"
	decideRemembersReleased    bug = "a key that was released by hand is remembered"
	decideForgetsAttempt       bug = "a key that was released by hand counts from one"
	decideKeepsStepsOfReleased bug = "a key that was released by hand has steps"
	decideKeepsToken           bug = "a settled key is still its holder's"
	decideReleasesForHolder    bug = "a key that was released by hand is still its holder's"
	decideLiveLeases           bug = "a running key is settled by hand"
	decideAnyAttempt           bug = "any attempt is settled by hand"
	decideFinished             bug = "a finished key is settled by hand"
	decideReleased             bug = "a released key is settled by hand"
	decideTombstones           bug = "a tombstone is settled by hand"
	decideByAnyConfirmation    bug = "any confirmation settles"
	decideNotAtomic            bug = "settling by hand is not atomic"
	decideByAttempt            bug = "settling by hand is atomic in the attempt alone"
)

func (m *model) Settle(ctx context.Context, key string, attempt uint64, confirmation storage.Confirmation) error {
	if err := m.inspect(ctx); err != nil {
		return err
	}
	defer m.mutex.Unlock()
	switch {
	case m.bug == decideByAnyConfirmation && confirmation != storage.Happened:
		confirmation = storage.DidNotHappen
	case confirmation != storage.Happened && confirmation != storage.DidNotHappen:
		return errors.New("pass storage.Happened or storage.DidNotHappen")
	}
	e := m.lookUp(key)
	if !m.decidable(e, attempt) {
		return storage.ErrNotAbandoned
	}
	m.gap(decideNotAtomic)
	if m.gap(decideByAttempt); m.bug == decideByAttempt {
		if e = m.lookUp(key); e == nil || e.State == 0 || e.Lease.Attempt != attempt {
			return storage.ErrNotAbandoned
		}
	}
	if confirmation == storage.Happened {
		m.records[key] = m.happened(e)
	} else {
		m.didNotHappen(key, e)
	}
	return nil
}

func (m *model) decidable(e *entry, attempt uint64) bool {
	switch {
	case e == nil:
		return false
	case e.State == storage.Expired:
		return m.bug == decideTombstones
	case e.State == 0:
		return m.bug == decideReleased && e.Lease.Attempt == attempt
	case e.State == storage.Released:
		return m.bug == releasedSettled
	case e.State != storage.InProgress:
		return m.bug == decideFinished
	case e.Lease.Attempt != attempt:
		return m.bug == decideAnyAttempt
	default:
		return !time.Now().Before(e.leaseEnd) || m.bug == decideLiveLeases
	}
}

func (m *model) happened(e *entry) *entry {
	settled := &entry{Lease: e.Lease, expires: e.expires, remember: e.remember, Record: storage.Record{
		State: storage.Unreplayable, Status: storage.StatusByHand, Fingerprint: e.Lease.Fingerprint, Digest: e.Lease.Digest, Attempt: e.Lease.Attempt,
		Origin: e.Record.Origin, Created: e.Created, Finished: time.Now(), Expires: e.expires,
	}}
	settled.Token = storage.NewToken()
	switch m.bug {
	case decideKeepsToken:
		settled.Token = e.Token
	case decideProlongs:
		settled.expires = time.Now().Add(e.Retain)
	case decideForgetsRemember:
		settled.remember = 0
	case decideForgetsOrigin:
		settled.Record.Origin = storage.Origin{}
	case decideAsCompleted:
		settled.State = storage.Completed
	case decideWithoutStatus:
		settled.Status = 0
	case decideKeepsSteps:
		settled.Record.Steps = e.Record.Steps
	default:
	}
	return settled
}

func (m *model) didNotHappen(key string, e *entry) {
	released := &entry{Lease: e.Lease, expires: e.expires}
	released.Token, released.Lease.Steps = storage.NewToken(), ""
	switch {
	case m.bug == decideForgetsAttempt && e.Lease.Attempt == 1:
		delete(m.records, key)
		return
	case m.bug == decideReleasesForHolder:
		released.Token = e.Token
	case m.bug == decideKeepsStepsOfReleased:
		released.Lease.Steps = e.Lease.Steps
	case m.bug == decideRemembersReleased:
		released.remember = e.remember
		released.Record = storage.Record{Fingerprint: fingerprint}
	}
	m.records[key] = released
}

// isFilteredOut applies the filter of a list.
func (m *model) isFilteredOut(f storage.Filter, r *storage.Record) bool {
	switch m.bug {
	case listOfAllStates:
		return false
	case listIgnoresRoute:
		f.Route = ""
	case listIgnoresAge:
		f.OlderThan = 0
	case listOfRunningAsAbandoned:
		if f.Abandoned {
			f.Abandoned, f.States = false, []storage.State{storage.InProgress}
		}
	case listOfOneState:
		f.States = f.States[:min(1, len(f.States))]
	case listOfYoungTombstones:
		if r.State == storage.Expired && f.OlderThan > 0 {
			return true
		}
	default:
	}
	return !f.Matches(r, time.Now())
}

// spent reports whether the budget of a page is spent. Looking takes some time.
func (m *model) spent(page storage.Page, looked int, began time.Time) bool {
	if looked == 0 && m.bug != listStandsStill {
		return false
	}
	if page.Within < time.Millisecond {
		<-time.After(time.Microsecond)
	}
	return looked >= page.LookAt && m.bug != listIgnoresLookAt || time.Since(began) >= page.Within && m.bug != listIgnoresWithin
}

func (m *model) counted(l storage.Listing) storage.Listing {
	if m.bug == listCountsMatches {
		l.LookedAt = len(l.Entries)
	}
	return l
}
